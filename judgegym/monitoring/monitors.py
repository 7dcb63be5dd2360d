"""Monitors without a gold judge: numbers about the groups of one step.

The numbers drift in healthy runs, too: a policy that learns to write longer completions may have a
good reason. So these are charts with a limit that the user sets (`monitor_limits`), not verdicts. A
chart has a limit of its own only if chance alone makes the number differ from 0, as with a
correlation.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean

from judgegym.judges.core.judgment import Status
from judgegym.llm.wire import CUT_OFF, JSON, REFUSALS, is_blank
from judgegym.monitoring.group import MonitorGroup, MonitorRollout, add_costs
from judgegym.monitoring.texts import LanguageWatch, NearDuplicates, is_refusal, measure_text
from judgegym.statistics.gap_detector import Moments

MONITORS: Mapping[str, str] = {
    "reward_mean": "mean reward",
    "reward_spread": "standard deviation of the rewards",
    "reward_spread_within": "standard deviation of the rewards within a group",
    "groups_without_spread": "share of groups whose rewards are equal, which teach nothing",
    "score_mean": "mean score, from 0 to 1",
    "at_top": "share of scores at the top of the scale",
    "at_bottom": "share of scores at the bottom of the scale",
    "length_mean": "mean length of a completion",
    "length_reward_correlation": "correlation of length and reward within groups",
    "format_fault_rate": "share of completions in the wrong format",
    "cut_off_rate": "share of completions that were cut off",
    "empty_rate": "share of empty completions",
    "refusal_rate": "share of refusals",
    "repetition": "share of three-word sequences that the completion has already used",
    "near_duplicates_in_group": "share of completions that nearly repeat another of their group",
    "near_duplicates_across": "share of completions that nearly repeat one for another row",
    "language_switch_rate": "share of completions in another language than their prompt",
    "judge_failed_rate": "share of judgments whose call never succeeded",
    "unparsable_rate": "share of judgments without a verdict",
    "redraw_rate": "judge calls made again, for each rollout",
    "suspect_rate": "role tokens and judge markers in judged texts, for each rollout",
    "masked_rate": "share of rollouts without a reward",
}
"""Description of each monitor's value."""

_EPSILON = 1e-9
_MOST_CRITERIA = 64
_READ_ROLLOUTS = 4
"""Completions of a group that are compared with others, and checked for repetition."""
_CHANCE_QUANTILE = 2.576
"""Two-sided 99 % quantile of the normal distribution."""
_LEAST_FOR_CORRELATION = 12


@dataclass(slots=True)
class _WithinGroups:
    """Sums of squares and products of two numbers, centred on the means of their groups."""

    first: float = 0.0
    second: float = 0.0
    product: float = 0.0
    free: int = 0
    """Degrees of freedom: the number of pairs minus one for each group."""

    def add(self, pairs: Sequence[tuple[float, float]]) -> None:
        """Add a group."""
        if len(pairs) < 2:
            return
        first_mean = fmean(pair[0] for pair in pairs)
        second_mean = fmean(pair[1] for pair in pairs)
        self.free += len(pairs) - 1
        for first, second in pairs:
            self.first += (first - first_mean) ** 2
            self.second += (second - second_mean) ** 2
            self.product += (first - first_mean) * (second - second_mean)

    @property
    def correlation(self) -> float | str:
        """Correlation, or why there is none."""
        if self.free < _LEAST_FOR_CORRELATION:
            return "too few rollouts of groups"
        if min(self.first, self.second) <= _EPSILON:
            return "lengths or rewards are all the same within their groups"
        return self.product / math.sqrt(self.first * self.second)


