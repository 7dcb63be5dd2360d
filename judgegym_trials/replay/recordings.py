"""Client that replays the responses of recorded runs, and sends nothing.

A response is found by its row and its call: the component within its judge, vote, model, messages
and parameters, in the order among identical calls. It has the recorded usage, attempts and cost, so
the ledger, counts and cost of a replayed run are those of a live one.

Guarantees: a recorded failure fails again with its text; a call without a recording is one error
that names the row and the call. For a resumed run, the responses of its last part count.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from judgegym.engine.runs.ledger import AnswerLocation, CallKeys, DiskRowLedger
from judgegym.engine.runs.recorded_calls import read_answer, read_ledger
from judgegym.llm import wire
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, EndpointError, FailureKind
from judgegym.llm.ledger import CallKey, RequestRecord, call_key, current_row
from judgegym.llm.refusals.response_format import RESPONSE_FORMAT
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, Message

ROW: ContextVar[str] = ContextVar("row", default="")
"""The row whose calls are made, if no run records them."""
_FAILURE = re.compile(
    r"(.*?): (\w+)(?: HTTP (\d+))? after (\d+) requests?; last answer: (.*)", re.DOTALL
)
"""The text of an `EndpointError`."""
_Outcome: TypeAlias = "AnswerLocation | EndpointError"
"""A response in the file of responses, or a failure."""


def _is_reused(outcome: _Outcome) -> bool:
    """Return whether a resumed run reuses an outcome of a failed row: a response with a verdict."""
    return not isinstance(outcome, EndpointError) and bool(outcome[1])


class RecordedAnswers:
    """Responses and failures of a finished run.

    Memory holds their places; the responses are in a file.

    Attributes:
        run: its directory.
        takes_formats: whether any response has a response format.
    """

    def __init__(self, run: Path) -> None:
        """Read the ledger of a run.

        Raises:
            DataError: the run has no ledger.
            RunDirectoryError: it cannot be read.
        """
        self.run = run
        self.takes_formats = False
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as responses are read
        # By row, and by key; a failure in a ledger of an older version by its component, which is
        # all that it names.
        self._outcomes: dict[str, dict[str, list[_Outcome]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._last: dict[tuple[str, str], _Outcome] = {}
        self._keys: dict[str, CallKeys] = defaultdict(CallKeys)
        self._failed_rows = set[str]()
        lines = sum(1 for _ in read_ledger(run, lambda line: self._read_line(line.fields())))
        if not lines:
            raise DataError(
                f"{run}: it has no ledger of calls to replay; expected a run whose judge asks an "
                "endpoint (a rule asks none, so that judgegym score judges it again at no cost), "
                "with --keep_calls"
            )

    def _read_line(self, line: Mapping[str, Any]) -> None:
        if "call" in line:
            call = line["call"]
            place = self._file.seek(0, 2)
            self._file.write(wire.dumps({"answer": call["answer"]}) + b"\n")
            self._outcomes[call["row"]][call["key"]] = [
                (place, call["has_verdict"])
            ]  # replaces an earlier failure
            self.takes_formats |= RESPONSE_FORMAT in call["parameters"]
        elif "failed" in line and (match := _FAILURE.fullmatch(line["error"])) is not None:
            endpoint, kind, status, attempts, answer = match.groups()
            error = EndpointError(
                FailureKind(kind), endpoint=endpoint, answer=answer, attempts=int(attempts)
            )
            error.status = None if status is None else int(status)
            error.usage = Usage(**line["usage"])
            self._outcomes[line["row"]][line.get("key", line["component"])].append(error)
        elif "row_failed" in line:
            self._failed_rows.add(line["row_failed"])
        elif "resumed" in line:
            for row in self._failed_rows:
                for outcomes in self._outcomes[row].values():
                    outcomes[:] = filter(_is_reused, outcomes)
            self._failed_rows.clear()

    def _find_recorded(self, row: str, key: str, call: CallKey) -> list[_Outcome]:
        """Return the recordings of a call with this key; a call takes the first."""
        of_row = self._outcomes[row]
        return of_row[key] or of_row[call.component]

    def holds(self, row: str, call: CallKey) -> bool:
        """Return whether this call's response or failure is recorded."""
        return bool(self._find_recorded(row, self._keys[row].peek_key(call), call))

    def take(self, row: str, call: CallKey) -> ChatResponse | EndpointError | None:
        """Return the response or failure of a call that is made now; `None` if none is recorded.

        A call that was made once and is made again gets the same response at no cost (identical
        responses of a row shared it), or fails again.
        """
        key = self._keys[row].begin_key(call)
        recorded = self._find_recorded(row, key, call)
        request = (row, key.rpartition(".")[0])
        is_paid = bool(recorded)
        if recorded:
            self._last[request] = recorded.pop(0)
        outcome = self._last.get(request)
        if outcome is None or isinstance(outcome, EndpointError):
            return outcome
        self._file.seek(outcome[0])
        line: Any = wire.loads(self._file.readline())
        answer = read_answer(line)
        if is_paid:
            return answer
        return replace(answer, cached=True, attempts=0, usage=Usage())


def _current_uid() -> str:
    """Return the row whose calls are made."""
    row = current_row()
    if isinstance(row, DiskRowLedger):
        return row.key[0]
    return ROW.get()


class ReplayClient(ChatClient):
    """Client that answers judges' calls from recorded runs.

    The first part of a call's component names the judge.
    """

    def __init__(self, recorded: Mapping[str, RecordedAnswers], settings: ChatSettings) -> None:
        """Replay these runs; the settings name the model."""
        super().__init__(settings)
        self.recorded = recorded

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Return a client for another judge, with the same meter."""
        client = ReplayClient(self.recorded, settings)
        client.meter = self.meter
        self.siblings.append(client)
        return client

    def holds(
        self, messages: Sequence[Message], *, vote: int = 0, name: str = "", **how: Any
    ) -> bool:
        """Return whether the call is recorded.

        After a refused format the prompt has the form in words, as it had then.
        """
        parameters = self._parameters("default", "default", how.get("extra"), how.get("seed"))
        recorded, member_call = self._find_recording(
            call_key(name, vote, self._model, messages, parameters)
        )
        return recorded.holds(_current_uid(), member_call)

    def _find_recording(self, call: CallKey) -> tuple[RecordedAnswers, CallKey]:
        """Return the run that has a call's recording, and the call as that run made it."""
        member, _, component = call.component.partition("/")
        return self.recorded[member], replace(call, component=component)

    async def _ask_one(self, send: object, call: CallKey, *how: Any) -> ChatResponse:
        """Return the recorded response.

        Raises:
            EndpointError: the call has failed.
            DataError: the call is not recorded.
        """
        record: RequestRecord = how[-1]
        row = _current_uid()
        recorded, member_call = self._find_recording(call)
        outcome = recorded.take(row, member_call)
        if outcome is None:
            raise DataError(
                f"{recorded.run}: the call {member_call.component} of {row} to {member_call.model} "
                "is not recorded; expected the data and the settings with which the run was made"
            )
        for _ in range(outcome.attempts):
            record.note_sent()
        self.meter.usage += outcome.usage
        if isinstance(outcome, EndpointError):
            if recorded.takes_formats:  # then a failure is not a refusal of the format
                self.formats.taken_by.add(outcome.endpoint)
            raise outcome
        self.meter.answered += outcome.attempts > 0
        return outcome

    async def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        """Raise: nothing is sent.

        Raises:
            DataError: always.
        """
        raise DataError(
            "a call for several completions is not replayed; expected a judge that asks for one"
        )
