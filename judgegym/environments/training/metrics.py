"""Metrics of training under `train/`: the environment's own, and diagnostics that all environments share.

Pearson's correlation of rewards with something else, as a metric; left out where it is undefined.

Diagnostics of groups that were judged together: what calls they took, and whether places matter to the judge.

Log the metrics of training, to the log and to Weights & Biases, with a table of rollouts as Atropos has it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from judgegym.engine.metrics import MetricAggregator, Metrics
from judgegym.engine.settings import EnvConfig
from judgegym.environments.evaluate.metrics import record_critique
from judgegym.environments.rollouts.groups import RecordRollout
from judgegym.environments.rollouts.judging import first_equals
from judgegym.environments.rollouts.scored_group import GroupRewards, JudgedGroup, lengths
from judgegym.judges.core.group import Look, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import Status
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from judgegym.environments.rollouts.retokenize import Retokenizer


_LEAST = 3


def record_correlation(
    metrics: MetricAggregator, name: str, rewards: Sequence[float], others: Sequence[float], *, of: str, other: str
) -> None:
    """Record a correlation; with fewer than three pairs, or if one side is constant, the reason why there is none.

    Args:
        metrics: takes it.
        name: its name.
        rewards: the rewards.
        others: what each came with.
        of: what there is a pair for, in words.
        other: what each came with, in words.
    """
    import numpy as np  # late: only training needs it here

    if len(rewards) < _LEAST:
        metrics.leave_out(name, f"too few {of}")
    elif np.std(rewards) == 0 or np.std(others) == 0:
        metrics.leave_out(name, f"rewards or {other} are all the same")
    else:
        metrics.number(name, float(np.corrcoef(rewards, others)[0, 1]))


_NONE = "no group was judged together"


@dataclass(slots=True)
class GroupJudgeMetrics:
    """What was recorded since the last flush. An answer that several completions have was shown once."""

    groups: int = 0
    calls: int = 0
    again: int = 0
    orders: OrderAgreement = OrderAgreement()
    places: array[float] = field(default_factory=lambda: array("d"))
    """Where each look showed an answer, from 0 (first) to 1 (last)."""
    rewards: array[float] = field(default_factory=lambda: array("d"))
    """The reward of the answer of each look."""
    advantage: float = 0.0
    """The sum over groups of what the first place gained, each times its weight."""
    weight: float = 0.0

    def record(self, group: JudgedGroup[Any]) -> None:
        """Record a group, unless it had nothing to compare."""
        together = group.together
        if together is None or not together.calls:
            return
        self.groups += 1
        self.calls += together.calls
        self.again += together.is_again
        self.orders = OrderAgreement(
            self.orders.agreed + together.orders.agreed, self.orders.pairs + together.orders.pairs
        )
        seen: set[str] = set()
        shown: dict[int, list[Look]] = {}
        for rollout, judgment, reward in zip(group.rollouts, group.judgments, group.rewards, strict=True):
            answer, detail = rollout.completion.answer, judgment.detail
            if reward is None or not isinstance(detail, MemberDetail) or answer in seen:
                continue
            seen.add(answer)
            for look in detail.looks:
                if look.of > 1:
                    self.places.append((look.place - 1) / (look.of - 1))
                    self.rewards.append(reward)
                    shown.setdefault(look.of, []).append(look)
        for looks in shown.values():
            self._compare_first(looks)

    def _compare_first(self, looks: Sequence[Look]) -> None:
        """Add what the first place gained in the calls of one group that showed equally many answers.

        Other looks do not compare: where few are shown, more of them are first, and they may be better or worse.
        """
        first, later = ([look.points for look in looks if (look.place == 1) is is_first] for is_first in (True, False))
        if first and later:
            weight = len(first) * len(later) / len(looks)  # the inverse of the difference's variance, up to a factor
            self.advantage += weight * (fmean(first) - fmean(later))
            self.weight += weight

    def diagnose(self, metrics: MetricAggregator) -> None:
        """Record the metrics, or why one has no value."""
        if self.groups:
            metrics.number("group_judge_calls", self.calls / self.groups)
            metrics.number("groups_judged_again_rate", self.again / self.groups)
        if self.orders.pairs:
            metrics.number("position_agreement_rate", self.orders.agreed / self.orders.pairs)
        if self.weight:
            metrics.number("first_position_advantage", self.advantage / self.weight)
        record_correlation(
            metrics, "reward_position_correlation", self.rewards, self.places, of="looks at answers", other="places"
        )
        metrics.expect(_NONE, "group_judge_calls", "groups_judged_again_rate")
        metrics.expect("no two answers were shown in both orders", "position_agreement_rate")
        metrics.expect(
            "no group has both an answer that was shown first, and one that was shown later", "first_position_advantage"
        )
        metrics.expect("no completion has a score", "mean_reward")
        metrics.expect("no group had a baseline or a reference", "winrate", "score_against_anchor")
        metrics.leave_out("judge_calls_saved", "a group is judged together: equal answers are one member of it")


@dataclass(slots=True)
class _Window:
    """What was recorded since the last flush."""

    began: float = field(default_factory=time.monotonic)
    groups: int = 0
    sequences: int = 0
    no_signal: int = 0
    suspects: int = 0
    refused: int = 0
    equal: int = 0
    calls_saved: int = 0
    rewards: list[float] = field(default_factory=list)
    rewarded_lengths: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    statuses: Counter[Status] = field(default_factory=Counter)
    judge_latencies: list[float] = field(default_factory=list)
    judge_usage: Usage = Usage()
    policy_latencies: list[float] = field(default_factory=list)
    policy_usage: Usage = Usage()
    group_judging: GroupJudgeMetrics = field(default_factory=GroupJudgeMetrics)


class TrainingMetrics:
    """Records groups; `flush` returns the metrics since the last flush."""

    def __init__(self, *, config: dict[str, float], together: bool = False) -> None:
        """Start empty; add `config` to each flush, under `config/`; `together`: groups are judged together."""
        self._config = config
        self._together = together
        self._total_judgments = 0
        self.total_dropped: Counter[str] = Counter()
        """Groups that were not sent, by reason."""
        self.groups_maybe_double: int | None = None
        """Groups that the trainer may have twice; `None` without a rollout API."""
        self._window = _Window()
        self._own = MetricAggregator("train", rounds=0)

    @property
    def reward_mean(self) -> float | None:
        """Return the mean reward since the last flush; `None` without a reward."""
        rewards = self._window.rewards
        return sum(rewards) / len(rewards) if rewards else None

    @property
    def costs(self) -> dict[str, float | None]:
        """Return the costs of judge and policy since the last flush; `None` for one that is not known."""
        return {"judge": self._window.judge_usage.cost, "policy": self._window.policy_usage.cost}

    def record_group(self, group: JudgedGroup[Any], scores: GroupRewards | None, record_rollout: RecordRollout) -> None:
        """Record a judged group, before it is sent or dropped.

        Args:
            group: the group.
            scores: its scores, if it has any.
            record_rollout: records the environment's own metrics of the rollout with a number.
        """
        window = self._window
        is_alone = group.together is not None and group.together.is_alone
        window.groups += 1
        window.group_judging.record(group)
        window.policy_latencies.append(group.policy_run.latency_s)
        window.policy_usage += group.policy_run.usage
        self._total_judgments += sum(judgment.status is Status.OK for judgment in group.judgments)
        for number, judgment in enumerate(group.judgments):
            if not (is_alone and judgment.status.is_failure):  # no judge was asked
                window.statuses[judgment.status] += 1
            window.suspects += judgment.suspects
            window.refused += group.rollouts[number].completion.refused
            asked = [call.run for call in judgment.calls if not call.failed and not call.run.cached]
            window.judge_latencies += [run.latency_s for run in asked]
            window.judge_usage = sum((call.run.usage for call in judgment.calls), window.judge_usage)
            if not judgment.status.is_failure:
                record_rollout(self._own, number)
            if judgment.critique is not None:
                record_critique(self._own, judgment)
        for number, first in enumerate(first_equals([rollout.completion for rollout in group.rollouts])):
            if first != number:
                window.equal += 1
                window.calls_saved += sum(not call.run.cached for call in group.judgments[first].calls)
        for length, reward in zip(lengths(group.rollouts), group.rewards, strict=True):
            window.lengths.append(length)
            if reward is not None:
                window.rewards.append(reward)
                window.rewarded_lengths.append(length)
        if is_alone or (scores is not None and scores.equal):
            window.no_signal += 1

    def record_unsampled(self, usage: Usage) -> None:
        """Record what a request to the policy cost that brought no group."""
        self._window.policy_usage += usage

    def record_sent(self, sequences: int) -> None:
        """Record that the sink took a group with this many sequences."""
        self._window.sequences += sequences

    def record_dropped(self, reason: str) -> None:
        """Record that a group was dropped."""
        self.total_dropped[reason] += 1

    def flush(self, *, max_token_len: int) -> Metrics:
        """Return the metrics since the last flush, and start again."""
        window, own = self._window, self._own
        self._window, self._own = _Window(), MetricAggregator("train", rounds=0)
        _diagnose(own, window, max_token_len)
        if self._together:
            window.group_judging.diagnose(own)
        else:
            own.number("judge_calls_saved", window.calls_saved)
        own.number("total_judgments", self._total_judgments)
        own.number(
            "judge_error_rate",
            _share(sum(window.statuses[status] for status in Status if status.is_failure), window.statuses.total()),
        )
        for reason, count in self.total_dropped.items():
            own.number(f"groups_dropped_{reason}", count)
        if self.groups_maybe_double is not None:
            own.number("groups_maybe_double", self.groups_maybe_double)
        result = own.result()
        config = {f"config/{name}": value for name, value in self._config.items()}
        return replace(result, values={**result.values, **config})


def _diagnose(metrics: MetricAggregator, window: _Window, max_token_len: int) -> None:
    import numpy as np  # late: only training needs it here

    seconds = max(time.monotonic() - window.began, 1e-9)
    metrics.number("groups_judged", window.groups)
    metrics.number("sequences_per_second", window.sequences / seconds)
    metrics.number("judge_injection_suspects", window.suspects)
    metrics.number("refused_response_rate", _share(window.refused, len(window.lengths)))
    metrics.number("equal_completions_rate", _share(window.equal, len(window.lengths)))
    metrics.number("groups_without_signal_rate", _share(window.no_signal, window.groups))
    metrics.cost("judge_cost_usd", window.judge_usage.cost)
    metrics.cost("policy_cost_usd", window.policy_usage.cost)
    for role, usage in (("judge", window.judge_usage), ("policy", window.policy_usage)):
        metrics.number(f"{role}_cached_prompt_rate", _share(usage.cached_prompt_tokens, usage.prompt_tokens))
    if window.policy_latencies:
        metrics.number("policy_latency_mean_s", float(np.mean(window.policy_latencies)))
    if window.judge_latencies:
        metrics.number("judge_latency_mean_s", float(np.mean(window.judge_latencies)))
        metrics.number("judge_latency_p95_s", float(np.quantile(window.judge_latencies, 0.95)))
    if window.rewards:
        metrics.number("reward_mean", float(np.mean(window.rewards)))
        metrics.number("reward_std", float(np.std(window.rewards)))
    if window.lengths:
        metrics.number("completion_lengths", float(np.mean(window.lengths)))
        metrics.number("completion_lengths_std", float(np.std(window.lengths)))
        metrics.number("completion_lengths_max", max(window.lengths))
        metrics.number("completion_lengths_min", min(window.lengths))
        if max_token_len > 0:
            near = sum(length > 0.95 * max_token_len for length in window.lengths)
            metrics.number("completion_lengths_p95", near / len(window.lengths))
    record_correlation(
        metrics,
        "reward_length_correlation",
        window.rewards,
        window.rewarded_lengths,
        of="rollouts",
        other="lengths",
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


logger = logging.getLogger(__name__)

_SHOWN = ("reward_mean", "judge_error_rate", "groups_without_signal_rate", "sequences_per_second")


class TrainingLog:
    """Logs metrics by step. Weights & Biases runs in a thread, so that it does not block the rollouts."""

    def __init__(self, config: EnvConfig, retokenizer: Retokenizer, *, headlines: Sequence[str]) -> None:
        """Set up the log; `headlines` are the environment's metrics that each line begins with."""
        self._config = config
        self._shown = (*headlines, *_SHOWN)
        self._retokenizer = retokenizer
        self._rollouts: deque[list[tuple[JudgedGroup[Any], GroupRewards, int]]] = deque(
            maxlen=config.num_rollouts_to_keep
        )
        self._run: Any = None

    async def open(self, name: str, place: tuple[str, str], settings: Mapping[str, JSON]) -> None:
        """Open a run at Weights & Biases, if `use_wandb` is on, in the trainer's project and group."""
        if self._config.use_wandb:
            self._run = await asyncio.to_thread(_open_wandb, self._config.wandb_name or name, place, settings)

    def keep(self, group: JudgedGroup[Any], scores: GroupRewards) -> None:
        """Keep `num_rollouts_per_group_for_logging` rollouts of a group (−1: all) for the next table."""
        kept = self._config.num_rollouts_per_group_for_logging
        numbers = range(len(group.rollouts) if kept == -1 else min(kept, len(group.rollouts)))
        self._rollouts.append([(group, scores, number) for number in numbers])

    async def log(self, step: int, metrics: Metrics) -> None:
        """Log the metrics of a step; with those of training, the table of rollouts."""
        values = {name.partition("/")[2]: value for name, value in metrics.values.items()}
        logger.info(
            "step %d: %s", step, ", ".join(f"{name} {values[name]:.3f}" for name in self._shown if name in values)
        )
        for name, reason in metrics.left_out.items():
            logger.debug("%s is left out: %s", name, reason)
        # Only training has rollouts. Take them before the first await: later ones belong to the next table.
        is_training = any(name.startswith("train/") for name in metrics.values)
        taken = list(self._rollouts) if is_training else []
        if is_training:
            self._rollouts.clear()
        if self._run is not None:
            shown = [rollout for group in taken for rollout in group]
            texts = await self._retokenizer.decode(
                [group.rollouts[number].sequence.tokens for group, _, number in shown]
            )
            rows = [(text, scores.values[number]) for text, (_, scores, number) in zip(texts, shown, strict=True)]
            await asyncio.to_thread(_log_wandb, self._run, step, metrics, rows)

    async def close(self) -> None:
        """Close the run."""
        if self._run is not None:
            await asyncio.to_thread(self._run.finish)


def _open_wandb(name: str, place: tuple[str, str], settings: Mapping[str, JSON]) -> Any:
    import wandb  # late: half a second

    group, project = place
    return wandb.init(name=name, project=project or None, group=group or None, config=dict(settings))


def _log_wandb(run: Any, step: int, metrics: Metrics, rows: list[tuple[str, float]]) -> None:
    import wandb  # late: half a second

    values: dict[str, Any] = dict(metrics.values)
    if rows:
        values["train/rollouts"] = wandb.Table(columns=["text", "score"], data=[list(row) for row in rows])
    run.log(values, step=step)
