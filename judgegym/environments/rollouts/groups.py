"""Make a scored group of a row, for `serve`, `process` and the adapter to Atropos.

Sample the group, judge it, record its metrics, and drop it or hand it to a sink. Guarantees: each group is recorded
once, as sent or as dropped with a reason; all verbs drop the same groups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol

from judgegym.data.rows import TaskT
from judgegym.engine.loop import FailureGuard, why_unsampled, why_unscored
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.settings import EnvConfig
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.rollouts.judging import judge_completions_of, record_judged
from judgegym.environments.rollouts.scored_group import (
    GroupRewards,
    JudgedGroup,
    NoTokens,
    RolloutSource,
    RowOfGroup,
    longest,
    packed,
    scored_group,
    tokens,
)
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import RowLedger, recorded_in
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

_TOKENS_FOR_A_THREAD = 32_768
"""Packing so many takes two milliseconds; a thread takes a tenth of one."""

GroupOutcome = Literal["sent", "dropped", "failed"]
"""sent: the sink took the group. dropped: it is of no use to a trainer, or the sink refused it. failed: the policy or
the judge failed."""

RecordRollout = Callable[[MetricAggregator, int], None]
"""Records the metrics of the rollout with a number: the environment's own, or those of groups judged together."""


class Recorder(Protocol):
    """Records groups."""

    def record_group(self, group: JudgedGroup[Any], scores: GroupRewards | None, record_rollout: RecordRollout) -> None:
        """Record a judged group, before it is sent or dropped."""

    def record_unsampled(self, usage: Usage) -> None:
        """Record what a request to the policy cost that brought no group."""

    def record_sent(self, sequences: int) -> None:
        """Record that the sink took a group with this many sequences."""

    def record_dropped(self, reason: str) -> None:
        """Record that a group was dropped."""


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A group for a sink."""

    group: JudgedGroup[Any]
    scores: GroupRewards
    config: EnvConfig

    def data(self, row: RowOfGroup | None = None) -> dict[str, JSON]:
        """Return the group as the rollout API takes it; with its messages goes its `row`, if one is given."""
        config = self.config
        data = scored_group(
            self.group,
            self.scores,
            temperature=config.rollout_temperature,
            include_messages=config.include_messages,
        )
        if row is not None and config.include_messages:
            data["row"] = row.to_json(self.group.together)
        return data

    async def packed(self, row: RowOfGroup | None = None) -> bytes:
        """Return `data` as JSON; a group of many tokens is packed in a thread."""
        if tokens(self.group) < _TOKENS_FOR_A_THREAD:
            return packed(self.data(row))
        return await asyncio.to_thread(lambda: packed(self.data(row)))


Sink = Callable[[ScoredGroup], Awaitable["str | None"]]
"""Takes a group; returns why it refuses it, or `None`."""


class GroupPipeline(Generic[TaskT, DetailT]):
    """Makes groups of rows, and hands them to a sink."""

    def __init__(
        self,
        env: JudgedEnv[Any, TaskT, DetailT],
        source: RolloutSource,
        recorder: Recorder,
    ) -> None:
        """Set up the pipeline; `run` makes the groups.

        Args:
            env: the environment.
            source: samples the rollouts.
            recorder: records each group.
        """
        self.env = env
        self.max_token_len = -1
        """Drop groups with a sequence of this many tokens or more; ≤ 0: drop none."""
        self._source = source
        self._recorder = recorder
        self._guard = FailureGuard()

    async def run(self, task: TaskT, sink: Sink, calls: RowLedger | None = None) -> GroupOutcome:
        """Make the group of a row, and hand it to the sink unless it must be dropped.

        Args:
            task: the row.
            sink: takes the group.
            calls: records the calls of the group, and answers those that an earlier run has made.

        Raises:
            NothingSucceeds: an endpoint refused the first ten groups, so it would refuse the next.
        """
        limit = self.env.config.worker_timeout
        try:
            with recorded_in(calls):
                group = await asyncio.wait_for(self.roll_out(task), limit if limit > 0 else None)
        except asyncio.TimeoutError:
            return self._drop("timed_out", f"group {task.uid!r} took longer than env.worker_timeout")
        except (EndpointError, NoTokens) as error:
            if isinstance(error, EndpointError):
                self._recorder.record_unsampled(error.usage)
            self._guard.record_unsampled(error)
            what = f"group {task.uid!r} is dropped, its policy failed: {why_unsampled(error)}"
            return self._drop("policy_failed", what, outcome="failed")
        scores = group.scores

        def record_rollout(metrics: MetricAggregator, number: int) -> None:
            completion, judgment = group.rollouts[number].completion, group.judgments[number]
            record_judged(self.env, metrics, task, completion, judgment, group.together)

        self._recorder.record_group(group, scores, record_rollout)
        self._guard.record_judged(group.judgments, has_scores=scores is not None)
        if group.together is not None and group.together.is_alone:
            return self._drop("nothing_to_compare", f"group {task.uid!r} is dropped: it has nothing to compare")
        if scores is None:
            what = f"group {task.uid!r} is dropped, its judge failed: {why_unscored(group.judgments)}"
            return self._drop("judge_failed", what, outcome="failed")
        reason = self.drop_reason(group, scores)
        if reason is not None:
            return self._drop(reason, f"group {task.uid!r} is dropped: {reason}")
        refusal = await sink(ScoredGroup(group, scores, self.env.config))
        if refusal is not None:
            return self._drop("refused", f"group {task.uid!r} is refused: {refusal}")
        self._recorder.record_sent(len(group.rollouts))
        return "sent"

    async def roll_out(self, task: TaskT) -> JudgedGroup[Any]:
        """Sample `group_size` completions of the row's first conversation in one request, and judge them at once.

        Each is judged by itself, or, with a judge of groups, all of them against each other.

        Raises:
            EndpointError: the policy never answered.
            NoTokens: it answered without the tokens that it was asked for.
        """
        env = self.env
        conversation = env.checked_conversations(task)[0]
        rollouts, policy_run = await self._source.sample(conversation, env.config.group_size)
        judged = await judge_completions_of(env, task, [rollout.completion for rollout in rollouts])
        return JudgedGroup(conversation, tuple(rollouts), judged.judgments, judged.rewards, policy_run, judged.together)

    def drop_reason(self, group: JudgedGroup[Any], scores: GroupRewards) -> str | None:
        """Return why a group with scores must be dropped, or `None`."""
        if self.env.config.ensure_scores_are_not_same and scores.equal:
            return "no_signal"
        if group.together is None and (reason := self.env.drop_reason(group.judgments)) is not None:
            return reason
        return "too_long" if 0 < self.max_token_len <= longest(group) else None

    def _drop(self, reason: str, what: str, *, outcome: GroupOutcome = "dropped") -> GroupOutcome:
        self._recorder.record_dropped(reason)
        logger.log(logging.DEBUG if reason == "no_signal" else logging.WARNING, "%s", what)
        return outcome
