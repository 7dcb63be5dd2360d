"""Groups of rows for `serve`, `process` and the adapter to Atropos: recorded, and sent or dropped.

Guarantees: each group is recorded once, as sent or as dropped with a reason; all verbs drop the
same groups. The reasons:

* `no_signal`: equal scores, so all advantages are 0 (`ensure_scores_are_not_same`; off by default
  in `process`).
* `judge_failed`: fewer than two completions with a verdict, after two attempts at each.
* `policy_failed`: not sampled: the policy never responded, or without the requested tokens.
* `nothing_to_compare`: judged together, but one well-formed completion and no anchor.
* `too_long`: a sequence as long as the trainer allows, or longer; in `process` if
  `max_token_length` is set.
* `timed_out`: it took longer than `worker_timeout`.
* `refused`: the rollout API refused it.
* `pass_rate`: too hard or too easy by `min_pass_rate`, `max_pass_rate` of pairwise judgement.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from judgegym.data.rows import Task
from judgegym.engine.loop import FailureGuard, explain_unsampled, explain_unscored
from judgegym.engine.runs.ledger import DiskRowLedger
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import has_follow_up
from judgegym.environments.rollouts.groups import JudgedGroup, MissingTokensError, RolloutSource
from judgegym.environments.rollouts.sampling import roll_out
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.judges.core.seeding import use_group
from judgegym.llm.errors import EndpointError, SettingsError
from judgegym.llm.ledger import RowLedger, record_calls
from judgegym.llm.tracing import row_span

logger = logging.getLogger(__name__)

GroupOutcome = Literal["sent", "dropped", "failed"]
"""sent: the sink took the group. dropped: a trainer cannot use it, or the sink refused it. failed:
the policy or the judge failed."""

Sink = Callable[[JudgedGroup], Awaitable["str | None"]]
"""Takes a group, to send its `posts`; returns why it refuses the group, or `None`."""


@runtime_checkable
class DropsGroups(Protocol):
    """An environment that withholds scored groups from the trainer, such as too easy ones."""

    def drop_reason(self, judgments: Sequence[Judgment[Any]]) -> str | None:
        """Return the reason not to send a scored group, a word for `train/groups_dropped_{word}`.

        Return `None` to send it.


        Not called for a group that is judged together.
        """


class GroupPipeline:
    """Pipeline from rows to groups: it samples and judges, and hands the groups to a sink.

    Attributes:
        max_token_len: groups with a sequence of this many tokens or more are dropped; ≤ 0: no
            limit.
        on_group: called with each judged group, and the ledger of its calls, before it is dropped
            or handed over.
    """

    def __init__(
        self, env: JudgedEnv[Any, Any, Any], source: RolloutSource, metrics: TrainingMetrics
    ) -> None:
        """Sample rollouts from `source`, and record each group in `metrics`.

        Raises:
            SettingsError: turns are to be rewarded, but the environment has no scores of turns.
        """
        if env.config.reward_by == "turn":
            if env.group_judge is not None:
                raise SettingsError(
                    "--env.reward_by: a judge of groups has no score of each turn; got turn"
                )
            if not has_follow_up(env) or not issubclass(env.detail_type, ScoreParts):
                raise SettingsError(
                    f"--env.reward_by: {env.spec.name} has no score of each turn; got turn"
                )
        self._has_warned = False
        self.env = env
        self.max_token_len = -1
        self.on_group: Callable[[Task, JudgedGroup, RowLedger | None], None] = (
            lambda task, group, calls: None
        )
        self._source = source
        self._metrics = metrics
        self._guard = FailureGuard()

    async def run(self, task: Task, sink: Sink, calls: RowLedger | None = None) -> GroupOutcome:
        """Make the group of a row, and hand it to the sink unless it must be dropped.

        Args:
            task: the row.
            sink: takes the group.
            calls: records the calls of the group, and replays those of an earlier run.

        Raises:
            NothingSucceeds: an endpoint refused the first ten groups, so it would refuse the next.
        """
        limit, uid = self.env.config.worker_timeout, task.uid
        try:
            number = calls.key[1] if isinstance(calls, DiskRowLedger) else None
            with record_calls(calls), row_span(uid), use_group(number or 0):
                group = await asyncio.wait_for(
                    roll_out(self.env, self._source.sample, task), limit if limit > 0 else None
                )
        except asyncio.TimeoutError:
            self._metrics.record_given_up()
            return self._drop("timed_out", f"group {uid!r} took longer than env.worker_timeout")
        except (EndpointError, MissingTokensError) as error:
            if isinstance(error, EndpointError):
                self._metrics.record_unsampled(error.usage)
            self._guard.record_unsampled(error)
            problem = explain_unsampled(error)
            return self._drop(
                "policy_failed", f"group {uid!r} is dropped, its policy failed: {problem}"
            )
        await self._warn_about_breaks(uid, group)
        self._metrics.record_group(task, group)
        self.on_group(task, group, calls)
        self._guard.record_judged(group.judgments, has_scores=group.scores is not None)
        if group.comparison is not None and group.comparison.is_alone:
            return self._drop(
                "nothing_to_compare", f"group {uid!r} is dropped: it has nothing to compare"
            )
        if group.scores is None:
            problem = explain_unscored(group.judgments)
            return self._drop(
                "judge_failed", f"group {uid!r} is dropped, its judge failed: {problem}"
            )
        reason = self._drop_reason(group)
        if reason is not None:
            return self._drop(reason, f"group {uid!r} is dropped: {reason}")
        refusal = await sink(group)
        if refusal is not None:
            return self._drop("refused", f"group {uid!r} is refused: {refusal}")
        self._metrics.record_sent(sum(len(post.rollouts) for post in group.posts(self.env.config)))
        return "sent"

    async def _warn_about_breaks(self, uid: str, group: JudgedGroup) -> None:
        """Warn once that a conversation is not one sequence of tokens, and where it breaks."""
        first_broken = next(
            ((rollout, broken) for rollout in group.rollouts if (broken := rollout.first_break)),
            None,
        )
        if self._has_warned or first_broken is None:
            return
        self._has_warned = True
        rollout, (number, position) = first_broken
        before, prompt = (rollout.turns[index].sequence for index in (number - 2, number - 1))
        descriptions = []
        for ids in (before.tokens, prompt.prompt):
            description = "missing"
            if position < len(ids):
                token = ids[position]
                description = str(token)
                text = await self._source.decode(token)
                if text is not None:
                    description = f"{token} ({text!r})"
            descriptions.append(description)
        logger.warning(
            "row %r: turn %d does not begin with the tokens of the turn before: token %d was %s "
            "and is %s. The chat template or the tokenizer changes earlier turns: groups with such "
            "a rollout are sent turn by turn, each turn as a sequence of its own "
            "(train/one_sequence_rate)",
            *(uid, number, position, *descriptions),
        )

    def _drop_reason(self, group: JudgedGroup) -> str | None:
        """Return why a group with scores must be dropped, or `None`."""
        if not group.posts(self.env.config):
            return "no_signal"
        is_together, env = group.comparison is not None, self.env
        reason = None
        if isinstance(env, DropsGroups) and not is_together:
            reason = env.drop_reason(group.judgments)
        if reason is not None:
            return reason
        if 0 < self.max_token_len <= group.longest:
            return "too_long"
        return None

    def _drop(self, reason: str, message: str) -> GroupOutcome:
        self._metrics.total_dropped[reason] += 1
        level = logging.WARNING
        if reason == "no_signal":
            level = logging.DEBUG
        logger.log(level, "%s", message)
        if reason in ("policy_failed", "judge_failed"):
            return "failed"
        return "dropped"
