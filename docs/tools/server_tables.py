"""Show the reward server's judges, deadlines and metrics, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from judgegym.judges.scorers.registry import JUDGES, TASK_FIELDS
from judgegym.server.operation import COUNTERS, GAUGES, HISTOGRAMS
from judgegym.server.settings import PRESETS

_PRESET_SETTINGS = ("deadline", "judge_deadline", "judge_timeout", "on_failure")


def server_table(name: str) -> str:
    """Return the table of `judges`, `deadlines` or `metrics`.

    Raises:
        KeyError: another name.
    """
    header, *rows = _TABLES[name]()
    return "\n".join(map(_row, [header, ["---"] * len(header), *rows]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _judges() -> Iterator[Sequence[str]]:
    yield "`--judge`", "score", "reads beside prompt and response", "compares at most"
    for kind, judge in JUDGES.items():
        fields = [f"`{field}`" for field in TASK_FIELDS if kind in TASK_FIELDS[field]]
        most = judge.most_together
        yield f"`{kind}`", judge.about, ", ".join(fields), "" if most is None else str(most)


def _deadlines() -> Iterator[Sequence[str]]:
    yield "`--for`", *(f"`{setting}`" for setting in _PRESET_SETTINGS)
    for trainer, preset in PRESETS.items():
        yield f"`{trainer}`", *(_value(preset[setting]) for setting in _PRESET_SETTINGS)


def _value(value: object) -> str:
    return f"{value:g} s" if isinstance(value, float) else f"`{value}`"


def _metrics() -> Iterator[Sequence[str]]:
    yield "metric", "labels", "what it shows"
    metrics = {
        **{f"{name}_total": about for name, about in COUNTERS.items()},
        **{name: about[:2] for name, about in HISTOGRAMS.items()},
        **GAUGES,
    }
    for name, (about, labels) in metrics.items():
        yield f"`judgegym_{name}`", ", ".join(f"`{label}`" for label in labels.split()), about


_TABLES: Mapping[str, Callable[[], Iterator[Sequence[str]]]] = {
    "judges": _judges,
    "deadlines": _deadlines,
    "metrics": _metrics,
}
