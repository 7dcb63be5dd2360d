"""A run as a line of the list."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from judgegym.engine.runs.directory import FAILURES, SAMPLES
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.results.folder import SavedGroups, UnreadableRun
from judgegym.reports.results.run import SavedRun, objects_in

_FAILED = ("eval/judge_failed_count", "eval/unparsable_count", "eval/policy_failed_count")
_LONGEST_COUNTED = 100_000_000
_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True)
class Cell:
    """What a column shows, and the number by which it sorts; `None` sorts last, as what is not known."""

    text: str
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in the list.

    Attributes:
        id: names it in addresses.
        name: its path in the folder.
        date: when it ended, or last changed.
        environment: what was run.
        policy: what was evaluated.
        judge: who judged.
        result: the headline metric.
        interval: its 95 % interval.
        metric: what it is called.
        rows: how many rows were selected; of an unfinished run, how many there are.
        failed: how many of them have no judgment.
        cost: US dollars of judge and policy.
        data: the names of the datasets.
        state: what is particular: unfinished, unreadable; empty otherwise.
        is_open: whether it has a report.
        is_comparable: whether it can be compared.
    """

    id: str
    name: str
    date: Cell
    environment: str = ""
    policy: str = ""
    judge: str = ""
    result: Cell = Cell("")
    interval: str = ""
    metric: str = ""
    rows: Cell = Cell("")
    failed: Cell = Cell("")
    cost: Cell = Cell("")
    data: str = ""
    state: str = ""
    is_open: bool = True
    is_comparable: bool = False


def id_of(path: Path, folder: Path) -> str:
    """Name a run in addresses: by a digest of its path in the folder, since a path may hold any character."""
    return hashlib.blake2b(os.fsencode(path.relative_to(folder)), digest_size=8).hexdigest()


def name_of(path: Path, folder: Path) -> str:
    """A run's path in the folder, as text."""
    inside = path.relative_to(folder)
    shown = inside if inside.parts else PurePath(path.resolve().name)
    return os.fsencode(shown).decode("utf-8", "replace")


def entry_of(run: SavedRun | SavedGroups | UnreadableRun, folder: Path) -> Entry:
    """The line of a run."""
    key, name = id_of(run.path, folder), name_of(run.path, folder)
    date = Cell(f"{run.date.astimezone():%Y-%m-%d %H:%M}", run.date.timestamp())
    if isinstance(run, UnreadableRun):
        return Entry(key, name, date, state=f"cannot be read: {run.reason}", is_open=False)
    if isinstance(run, SavedGroups):
        settings, groups = run.run, _lines(run.path)
        return Entry(
            key,
            name,
            date,
            policy=settings.policy,
            judge=settings.judge,
            rows=Cell(f"{groups:,} groups", groups) if groups is not None else Cell("groups"),
            data=_named(wire.lookup(settings.config, "env.train_prompt_dataset")),
            state="groups of rollouts",
        )
    entry = Entry(key, name, date, environment=run.environment, policy=run.policy, judge=run.judge)
    if not run.is_complete:
        rows, failed = _lines(run.path / SAMPLES), _lines(run.path / FAILURES)
        return replace(entry, rows=_count(rows), failed=_count(failed), state="not finished")
    names = (_named(dataset.get("name")) for dataset in objects_in(run.general, "datasets"))
    entry = replace(
        entry,
        rows=_count(wire.lookup(run.general, "rows.selected")),
        failed=_count(sum(run.metrics.get(metric) or 0 for metric in _FAILED)),
        cost=_cost(run),
        data=", ".join(dict.fromkeys(filter(None, names))),
    )
    if run.headline is None:
        return replace(entry, result=Cell("none"))
    value, interval = run.headline.value, run.headline.interval
    return replace(
        entry,
        result=Cell(f"{value:.4f}", value),
        interval="" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}",
        metric=run.headline.words,
        is_comparable=True,
    )


def _cost(run: SavedRun) -> Cell:
    """The cost of judge and policy; where one is not known, that of the other, and no sum."""
    costs = {role: f"eval/{role}_cost_usd" for role in ("judge", "policy")}
    asked = {role: run.metrics[name] for role, name in costs.items() if name in run.metrics}
    known = {role: cost for role, cost in asked.items() if cost is not None}
    if len(known) == len(asked):
        total = sum(known.values())
        return Cell(_dollars(total), total) if known else Cell("")
    return Cell(", ".join(f"{role} {_dollars(cost)}" for role, cost in known.items()) or "not known")


def _dollars(cost: float) -> str:
    return f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.2g}"


def _named(name: JSON) -> str:
    """A dataset, without the folders of a file that is named from the root."""
    if not isinstance(name, str):
        return ""
    return PurePath(name).name if PurePath(name).is_absolute() else name


def _count(number: JSON) -> Cell:
    return Cell(f"{number:,}", number) if isinstance(number, int | float) else Cell("")


def _lines(path: Path) -> int | None:
    """The number of lines of a file; `None` of a large one, which would take long to count."""
    try:
        if path.stat().st_size > _LONGEST_COUNTED:
            return None
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
    except OSError:
        return None
