"""The monitors that need no gold judge: numbers of the groups of one step, from what passes by.

A number drifts in healthy runs, too: a policy that learns to answer at length does so for a good reason. So these are
charts with a limit of the user's (`monitor_limits`), and no verdicts. Only where chance alone is known to make a number
differ from 0, as with a correlation, has the chart a limit of its own.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from judgegym.judges.core.judgment import Status
from judgegym.llm.wire import CUT_OFF, JSON, REFUSALS, is_blank
from judgegym.monitoring.group import MonitorGroup, MonitorRollout
from judgegym.monitoring.texts import LanguageWatch, NearDuplicates, facts_of, is_refusal
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
    "repetition": "share of the runs of three words that a completion has said before",
    "near_duplicates_in_group": "share of completions that nearly repeat another one of their group",
    "near_duplicates_across": "share of completions that nearly repeat one to another row",
    "language_switch_rate": "share of completions in another language than their prompt",
    "judge_failed_rate": "share of judgments whose call never succeeded",
    "unparsable_rate": "share of judgments without a verdict",
    "redraw_rate": "judge calls made again, for each rollout",
    "suspect_rate": "tokens and markers of the judge's prompt, for each rollout",
    "masked_rate": "share of rollouts without a reward",
}
"""What each monitor measures."""

_END = 1e-9
_MOST_CRITERIA = 64
_READ = 4
"""So many completions of a group are compared with others, and read for repetition."""
_CHANCE = 2.576
"""The quantile of a normal distribution that chance exceeds, on both sides together, once in 100 times."""
_LEAST_FOR_CORRELATION = 12


@dataclass(slots=True)
class _Within:
    """Sums of squares and products of two numbers, as differences from the means of their groups."""

    first: float = 0.0
    second: float = 0.0
    product: float = 0.0
    free: int = 0
    """Pairs, less one for each group."""

    def add(self, pairs: Sequence[tuple[float, float]]) -> None:
        """Add a group."""
        if len(pairs) < 2:
            return
        first_mean, second_mean = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
        self.free += len(pairs) - 1
        for first, second in pairs:
            self.first += (first - first_mean) ** 2
            self.second += (second - second_mean) ** 2
            self.product += (first - first_mean) * (second - second_mean)


@dataclass(slots=True)
class StepMonitors:
    """Adds up the groups of a step; `line` gives its numbers, and the next step begins."""

    _near: NearDuplicates = field(default_factory=NearDuplicates)
    _language: LanguageWatch = field(default_factory=LanguageWatch)
    _counts: Counter[str] = field(default_factory=Counter)
    _causes: Counter[str] = field(default_factory=Counter)
    _rewards: Moments = field(default_factory=Moments)
    _scores: Moments = field(default_factory=Moments)
    _lengths: Moments = field(default_factory=Moments)
    _repetition: Moments = field(default_factory=Moments)
    _by_length: _Within = field(default_factory=_Within)
    _by_part: defaultdict[str, _Within] = field(default_factory=lambda: defaultdict(_Within))
    _criteria: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0] * 4))
    """Of each criterion how many verdicts there are, their sum, and how many are 0 and 1."""
    _cost: dict[str, float | None] = field(default_factory=dict)
    _unit: str = "characters"

    @property
    def groups(self) -> int:
        """Groups of the step until now."""
        return self._counts["groups"]

    def add(self, group: MonitorGroup) -> None:
        """Add a judged group."""
        counts = self._counts
        counts["groups"] += 1
        counts["judge_calls"] += group.judge_calls
        counts["known"] += len(group.rollouts) if group.knows_policy else 0
        for role, cost in group.cost.items():
            before = self._cost.get(role, 0.0)
            self._cost[role] = None if cost is None or before is None else before + cost
        has_tokens = all(rollout.tokens is not None for rollout in group.rollouts)
        self._unit = "tokens" if has_tokens else "characters"
        lengths = [float(len(each.completion) if each.tokens is None else each.tokens) for each in group.rollouts]
        self._lengths.add(lengths)
        for rollout in group.rollouts:
            self._add_rollout(rollout)
        for rollout in group.rollouts[:_READ]:
            facts = facts_of(rollout.completion)
            in_group, across = self._near.add(group.number, group.uid, facts.sketch)
            counts.update(in_group=in_group, across=across)
            self._repetition.add([facts.repetition])
        rewarded = [
            (length, each.reward, each)
            for length, each in zip(lengths, group.rollouts, strict=True)
            if each.reward is not None
        ]
        rewards = [reward for _, reward, _ in rewarded]
        self._rewards.add(rewards)
        if len(rewards) > 1:
            counts["compared"] += 1
            counts["equal"] += max(rewards) - min(rewards) <= _END
        self._by_length.add([(length, reward) for length, reward, _ in rewarded])
        for name in dict.fromkeys(name for _, _, each in rewarded for name in each.parts):
            self._by_part[name].add([(each.parts.get(name, 0.0), reward) for _, reward, each in rewarded])
        differs = self._language.differs(group.task.prompt, group.rollouts[0].completion) if group.rollouts else None
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
            counts["at_top"] += rollout.score >= 1.0 - _END
            counts["at_bottom"] += rollout.score <= _END
        for name, value in rollout.criteria.items():
            if name in self._criteria or len(self._criteria) < _MOST_CRITERIA:
                sums = self._criteria[name]
                for place, more in enumerate((1.0, value, value <= _END, value >= 1.0 - _END)):
                    sums[place] += more

    def line(self, step: int, limits: Mapping[str, tuple[float | None, float | None]]) -> dict[str, JSON]:
        """Return the numbers of the step (`step` of `monitor.jsonl`), and begin the next one."""
        counts, causes = self._counts, self._causes
        values, left_out = self._values()
        shown: dict[str, list[float | None]] = {name: [low, high] for name, (low, high) in limits.items()}
        if "length_reward_correlation" in values and "length_reward_correlation" not in limits:
            chance = math.tanh(_CHANCE / math.sqrt(self._by_length.free - 2))
            shown["length_reward_correlation"] = [-chance, chance]
        found: dict[str, JSON] = {
            "step": step,
            "groups": counts["groups"],
            "rollouts": counts["rollouts"],
            "values": {name: values[name] for name in MONITORS if name in values},
            "left_out": {**left_out},
            "length_unit": self._unit,
            "limits": {name: [*both] for name, both in shown.items()},
            "beyond": [name for name, both in limits.items() if _is_beyond(values.get(name), *both)],
            "causes": {**causes},
            "masked": counts["masked"],
            "criteria": {
                name: [total / verdicts, low / verdicts, high / verdicts]
                for name, (verdicts, total, low, high) in self._criteria.items()
            },
            "parts": {
                name: within.product / within.second for name, within in self._by_part.items() if within.second > 0.0
            },
            "judge_calls": counts["judge_calls"],
            "cost": {**self._cost},
        }
        self._begin()
        return found

    def _values(self) -> tuple[dict[str, float], dict[str, str]]:
        """Return the numbers, and why one has no value."""
        counts, values, left_out = self._counts, {}, {}
        rollouts, scored, compared = max(1, counts["rollouts"]), self._scores.count, counts["compared"]
        if self._rewards.count:
            values["reward_mean"] = self._rewards.mean
            values["reward_spread"] = math.sqrt(self._rewards.variance)
        else:
            left_out["reward_mean"] = left_out["reward_spread"] = "no rollout has a reward"
        if compared:
            values["reward_spread_within"] = math.sqrt(self._by_length.second / self._by_length.free)
            values["groups_without_spread"] = counts["equal"] / compared
        else:
            why = "no group has two rollouts with a reward"
            left_out["reward_spread_within"] = left_out["groups_without_spread"] = why
        if scored:
            values |= {"score_mean": self._scores.mean}
            values |= {name: counts[name] / scored for name in ("at_top", "at_bottom")}
        else:
            left_out |= dict.fromkeys(("score_mean", "at_top", "at_bottom"), "no rollout has a score")
        values["length_mean"] = self._lengths.mean if self._lengths.count else 0.0
        within = self._by_length
        if within.free < _LEAST_FOR_CORRELATION:
            left_out["length_reward_correlation"] = "too few rollouts of groups"
        elif min(within.first, within.second) <= _END:
            left_out["length_reward_correlation"] = "lengths or rewards are all the same within their groups"
        else:
            values["length_reward_correlation"] = within.product / math.sqrt(within.first * within.second)
        of_policy = {"format_fault_rate": "format_fault", "cut_off_rate": "cut_off", "redraw_rate": "redraws"}
        for name, counted_as in of_policy.items():
            if counts["known"]:
                values[name] = counts[counted_as] / counts["known"]
            else:
                left_out[name] = "a reward server is not told of it"
        for name, counted in (
            ("empty_rate", counts["empty"]),
            ("refusal_rate", counts["refusal"]),
            ("judge_failed_rate", self._causes[Status.JUDGE_FAILED.value]),
            ("unparsable_rate", self._causes[Status.UNPARSABLE.value]),
            ("suspect_rate", counts["suspects"]),
            ("masked_rate", counts["masked"]),
        ):
            values[name] = counted / rollouts
        read = max(1, self._repetition.count)
        values["near_duplicates_in_group"], values["near_duplicates_across"] = (
            counts["in_group"] / read,
            counts["across"] / read,
        )
        values["repetition"] = self._repetition.total / read
        if counts["languages"]:
            values["language_switch_rate"] = counts["other_language"] / counts["languages"]
        else:
            left_out["language_switch_rate"] = self._language.left_out or "the language of no text can be told"
        return values, left_out

    def _begin(self) -> None:
        """Begin the next step; what completions were like is remembered."""
        fresh = StepMonitors(self._near, self._language)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))


def _is_beyond(value: float | None, low: float | None, high: float | None) -> bool:
    return value is not None and ((low is not None and value < low) or (high is not None and value > high))
