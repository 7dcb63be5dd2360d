"""Actors of `judgegym score --ray`: a judge with its client, and its calls for each task.

The calls travel back with the results of a task, so that the command records them in its ledger.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.engine.runs.ledger import CallKeys, DiskRowLedger
from judgegym.judges.config.batches import open_client
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    TaskJudge,
    judge_responses,
    score_or_fail,
)
from judgegym.judges.scorers.opening import open_judge
from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.ledger import (
    CallInProgress,
    CallKey,
    VerdictLocation,
    component,
    record_calls,
)
from judgegym.llm.types import ChatResponse

RecordedCalls: TypeAlias = "Mapping[str, Mapping[int, ChatResponse]]"
"""The recorded responses of a row, as `DiskRowLedger.held` returns them."""


@dataclass(slots=True)
class ActorRow:
    """The calls of one task in an actor, until the command records them (a `RowLedger`).

    Attributes:
        held: the responses that an earlier run has recorded for the row.
        calls: the calls by their keys, in their order.
        events: the methods of `RowLedger` that were called, with their arguments. Calls are named
            by their keys; requests are numbered within the task.
    """

    held: RecordedCalls
    calls: dict[str, CallKey] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _keys: CallKeys = field(default_factory=CallKeys)

    @property
    def name(self) -> str:
        """See `RowLedger`; an actor sends no batches."""
        return ""

    def open(self, call_key: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        """See `RowLedger`."""
        key = self._keys.begin_key(call_key)
        self.calls[key] = call_key
        return key, dict(self.held.get(key, {}))

    def holds(self, call_key: CallKey) -> bool:
        """See `RowLedger`."""
        return bool(self.held and self.held.get(self._keys.peek_key(call_key)))

    async def ready(self) -> float:
        """See `RowLedger`; an actor writes to no disk."""
        return 0.0

    def sent(self, number: int | None = None) -> int:
        """See `RowLedger`."""
        number = len(self.events) if number is None else number
        self.events.append(("sent", {"number": number}))
        return number

    def not_sent(self, number: int) -> None:
        """See `RowLedger`."""
        self.events.append(("not_sent", {"number": number}))

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        """See `RowLedger`."""
        arguments = {
            "call": call.key,
            "part": part,
            "number": number,
            "answer": answer,
            "verdict": verdict,
        }
        self.events.append(("answered", arguments))

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        """See `RowLedger`."""
        self.events.append(("failed", {"call": call.key, "number": number, "error": error}))

    async def record(self, row: DiskRowLedger) -> None:
        """Record the calls in the ledger of their row, under the ledger's own keys.

        Raises:
            DiskFull: the disk refused for too long.
        """
        await row.ready()
        calls = {
            key: CallInProgress(call_key, row, *row.open(call_key))
            for key, call_key in self.calls.items()
        }
        numbers = dict[int | None, int | None]()
        for method, arguments in self.events:
            number = numbers.get(
                arguments["number"]
            )  # `None` for a part that the cache or another call has answered
            if method == "sent":
                numbers[arguments["number"]] = row.sent(number)
            else:
                call_argument = {"call": calls[arguments["call"]]} if "call" in arguments else {}
                getattr(row, method)(**{**arguments, **call_argument, "number": number})


ActorResult: TypeAlias = "tuple[list[ResponseJudgment], ActorRow]"
"""A judgment for each response of a task, and the calls that were made."""


class JudgeActor:
    """Judges many tasks at once in its own process, with one client and a share of the limits."""

    def __init__(self, settings: DatasetJudgeSettings, identity: str) -> None:
        """Open nothing yet.

        Args:
            settings: the judge's settings, with the actor's share of the limits.
            identity: replaces the endpoint's URL in the cache key.
        """
        self._settings, self._identity = settings, identity
        self._stack = AsyncExitStack()
        self._scorer: TaskJudge | None = None
        self._opening = asyncio.Lock()

    async def ready(self) -> None:
        """Open the client.

        Raises:
            SettingsError: it cannot be opened here, such as for want of a key.
        """
        await self._open_scorer()

    async def score(
        self, task: JudgeTask, held: RecordedCalls, component_prefix: str
    ) -> ActorResult:
        """Judge the responses of a task.

        Args:
            task: the task.
            held: the responses that an earlier run has recorded.
            component_prefix: the prefix of the components of its calls.

        Raises:
            UserError: retrying cannot help.
        """
        scorer, row = await self._open_scorer(), ActorRow(held)
        with (
            record_calls(row),
            component(component_prefix.removesuffix("/")) if component_prefix else nullcontext(),
        ):
            return await score_or_fail(partial(judge_responses, scorer), task, "a task"), replace(
                row, held={}
            )

    async def _open_scorer(self) -> TaskJudge:
        async with self._opening:
            if self._scorer is None:
                self._scorer = await open_scorer(self._stack, self._settings, self._identity)
            return self._scorer


async def open_scorer(
    stack: AsyncExitStack, settings: DatasetJudgeSettings, identity: str
) -> TaskJudge:
    """Open a judge in this process, which may be one of several.

    Args:
        stack: closes its client.
        settings: the judge's settings, with this process's share of the limits.
        identity: replaces the endpoint's URL in the cache key.

    Raises:
        SettingsError: it cannot be opened here, such as for want of a key.
    """
    client = await open_client(stack, settings, identity=identity)
    if _was_restarted():
        await client.rates.use_up()
    return open_judge(settings, client)


def _was_restarted() -> bool:
    """Return whether this process is an actor that Ray has restarted.

    Then this minute's requests may have been sent already.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None and bool(context.was_current_actor_reconstructed)
