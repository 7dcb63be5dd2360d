"""Write the page of a training run: live, fed by the server of `judgegym view`, or one file.

Texts reach the browser as data, and its scripts insert them as text. The size of the page does not
depend on the run's length: curves have a bounded number of points, and only groups that the run has
kept are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judgegym.engine.runs.directory import REPORT
from judgegym.engine.runs.disk import write_atomic
from judgegym.llm.wire import JSON
from judgegym.reports.document import TEMPLATES, as_json, document, json_block, packed_block, render
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.run_page.items import call_views
from judgegym.reports.training.run import TrainingRun

_STATIC = Path(__file__).parent / "static"
_SHARED = Path(__file__).parents[1] / "run_page" / "static"
_SHARED_SCRIPTS = ("dom", "signs", "texts", "markdown", "tree", "highlights", "calls", "unpack")
_SCRIPTS = ("charts", "groups", "training")
_MOST_CALLS = 64


def training_page(
    state: Mapping[str, Any], blocks: Iterable[bytes] = (), *, live: str = "", token: str = ""
) -> Iterator[bytes]:
    """Write the page in parts.

    Args:
        state: the initial state (`TrainingRun.state`).
        blocks: the groups, packed; empty for a live page, which requests them.
        live: the path of further requests, such as `/run/<id>`; empty for a file.
        token: authorizes the page to resume a paused run.
    """

    def data() -> Iterator[bytes]:
        yield from blocks
        yield json_block("state", {**state, "live": live, "token": token})

    return document(
        title=f"{state['title']}: training",
        body=render(TEMPLATES / "training.html", state=state, live=live),
        styles=[_SHARED / "report.css", _STATIC / "training.css"],
        scripts=[
            *(_SHARED / f"{name}.js" for name in _SHARED_SCRIPTS),
            *(_STATIC / f"{name}.js" for name in _SCRIPTS),
        ],
        data=data(),
        connects=bool(live),
    )


def write_training_report(path: Path, output: Path | None = None) -> Path:
    """Write the page of a training run, finished or not, as one file; return its path.

    Raises:
        RunDirectoryError: a file of the run cannot be read.
        OSError: the page cannot be written.
    """
    run = TrainingRun(path)
    run.poll()
    target = output or path / REPORT
    write_atomic(target, lambda: training_page(run.state(), _blocks(run)))
    return target


def _blocks(run: TrainingRun) -> Iterator[bytes]:
    groups = {name: group for name in run.group_ids if (group := run.group(name)) is not None}
    calls = CallsOfRows.read(run.path, {str(group.get("uid")) for group in groups.values()})
    for name, group in groups.items():
        yield packed_block(
            f"group-{name}", as_json({**group, "calls": group_calls_by_rollout(calls, group)})
        )


def group_calls_by_rollout(
    calls: CallsOfRows, group: Mapping[str, JSON]
) -> dict[str, list[dict[str, Any]]]:
    """Return the views of a group's calls by rollout number; ``""`` has those of all rollouts."""
    ledger = group.get("ledger")
    views_by_rollout = dict[str, list[dict[str, Any]]]()
    if not isinstance(ledger, int):
        return views_by_rollout
    for call in calls.select(str(group.get("uid")), ledger):
        rollout = call.component.partition("/")[0]
        number = rollout.removeprefix("rollout_") if rollout.startswith("rollout_") else ""
        views = views_by_rollout.setdefault(number, [])
        views += call_views([call])[: max(0, _MOST_CALLS - len(views))]
    return views_by_rollout