@dataclass(slots=True)
class StepMonitors:
    """Sums over the groups of a step.

    `finish_step` returns the numbers and begins the next step.
    """

    _near: NearDuplicates = field(default_factory=NearDuplicates)
    _language: LanguageWatch = field(default_factory=LanguageWatch)
    _counts: Counter[str] = field(default_factory=Counter)
    _causes: Counter[str] = field(default_factory=Counter)
    _rewards: Moments = field(default_factory=Moments)
    _scores: Moments = field(default_factory=Moments)
    _lengths: Moments = field(default_factory=Moments)
    _repetition: Moments = field(default_factory=Moments)
    _by_length: _WithinGroups = field(default_factory=_WithinGroups)
    _by_part: defaultdict[str, _WithinGroups] = field(
        default_factory=lambda: defaultdict(_WithinGroups)
    )
    _criteria: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0] * 4)
    )
    """By criterion: the number of verdicts, their sum, and how many are 0 and 1."""
    _cost: dict[str, float | None] = field(default_factory=dict)
    _unit: str = "characters"

    @property
    def groups(self) -> int:
        """Number of groups in the step so far."""
        return self._counts["groups"]

    def add(self, group: MonitorGroup) -> None:
        """Add a judged group."""
        counts = self._counts
        counts["groups"] += 1
        counts["judge_calls"] += group.judge_calls
        if group.knows_policy:
            counts["known"] += len(group.rollouts)
        add_costs(self._cost, group.cost)
        has_tokens = all(rollout.tokens is not None for rollout in group.rollouts)
        self._unit = "tokens" if has_tokens else "characters"
        lengths = [
            float(len(rollout.completion) if rollout.tokens is None else rollout.tokens)
            for rollout in group.rollouts
        ]
        self._lengths.add(lengths)
        for rollout in group.rollouts:
            self._add_rollout(rollout)
        for rollout in group.rollouts[:_READ_ROLLOUTS]:
            facts = measure_text(rollout.completion)
            in_group, across = self._near.add(group.number, group.uid, facts.sketch)
            counts.update(in_group=in_group, across=across)
            self._repetition.add([facts.repetition])
        rewarded = [
            (length, rollout.reward, rollout)
            for length, rollout in zip(lengths, group.rollouts, strict=True)
            if rollout.reward is not None
        ]
        rewards = [reward for _, reward, _ in rewarded]
        self._rewards.add(rewards)
        if len(rewards) > 1:
            counts["compared"] += 1
            counts["equal"] += max(rewards) - min(rewards) <= _EPSILON
        self._by_length.add([(length, reward) for length, reward, _ in rewarded])
        names = chain.from_iterable(rollout.parts for _, _, rollout in rewarded)
        for name in dict.fromkeys(names):
            self._by_part[name].add(
                [(rollout.parts.get(name, 0.0), reward) for _, reward, rollout in rewarded]
            )
        differs = None
        if group.rollouts:
            differs = self._language.differs(group.task.prompt, group.rollouts[0].completion)
        counts["languages"] += differs is not None
        counts["other_language"] += bool(differs)

    def _add_rollout(self, rollout: MonitorRollout) -> None:
        counts = self._counts
        counts.update(
            rollouts=1,
            masked=rollout.reward is None,
            format_fault=rollout.format_fault is not None,
            cut_off=rollout.finish_reason == CUT_OFF,
            empty=is_blank(rollout.completion),
            refusal=rollout.finish_reason in REFUSALS or is_refusal(rollout.completion),
            redraws=rollout.redraws,
            suspects=rollout.suspects,
        )
        if rollout.status != Status.OK.value:
            self._causes[rollout.status] += 1
        if rollout.score is not None:
            self._scores.add([rollout.score])
            counts["at_top"] += rollout.score >= 1.0 - _EPSILON
            counts["at_bottom"] += rollout.score <= _EPSILON
        for name, value in rollout.criteria.items():
            if name in self._criteria or len(self._criteria) < _MOST_CRITERIA:
                sums = self._criteria[name]
                for index, more in enumerate(
                    (1.0, value, value <= _EPSILON, value >= 1.0 - _EPSILON)
                ):
                    sums[index] += more

    def finish_step(
        self, step: int, limits: Mapping[str, tuple[float | None, float | None]]
    ) -> dict[str, JSON]:
        """Return the numbers of the step (`step` of `monitor.jsonl`), and begin the next one."""
        counts, numbers = self._counts, self._values()
        values = {name: value for name, value in numbers.items() if not isinstance(value, str)}
        shown: dict[str, JSON] = {name: [*both] for name, both in limits.items()}
        if "length_reward_correlation" in values and "length_reward_correlation" not in limits:
            chance = math.tanh(_CHANCE_QUANTILE / math.sqrt(self._by_length.free - 2))
            shown["length_reward_correlation"] = [-chance, chance]
        line: dict[str, JSON] = {
            "step": step,
            "groups": counts["groups"],
            "rollouts": counts["rollouts"],
            "values": {**values},
            "left_out": {
                name: reason for name, reason in numbers.items() if isinstance(reason, str)
            },
            "length_unit": self._unit,
            "limits": shown,
            "beyond": [
                name for name, both in limits.items() if _is_beyond(values.get(name), *both)
            ],
            "causes": {**self._causes},
            "masked": counts["masked"],
            "criteria": {
                name: [total / verdicts, low / verdicts, high / verdicts]
                for name, (verdicts, total, low, high) in self._criteria.items()
            },
            "parts": {
                name: within.product / within.second
                for name, within in self._by_part.items()
                if within.second > 0.0
            },
            "judge_calls": counts["judge_calls"],
            "cost": {**self._cost},
        }
        self._begin()
        return line

    def _values(self) -> dict[str, float | str]:
        """Return the value of each monitor, or why it has none."""
        counts = self._counts
        causes = self._causes
        within = self._by_length
        rewards = self._rewards
        scores = self._scores
        repetition = self._repetition
        rollouts = counts["rollouts"]
        known_rollouts = counts["known"]
        scored = scores.count
        no_reward, no_score = "no rollout has a reward", "no rollout has a score"
        no_group = "no group has two rollouts with a reward"
        not_told = "a reward server is not told of it"
        no_language = self._language.left_out or "the language of no text can be told"
        mean: float | str = no_reward
        spread: float | str = no_reward
        spread_within: float | str = no_group
        if rewards.count:
            mean, spread = rewards.mean, math.sqrt(rewards.variance)
        if within.free:
            spread_within = math.sqrt(within.second / within.free)
        return {
            "reward_mean": mean,
            "reward_spread": spread,
            "reward_spread_within": spread_within,
            "groups_without_spread": _share(counts["equal"], counts["compared"], no_group),
            "score_mean": _share(scores.total, scored, no_score),
            "at_top": _share(counts["at_top"], scored, no_score),
            "at_bottom": _share(counts["at_bottom"], scored, no_score),
            "length_mean": _share(self._lengths.total, rollouts),
            "length_reward_correlation": within.correlation,
            "format_fault_rate": _share(counts["format_fault"], known_rollouts, not_told),
            "cut_off_rate": _share(counts["cut_off"], known_rollouts, not_told),
            "empty_rate": _share(counts["empty"], rollouts),
            "refusal_rate": _share(counts["refusal"], rollouts),
            "repetition": _share(repetition.total, repetition.count),
            "near_duplicates_in_group": _share(counts["in_group"], repetition.count),
            "near_duplicates_across": _share(counts["across"], repetition.count),
            "language_switch_rate": _share(
                counts["other_language"], counts["languages"], no_language
            ),
            "judge_failed_rate": _share(causes[Status.JUDGE_FAILED.value], rollouts),
            "unparsable_rate": _share(causes[Status.UNPARSABLE.value], rollouts),
            "redraw_rate": _share(counts["redraws"], known_rollouts, not_told),
            "suspect_rate": _share(counts["suspects"], rollouts),
            "masked_rate": _share(counts["masked"], rollouts),
        }

    def _begin(self) -> None:
        """Start the next step; the sketches of completions are kept."""
        fresh = StepMonitors(self._near, self._language)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))


def _is_beyond(value: float | None, low: float | None, high: float | None) -> bool:
    return value is not None and (
        (low is not None and value < low) or (high is not None and value > high)
    )


def _share(part: float, whole: int, otherwise: float | str = 0.0) -> float | str:
    if whole:
        return part / whole
    return otherwise
