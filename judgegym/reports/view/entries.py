"""Build the list's entry of a run."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePath
from typing import Any

from judgegym.engine.runs.directory import FAILURES, SAMPLES
from judgegym.engine.terminal.summary import ROLES
from judgegym.llm import wire
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.monitoring.live_file import LIVE, iter_live_lines
from judgegym.reports.results.folder import FoundRun, SavedGroups, SavedTraining, UnreadableRun
from judgegym.reports.results.run import SavedRun, list_objects

_FAILED = (
    "eval/judge_failed_count",
    "eval/unparsable_count",
    "eval/policy_failed_count",
    "eval/user_failed_count",
)
_LONGEST_COUNTED = 100_000_000
_BLOCK = 1_000_000


def make_run_id(path: Path, folder: Path) -> str:
    """Return a run's id in addresses: a digest of its path, which may hold any character."""
    return hashlib.blake2b(os.fsencode(path.relative_to(folder)), digest_size=8).hexdigest()


def make_relative_name(path: Path, folder: Path) -> str:
    """Return a run's path in the folder, as text."""
    inside = path.relative_to(folder)
    shown = inside if inside.parts else PurePath(path.resolve().name)
    return os.fsencode(shown).decode("utf-8", "replace")


def make_entry(run: FoundRun, folder: Path) -> dict[str, Any]:
    """Return the entry of a run: columns, `id` in addresses, `state`, and possible actions."""
    texts = dict.fromkeys(
        ("environment", "policy", "judge", "interval", "metric", "data", "state"), ""
    )
    entry = {
        "id": make_run_id(run.path, folder),
        "name": make_relative_name(run.path, folder),
        "date": _make_cell(f"{run.date.astimezone():%Y-%m-%d %H:%M}", run.date.timestamp()),
        **texts,
        **dict.fromkeys(("result", "rows", "failed", "cost"), _make_cell("")),
        "is_open": True,
        "is_comparable": False,
    }
    if isinstance(run, UnreadableRun):
        return {**entry, "state": f"cannot be read: {run.reason}", "is_open": False}
    if isinstance(run, SavedTraining):
        status = mapping_or_empty(next(iter_live_lines(run.path / LIVE), {}).get("status"))
        step, rollouts = status.get("step"), status.get("rollouts")
        rows = _make_cell("")
        if isinstance(rollouts, int):
            rows = _make_cell(f"{rollouts:,} rollouts", rollouts)
        fields = {"policy": run.run.policy, "judge": run.run.judge, "rows": rows}
        fields["data"] = _dataset_name(wire.lookup(run.run.config, "env.train_prompt_dataset"))
        ended = ", ended" if status.get("is_over") is True else ""
        return {
            **entry,
            **fields,
            "state": f"training{f', step {step}' if isinstance(step, int) else ''}{ended}",
        }
    if isinstance(run, SavedGroups):
        groups = _count_lines(run.path)
        data = wire.lookup(run.run.config, "env.train_prompt_dataset")
        rows = _make_cell("groups" if groups is None else f"{groups:,} groups", groups)
        fields = {
            "policy": run.run.policy,
            "judge": run.run.judge,
            "rows": rows,
            "data": _dataset_name(data),
        }
        return {**entry, **fields, "state": "groups of rollouts"}
    entry |= {"environment": run.environment, "policy": run.policy, "judge": run.judge}
    if not run.is_complete:
        rows = _count_cell(_count_lines(run.path / SAMPLES))
        failed = _count_cell(_count_lines(run.path / FAILURES))
        return {**entry, "rows": rows, "failed": failed, "state": "not finished"}
    if run.has_lost_rows:
        entry["state"] = "its rows are gone: samples.jsonl is missing"
    names = (
        _dataset_name(dataset.get("name")) for dataset in list_objects(run.general, "datasets")
    )
    entry |= {
        "rows": _count_cell(wire.lookup(run.general, "rows.selected")),
        "failed": _count_cell(sum(run.metrics.get(metric) or 0 for metric in _FAILED)),
        "cost": _cost_cell(run),
        "data": ", ".join(dict.fromkeys(filter(None, names))),
    }
    if run.headline is None:
        return {**entry, "result": _make_cell("none")}
    value, interval = run.headline.value, run.headline.interval
    bounds = "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}"
    result = {
        "result": _make_cell(f"{value:.4f}", value),
        "interval": bounds,
        "metric": run.headline.words,
    }
    return {**entry, **result, "is_comparable": True}


def _make_cell(text: str, number: float | None = None) -> dict[str, Any]:
    """Return a cell: its text, and the number by which it sorts; `None` (unknown) sorts last."""
    return {"text": text, "number": number}


def _cost_cell(run: SavedRun) -> dict[str, Any]:
    """Return the cost of all roles; if one is unknown, the costs of the others without a sum."""
    costs = {role: f"eval/{role}_cost_usd" for role in ROLES}
    role_costs = {role: run.metrics[name] for role, name in costs.items() if name in run.metrics}
    known_costs = {role: cost for role, cost in role_costs.items() if cost is not None}
    if len(known_costs) == len(role_costs):
        total = sum(known_costs.values())
        if known_costs:
            return _make_cell(_format_dollars(total), total)
        return _make_cell("")
    return _make_cell(
        ", ".join(f"{role} {_format_dollars(cost)}" for role, cost in known_costs.items())
        or "not known"
    )


def _format_dollars(cost: float) -> str:
    if cost >= 1 or cost == 0:
        return f"${cost:.2f}"
    return f"${cost:.2g}"


def _dataset_name(name: JSON) -> str:
    """Return a dataset's name; an absolute path without its folders."""
    if not isinstance(name, str):
        return ""
    if PurePath(name).is_absolute():
        return PurePath(name).name
    return name


def _count_cell(number: JSON) -> dict[str, Any]:
    if isinstance(number, int | float):
        return _make_cell(f"{number:,}", number)
    return _make_cell("")


def _count_lines(path: Path) -> int | None:
    """Count the lines of a file; return `None` for a large one, which would take long."""
    try:
        if path.stat().st_size > _LONGEST_COUNTED:
            return None
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
    except OSError:
        return None
