"""Metrics of training under `train/`: the environment's own, and diagnostics of all environments.

Of compared groups: their number of calls, and whether positions influence the judge. This module
also logs the metrics, to the log and to Weights & Biases, with a table of rollouts like Atropos'.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from judgegym.data.rows import Task
from judgegym.engine.metrics import MetricAggregator, Metrics, slug
from judgegym.engine.settings import EnvConfig
from judgegym.engine.wandb_run import WandbRun
from judgegym.environments.base import JudgedEnv
from judgegym.environments.evaluate.metrics import record_critique
from judgegym.environments.rollouts.groups import JudgedGroup, TokenSequence
from judgegym.environments.rollouts.judging import record_rollout
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.judges.core.group import Look, MemberDetail
from judgegym.judges.core.judgment import Judgment, ScoreParts, Status
from judgegym.judges.core.tasks import index_first_duplicates
from judgegym.llm.at_once import Tasks
from judgegym.llm.errors import SettingsError
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON
from judgegym.monitoring.alarms import Alarm

logger = logging.getLogger(__name__)

_TABLE_GROUPS = 32  # the last groups, whose first rollouts the table at Weights & Biases shows
_MIN_PAIRS = 3
_LOGGED_METRICS = (
    "reward_mean",
    "judge_error_rate",
    "groups_without_signal_rate",
    "sequences_per_second",
)


class TrainingMetrics:
    """Metrics of groups; `flush` returns those since the last flush.

    Attributes:
        total_dropped: the number of groups that were not sent, by reason.
        groups_maybe_double: groups that the trainer may have twice; `None` without a rollout API.
        flat_rows: how many rows have no signal now, and how often one was skipped for that;
            `None` if rows have no weights.
        rewards: the rewards since the last flush.
        usage: usage of `judge` and `policy` since the last flush; also of `user`, if a simulated
            user was called, and of `signal`, the second judgments of the signal meter.
        signal: the numbers of the signal meter; empty without one.
    """

    def __init__(self, env: JudgedEnv[Any, Any, Any]) -> None:
        """Begin without a group of `env`."""
        self._env = env
        self._total_judgments = 0
        self.total_dropped: Counter[str] = Counter()
        self.groups_maybe_double: int | None = None
        self.flat_rows: tuple[int, int] | None = None
        self.signal: Mapping[str, float] = {}
        self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._aggregator = MetricAggregator("train", intervals=False)
        self._counts: Counter[str] = Counter()
        self._latencies: dict[str, list[float]] = {
            "judge": [],
            "policy": [],
            "user": [],
            "signal": [],
        }
        self.usage = {"judge": Usage(), "policy": Usage()}
        self.rewards: list[float] = []
        self._rewarded_lengths: list[float] = []
        self._lengths: list[int] = []
        self._looks: list[tuple[float, float]] = []
        """Reward of an answer and relative position (0 to 1) of a look at it."""
        self._advantages: list[tuple[float, float]] = []
        """Gain of the first position among equally many answers, and its weight."""
        self._spread = 0.0
        """Sum of squared differences of rewards from the mean of their group."""
        self._spread_of_parts: dict[str, float] = defaultdict(float)
        """By part of a reward: sum of its differences from the group's mean times those of the
        rewards."""

    def record_group(self, task: Task, group: JudgedGroup) -> None:
        """Record a judged group of a row, before it is sent or dropped."""
        counts = self._counts
        is_alone = group.comparison is not None and group.comparison.is_alone
        counts["groups"] += 1
        counts["no_signal"] += group.is_flat
        self._latencies["policy"].append(group.policy_run.latency_s)
        self.usage["policy"] += group.policy_run.usage
        for run in group.user_runs:
            self.usage["user"] = self.usage.get("user", Usage()) + run.usage
            if run.latency_s and not run.cached:
                self._latencies["user"].append(run.latency_s)
        firsts = index_first_duplicates([rollout.completions for rollout in group.rollouts])
        for number, (rollout, judgment, reward) in enumerate(
            zip(group.rollouts, group.judgments, group.rewards, strict=True)
        ):
            self._record_judgment(judgment, was_asked=not is_alone and rollout.failure is None)
            counts["turns"] += len(rollout.turns)
            counts["broken_off"] += rollout.failure is not None
            counts["conversations"] += len(rollout.turns) > 1
            counts["one_sequence"] += len(rollout.turns) > 1 and rollout.first_break is None
            counts["refused"] += rollout.completion.refused
            counts["thinking_removed"] += any(
                completion.written for completion in rollout.completions
            )
            if not judgment.status.is_failure:
                record_rollout(
                    self._env,
                    self._aggregator,
                    task,
                    rollout.completions,
                    judgment,
                    group.comparison,
                )
            if judgment.critique is not None:
                record_critique(self._aggregator, judgment)
            if firsts[number] != number:
                counts["equal"] += 1
                counts["calls_saved"] += sum(
                    not call.run.cached for call in group.judgments[firsts[number]].calls
                )
            self._lengths.append(rollout.sampled_tokens)
            if reward is not None:
                self.rewards.append(reward)
                self._rewarded_lengths.append(self._lengths[-1])
        self._record_parts(group)
        if group.comparison is not None and group.comparison.calls:
            counts.update(
                {"compared": 1, "calls": group.comparison.calls, "again": group.comparison.is_again}
            )
            counts.update(
                {"agreed": group.comparison.orders.agreed, "pairs": group.comparison.orders.pairs}
            )
            self._record_places(group)

    def _record_judgment(self, judgment: Judgment[Any], *, was_asked: bool) -> None:
        self._total_judgments += judgment.status is Status.OK
        self._counts["suspects"] += judgment.suspects
        if was_asked or not judgment.status.is_failure:
            self._counts["judgments"] += 1
            self._counts["failures"] += judgment.status.is_failure
        for call in judgment.calls:
            self.usage["judge"] += call.run.usage
            if not call.failed and not call.run.cached:
                self._latencies["judge"].append(call.run.latency_s)

    def _record_parts(self, group: JudgedGroup) -> None:
        """Record how far each part of a reward explains the differences of rewards within a group.

        A part's share is Σ (c − c̄)(r − r̄) / Σ (r − r̄)², where c is the part's contribution to
        the reward r; all shares add up to 1.
        """
        contributions = []
        for judgment, reward in zip(group.judgments, group.rewards, strict=True):
            detail = judgment.detail
            if reward is not None and isinstance(detail, ScoreParts) and detail.contributions:
                contributions.append((reward, detail.contributions))
        if len(contributions) < 2:
            return
        mean = fmean(reward for reward, _ in contributions)
        self._spread += sum((reward - mean) ** 2 for reward, _ in contributions)
        names: dict[str, None] = {}  # in the order of the parts, whatever the seed of hashes
        for _, parts in contributions:
            names.update(dict.fromkeys(parts))
        for name in names:
            self._spread_of_parts[name] += sum(
                parts.get(name, 0.0) * (reward - mean) for reward, parts in contributions
            )

    def _record_places(self, group: JudgedGroup) -> None:
        """Record the positions of the answers; equal completions were shown as one answer.

        The gain of the first position is computed from the calls of a group that showed equally
        many answers. Calls that show few have more first answers, which may be better or worse.
        """
        seen: set[tuple[str, ...]] = set()
        looks_by_count: dict[int, list[Look]] = defaultdict(list)
        for rollout, judgment, reward in zip(
            group.rollouts, group.judgments, group.rewards, strict=True
        ):
            answer = tuple(completion.answer for completion in rollout.completions)
            detail = judgment.detail
            if reward is None or not isinstance(detail, MemberDetail) or answer in seen:
                continue
            seen.add(answer)
            for look in detail.looks:
                if look.of > 1:
                    self._looks.append((reward, (look.place - 1) / (look.of - 1)))
                    looks_by_count[look.of].append(look)
        for looks in looks_by_count.values():
            first = [look.points for look in looks if look.place == 1]
            later = [look.points for look in looks if look.place != 1]
            if first and later:
                # The weight is inverse to the variance of the difference.
                weight = len(first) * len(later) / len(looks)
                self._advantages.append((fmean(first) - fmean(later), weight))

    def record_unsampled(self, usage: Usage) -> None:
        """Record the usage of a request to the policy that brought no group."""
        self.usage["policy"] += usage

    def record_signal(self, usage: Usage) -> None:
        """Record the usage of a second judgment of the signal meter."""
        self.usage["signal"] = self.usage.get("signal", Usage()) + usage

    def record_given_up(self) -> None:
        """Record a group that was given up with calls in progress; their cost is not known."""
        asks_judge = self._env.config.asks_endpoint and not self._env.config.policy_is_judge
        self.usage["policy"] += Usage(cost=None)
        if asks_judge:
            self.usage["judge"] += Usage(cost=None)

    def record_sent(self, sequences: int) -> None:
        """Record that the sink took a group with this many sequences."""
        self._counts["sequences"] += sequences

    def flush(self, *, max_token_len: int) -> Metrics:
        """Return the metrics since the last flush, and begin again."""
        metrics, counts = self._aggregator, self._counts
        metrics.number("groups_judged", counts["groups"])
        metrics.number(
            "sequences_per_second", counts["sequences"] / max(time.monotonic() - self._began, 1e-9)
        )
        metrics.number("judge_injection_suspects", counts["suspects"])
        for name, part, whole in (
            ("refused_response_rate", "refused", len(self._lengths)),
            ("thinking_removed_rate", "thinking_removed", len(self._lengths)),
            ("equal_completions_rate", "equal", len(self._lengths)),
            ("groups_without_signal_rate", "no_signal", counts["groups"]),
            ("judge_error_rate", "failures", counts["judgments"]),
        ):
            rate = 0.0
            if whole:
                rate = counts[part] / whole
            metrics.number(name, rate)
        if counts["conversations"] or counts["broken_off"]:
            metrics.number("turns_mean", counts["turns"] / len(self._lengths))
            metrics.number("broken_off_rate", counts["broken_off"] / len(self._lengths))
        if counts["conversations"]:
            metrics.number("one_sequence_rate", counts["one_sequence"] / counts["conversations"])
        self._number_distributions(max_token_len)
        _record_correlation(
            metrics,
            "reward_length_correlation",
            self.rewards,
            self._rewarded_lengths,
            "rollouts",
            "lengths",
        )
        if self._env.group_judge is not None:
            self._number_comparisons()
        else:
            metrics.number("judge_calls_saved", counts["calls_saved"])
        for name, spread in self._spread_of_parts.items():
            part = slug(name)
            if self._spread:
                metrics.number(f"part_{part}_share", spread / self._spread)
            else:
                metrics.leave_out(
                    f"part_{part}_share", "rewards are all the same within their groups"
                )
        metrics.number("total_judgments", self._total_judgments)
        for reason, count in self.total_dropped.items():
            metrics.number(f"groups_dropped_{reason}", count)
        if self.groups_maybe_double is not None:
            metrics.number("groups_maybe_double", self.groups_maybe_double)
        if self.flat_rows is not None:
            metrics.number("rows_without_signal", self.flat_rows[0])
            metrics.number("rows_skipped", self.flat_rows[1])
        for name, value in self.signal.items():
            metrics.number(name, value)
        result = metrics.result()
        self._begin()
        thinking = {"config/thinking_mode": float(self._env.config.thinking_mode)}
        return replace(result, values={**result.values, **thinking})

    def _number_distributions(self, max_token_len: int) -> None:
        import numpy as np  # late: only training needs it here

        metrics = self._aggregator
        for role, usage in self.usage.items():
            metrics.cost(f"{role}_cost_usd", usage.cost)
            cached_rate = 0.0
            if usage.prompt_tokens:
                cached_rate = usage.cached_prompt_tokens / usage.prompt_tokens
            metrics.number(f"{role}_cached_prompt_rate", cached_rate)
            if self._latencies[role]:
                metrics.number(f"{role}_latency_mean_s", float(np.mean(self._latencies[role])))
        if self._latencies["judge"]:
            metrics.number(
                "judge_latency_p95_s", float(np.quantile(self._latencies["judge"], 0.95))
            )
        if self.rewards:
            metrics.number("reward_mean", float(np.mean(self.rewards)))
            metrics.number("reward_std", float(np.std(self.rewards)))
        if lengths := self._lengths:
            metrics.number("completion_lengths", float(np.mean(lengths)))
            metrics.number("completion_lengths_std", float(np.std(lengths)))
            metrics.number("completion_lengths_max", max(lengths))
            metrics.number("completion_lengths_min", min(lengths))
            if max_token_len > 0:
                near_limit = sum(length > 0.95 * max_token_len for length in lengths)
                metrics.number("completion_lengths_p95", near_limit / len(lengths))

    def _number_comparisons(self) -> None:
        """Add the metrics of compared groups, or why they have no value."""
        metrics, counts = self._aggregator, self._counts
        if counts["compared"]:
            metrics.number("group_judge_calls", counts["calls"] / counts["compared"])
            metrics.number("groups_judged_again_rate", counts["again"] / counts["compared"])
        if counts["pairs"]:
            metrics.number("position_agreement_rate", counts["agreed"] / counts["pairs"])
        if weight := sum(weight for _, weight in self._advantages):
            metrics.number(
                "first_position_advantage",
                sum(gain * group_weight for gain, group_weight in self._advantages) / weight,
            )
        rewards, positions = (
            [reward for reward, _ in self._looks],
            [position for _, position in self._looks],
        )
        _record_correlation(
            metrics, "reward_position_correlation", rewards, positions, "looks at answers", "places"
        )
        metrics.expect(
            "no group was judged together", "group_judge_calls", "groups_judged_again_rate"
        )
        metrics.expect("no two answers were shown in both orders", "position_agreement_rate")
        metrics.expect(
            "no group has both an answer that was shown first, and one that was shown later",
            "first_position_advantage",
        )
        metrics.expect("no completion has a score", "mean_reward")
        metrics.expect("no group had a baseline or a reference", "winrate", "score_against_anchor")
        metrics.leave_out(
            "judge_calls_saved", "a group is judged together: equal answers are one member of it"
        )


def _record_correlation(
    metrics: MetricAggregator,
    name: str,
    rewards: Sequence[float],
    values: Sequence[float],
    observations: str,
    other_name: str,
) -> None:
    """Record Pearson's correlation, or why there is none: too few pairs, or a constant side."""
    import numpy as np  # late: only training needs it here

    if len(rewards) < _MIN_PAIRS:
        metrics.leave_out(name, f"too few {observations}")
    elif np.std(rewards) == 0 or np.std(values) == 0:
        metrics.leave_out(name, f"rewards or {other_name} are all the same")
    else:
        metrics.number(name, float(np.corrcoef(rewards, values)[0, 1]))


