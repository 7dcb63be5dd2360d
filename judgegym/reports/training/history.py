"""Build charts from the monitors' lines of one judge: a curve for each monitor, with its limits.

Guarantee: memory does not grow with the run: the number of curves and of their points is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgegym.llm.wire import JSON, mapping_or_empty, text_or_empty
from judgegym.monitoring.group import add_costs
from judgegym.monitoring.monitors import MONITORS
from judgegym.reports.training.curves import Curve
from judgegym.statistics.gap_detector import ALARM_AT

_MOST_CHARTS = 80
_MOST_LINES = 12
_NORMAL = 1.96
_MEANS, _GAP, _EVIDENCE, _ORDER = "gold means", "gold gap", "gold evidence", "gold order"
_REWARD = "reward_mean"
_COST = "cost"
_SPEED = "rollouts a second"
_QUEUE = "queue"
_CAUSES = "causes"
_PARTS = "parts"
_UNREPEATED, _RELIABILITY = "signal unrepeated", "signal reliability"
_TITLES = {
    _MEANS: "Training judge and gold judge: mean scores",
    _GAP: "Gap: training score − gold score",
    _EVIDENCE: "Evidence that the gap grows",
    _ORDER: "Pairs within groups that both judges order alike",
    _REWARD: "Reward: mean, with its spread",
    _PARTS: "Parts of the reward: share of its variance within groups",
    _UNREPEATED: "Share of the squared advantages that does not repeat (90 % interval)",
    _RELIABILITY: "Reliability of the rewards within groups (90 % interval)",
    _CAUSES: "Share of rollouts without a judge's score, by cause",
    _SPEED: "Rollouts judged a second",
    _COST: "Cost in US dollars, until this step",
    _QUEUE: "Rollouts that wait for the gold judge",
}
_FIRST = (_MEANS, _GAP, _EVIDENCE, _REWARD, _UNREPEATED, _RELIABILITY)
_LAST = (_ORDER, _PARTS, _CAUSES, _SPEED, _COST, _QUEUE)
_SPREAD = "reward_spread"


class MonitorHistory:
    """The charts of one judge, and its current numbers.

    Attributes:
        step: the last step.
        groups: the number of groups so far.
        rollouts: the number of rollouts so far.
        costs: US dollars so far by role; `None` once a cost is unknown.
        gold: the gold judge's counts; empty without one.
        judge: the name of the training judge; empty if unknown.
        gold_judge: the name of the gold judge; empty without one.
        criteria: the last table of criteria: name, mean, share at 0, share at 1.
    """

    def __init__(self) -> None:
        """Begin without a line."""
        self.step: float = 0
        self.groups = self.rollouts = 0
        self.costs: dict[str, float | None] = {}
        self.gold: dict[str, JSON] = {}
        self.judge = self.gold_judge = ""
        self.criteria: list[list[JSON]] = []
        self._curves: dict[str, dict[str, Curve]] = {}
        self._limits: dict[str, tuple[Curve, Curve]] = {}
        self._beyond: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._remarks: dict[str, str] = {}
        self._unit = ""
        self._at: float | None = None

    def add(self, line: Mapping[str, JSON]) -> None:
        """Add a line of `monitor.jsonl`; unknown fields are ignored."""
        if step := mapping_or_empty(line.get("step")):
            self._add_step(step, parse_number(line.get("at")))
        elif check := mapping_or_empty(line.get("check")):
            self._add_check(check)
        elif signal := mapping_or_empty(line.get("signal")):
            self._add_signal(signal)
        elif begin := mapping_or_empty(line.get("begin")):
            self.judge, self.gold_judge = (
                text_or_empty(begin.get(name)) for name in ("judge", "gold_judge")
            )
            self._at = None  # the time until it was resumed does not belong to a step
        elif end := mapping_or_empty(line.get("end")):
            self.gold = (
                dict(mapping_or_empty(end.get("gold"))) or self.gold
            )  # nothing waits any more

    def _add_step(self, line: Mapping[str, JSON], at: float | None) -> None:
        step = parse_number(line.get("step"))
        if step is None:
            return
        self.step = step
        rollouts = parse_number(line.get("rollouts")) or 0
        self.groups += int(parse_number(line.get("groups")) or 0)
        self.rollouts += int(rollouts)
        values = mapping_or_empty(line.get("values"))
        limits = mapping_or_empty(line.get("limits"))
        spread = parse_number(values.get(_SPREAD))
        for name, value in values.items():
            if (number := parse_number(value)) is None:
                continue
            if name == _REWARD and spread is not None:
                self._curve(name, "mean", has_band=True).add(
                    step, number, number - spread, number + spread
                )
            else:
                self._curve(name, "value").add(step, number)
            self._add_limits(name, step, limits.get(name))
        self._beyond = {*(self._beyond & {_GAP, _EVIDENCE}), *_texts(line.get("beyond"))}
        self._reasons = {
            name: str(reason) for name, reason in mapping_or_empty(line.get("left_out")).items()
        }
        self._unit = str(line.get("length_unit") or self._unit)
        for name, share in mapping_or_empty(line.get("parts")).items():
            self._add(_PARTS, name, step, share)
        for cause, count in mapping_or_empty(line.get("causes")).items():
            if rollouts and (number := parse_number(count)) is not None:
                self._add(_CAUSES, cause, step, number / rollouts)
        if at is not None and self._at is not None and at > self._at:
            self._add(_SPEED, "rollouts a second", step, rollouts / (at - self._at))
        self._at = at
        add_costs(
            self.costs,
            {role: parse_number(cost) for role, cost in mapping_or_empty(line.get("cost")).items()},
        )
        for role, cost in self.costs.items():
            self._add(_COST, role, step, cost)
        if gold := mapping_or_empty(line.get("gold")):
            self.gold |= gold
            self._add(_QUEUE, "waiting", step, gold.get("waiting"))
        self.criteria = [
            [name, *numbers[:3]]
            for name, numbers in list(mapping_or_empty(line.get("criteria")).items())[:64]
            if isinstance(numbers, list)
        ] or self.criteria

    def _add_check(self, check: Mapping[str, JSON]) -> None:
        step = parse_number(check.get("step"))
        gap = parse_number(check.get("gap"))
        if step is None or gap is None:
            return
        self._add(_MEANS, "training judge", step, check.get("training"))
        self._add(_MEANS, "gold judge", step, check.get("gold"))
        error, limit, evidence = (
            parse_number(check.get(name)) for name in ("error", "limit", "evidence")
        )
        half = _NORMAL * (error or 0.0)
        self._curve(_GAP, "gap", has_band=True).add(step, gap, gap - half, gap + half)
        self._add_limits(_GAP, step, [None, limit])
        self._add(_EVIDENCE, "evidence", step, evidence)
        self._add(_ORDER, "alike", step, check.get("order_agreement"))
        limit_text = "in the reference" if limit is None else f"limit {limit:+.3f}"
        self._remarks[_GAP] = f"{gap:+.3f} ± {half:.3f}, {limit_text}; evidence {evidence or 0:.3g}"
        for name, value in (
            (_GAP, limit is not None and gap > limit),
            (_EVIDENCE, check.get("is_alarm") is True),
        ):
            (self._beyond.add if value else self._beyond.discard)(name)

    def _add_signal(self, signal: Mapping[str, JSON]) -> None:
        """Add a report of the signal meter; a report without a value changes nothing."""
        step = parse_number(signal.get("step"))
        groups = parse_number(signal.get("groups"))
        if step is None or groups is None:
            return
        for chart, name in ((_UNREPEATED, "unrepeated"), (_RELIABILITY, "reliability")):
            estimate = mapping_or_empty(signal.get(name))
            interval = mapping_or_empty(estimate.get("interval"))
            value, low, high = (
                parse_number(number)
                for number in (estimate.get("value"), interval.get("low"), interval.get("high"))
            )
            if value is None or low is None or high is None:
                continue
            self._curve(chart, name, has_band=True).add(step, value, low, high)
            self._remarks[chart] = f"{value:.2f} ({low:.2f} to {high:.2f}), {groups:.0f} groups"
        if _UNREPEATED in self._remarks:
            advice = "; ".join(_texts(signal.get("texts")))
            self._remarks[_UNREPEATED] = f"{self._remarks[_UNREPEATED]}. {advice}".rstrip(". ")

    def _add(self, chart: str, name: str, step: float, value: JSON) -> None:
        if (number := parse_number(value)) is not None:
            self._curve(chart, name).add(step, number)

    def _curve(self, chart: str, name: str, *, has_band: bool = False) -> Curve:
        """Return a curve; beyond the limits, one that is not drawn."""
        if chart not in self._curves and len(self._curves) >= _MOST_CHARTS:
            return Curve()
        curves = self._curves.setdefault(chart, {})
        if name not in curves and len(curves) >= _MOST_LINES:
            return Curve()
        return curves.setdefault(name, Curve(has_band))

    def _add_limits(self, name: str, step: float, limits: JSON) -> None:
        if not isinstance(limits, list) or len(limits) != 2 or name not in self._curves:
            return
        for curve, limit in zip(
            self._limits.setdefault(name, (Curve(), Curve())), limits, strict=True
        ):
            if (number := parse_number(limit)) is not None:
                curve.add(step, number)

    def state(self, gold_judges: int = 1) -> dict[str, Any]:
        """Return the state for a page: names, the gold judge's counts, criteria, and charts.

        The charts of gold judge and reward come first, those of cost and queue last; `left_out` has
        the monitors without a value in the last line, and why.

        Args:
            gold_judges: the number of judges with a gold judge, which share one bound of alarms.
        """
        others = [name for name in self._curves if name not in (*_FIRST, *_LAST, _SPREAD)]
        names = [name for name in (*_FIRST, *others, *_LAST) if name in self._curves]
        return {
            "judge": self.judge,
            "gold_judge": self.gold_judge,
            "gold": self.gold,
            "criteria": self.criteria,
            "charts": [self._chart(name, ALARM_AT * max(1, gold_judges)) for name in names],
            "left_out": [
                (_title(name), reason)
                for name, reason in list(self._reasons.items())[:_MOST_CHARTS]
            ],
        }

    def _chart(self, name: str, alarm_at: float) -> dict[str, Any]:
        low, high = self._limits.get(name, (Curve(), Curve()))
        limits = [
            curve.view(side) for side, curve in (("lowest", low), ("highest", high)) if len(curve)
        ]
        if name == _EVIDENCE:
            limits = [{"name": "highest", "x": [self.step], "y": [alarm_at]}]
        unit = ""
        if self._unit and "length" in name and "correlation" not in name:
            unit = f", in {self._unit}"
        return {
            "id": name,
            "title": f"{_title(name)}{unit}",
            "lines": [curve.view(line) for line, curve in self._curves[name].items() if len(curve)],
            "limits": limits,
            "is_beyond": name in self._beyond,
            "is_logarithmic": name == _EVIDENCE,
            "said": self._remarks.get(name) or self._reasons.get(name, ""),
        }


def _title(name: str) -> str:
    words = _TITLES.get(name) or MONITORS.get(name) or name.replace("_", " ")
    return words[:1].upper() + words[1:]


def parse_number(value: JSON) -> float | None:
    """Return a value of a file as a number; `None` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def _texts(value: JSON) -> list[str]:
    if isinstance(value, list):
        return [text for text in value if isinstance(text, str)]
    return []
