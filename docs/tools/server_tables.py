"""List the rows of the tables of the reward server: its judges, deadlines and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from judgegym.judges.scorers.registry import JUDGES, TASK_FIELDS
from judgegym.server.operation import COUNTERS, GAUGES, HISTOGRAMS
from judgegym.server.settings import PRESETS

_PRESET_SETTINGS = ("deadline", "judge_deadline", "judge_timeout", "on_failure")


def _judges() -> Iterator[tuple[str, ...]]:
    yield ("`--judge`", "score", "reads beside prompt and response", "compares at most")
    yield ("---",) * 4
    for kind, judge in JUDGES.items():
        fields = [f"`{field}`" for field in TASK_FIELDS if kind in TASK_FIELDS[field]]
        most = judge.most_together
        yield (f"`{kind}`", judge.about, ", ".join(fields), "" if most is None else str(most))


def _deadlines() -> Iterator[tuple[str, ...]]:
    yield ("`--for`", *(f"`{setting}`" for setting in _PRESET_SETTINGS))
    yield ("---",) * (len(_PRESET_SETTINGS) + 1)
    for trainer, preset in PRESETS.items():
        yield (f"`{trainer}`", *(_value(preset[setting]) for setting in _PRESET_SETTINGS))


def _value(value: object) -> str:
    return f"{value:g} s" if isinstance(value, float) else f"`{value}`"


def _metrics() -> Iterator[tuple[str, ...]]:
    yield ("metric", "labels", "what it shows")
    yield ("---",) * 3
    metrics = {
        **{f"{name}_total": about for name, about in COUNTERS.items()},
        **{name: about[:2] for name, about in HISTOGRAMS.items()},
        **GAUGES,
    }
    for name, (about, labels) in metrics.items():
        yield (f"`judgegym_{name}`", ", ".join(f"`{label}`" for label in labels.split()), about)


SERVER_TABLES: Mapping[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "server_judges": _judges,
    "server_deadlines": _deadlines,
    "server_metrics": _metrics,
}