class TrainingLog:
    """Log of metrics by step.

    Weights & Biases runs in a thread, so that it does not block rollouts.
    """

    def __init__(
        self, config: EnvConfig, retokenizer: Retokenizer, *, headlines: Sequence[str]
    ) -> None:
        """Set up the log.

        `headlines` are the environment's metrics at the beginning of each line.
        """
        self._config = config
        self._shown = (*headlines, *_LOGGED_METRICS)
        self._retokenizer = retokenizer
        self._has_tokenizer = True
        self._rollouts: deque[tuple[TokenSequence, float]] = deque(maxlen=_TABLE_GROUPS)
        self._run = WandbRun()
        self._alerts = Tasks()

    async def open(
        self, name: str, wandb_place: tuple[str, str], settings: Mapping[str, JSON]
    ) -> None:
        """Open a run at Weights & Biases, if `use_wandb` is on, in the trainer's group and project.

        Raises:
            SettingsError: the run cannot be opened.
        """
        group, project = wandb_place
        options = {"project": project or None, "group": group or None, "config": dict(settings)}
        self._run = await WandbRun.open(self._config, name, **options)

    def rename(self, name: str) -> None:
        """Rename the run at Weights & Biases, unless the settings name it."""
        if self._config.wandb_name is None:
            self._run.rename(name)

    def keep_group(self, group: JudgedGroup) -> None:
        """Keep the first rollout of a group for the next table."""
        self._rollouts += [
            (rollout.sequence, score)
            for rollout, score in zip(group.rollouts[:1], group.scores or (), strict=False)
        ]

    async def log(self, step: int, metrics: Metrics) -> None:
        """Log the metrics of a step; with metrics of training, also the table of rollouts."""
        values = {name.partition("/")[2]: value for name, value in metrics.values.items()}
        logger.info(
            "step %d: %s",
            step,
            ", ".join(f"{name} {values[name]:.3f}" for name in self._shown if name in values),
        )
        for name, reason in metrics.left_out.items():
            logger.debug("%s is left out: %s", name, reason)
        shown: list[tuple[TokenSequence, float]] = []
        if any(name.startswith("train/") for name in metrics.values):
            # Only training has rollouts. Take them before the first await: later ones belong to the
            # next table.
            shown = [*self._rollouts]
            self._rollouts.clear()
        if self._run:
            await self._run.log(metrics.values, table=await self._table(shown), step=step)

    async def _table(self, shown: Sequence[tuple[TokenSequence, float]]) -> list[list[str | float]]:
        """Return text and score of each rollout; empty if the tokenizer is missing.

        Nothing else needs the tokenizer.
        """
        if not self._has_tokenizer:
            return []
        try:
            texts = await self._retokenizer.decode([sequence.tokens for sequence, _ in shown])
        except SettingsError as error:
            self._has_tokenizer = False
            logger.warning("W&B gets no texts of rollouts: %s", error)
            return []
        return [[text, score] for text, (_, score) in zip(texts, shown, strict=True)]

    def send_alarm(self, alarm: Alarm) -> None:
        """Send an alarm to Weights & Biases, which may mail it; do not wait for it."""
        if self._run:
            self._alerts.begin(self._run.alert(f"ALARM {alarm.monitor}", alarm.text))

    async def close(self) -> None:
        """Close the run."""
        if self._alerts:
            await asyncio.wait(self._alerts)
        await self._run.finish()
