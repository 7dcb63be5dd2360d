"""Judges the rows of each setting with the package of a checkout, and writes what was asked and what came of it."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.equal_judgments import benchmark_rows
from tests.conformance.equal_judgments.collecting import Collected, collect, write_collected
from tests.conformance.equal_judgments.endpoint import Endpoint
from tests.conformance.equal_judgments.environments import URL
from tests.conformance.equal_judgments.rows import SHAPES, rows_of
from tests.conformance.equal_judgments.settings import Setting
from tests.conformance.equal_runs.driving import Driver, Job, driver_of
from tests.conformance.equal_runs.making import MADE, commit_of

_SHAPES = {**SHAPES, **benchmark_rows.SHAPES}
SHARED = re.compile("batched|formless")
"""In the names of settings in which the calls of several rows share a request, or what the first one finds out."""
_IN_PYTHON = Path(__file__).with_name("in_python.py")


@dataclass(frozen=True)
class Plan:
    """What is made.

    Attributes:
        checkout: whose package judges.
        settings: which settings.
        rows: of each setting.
        seed: of rows and endpoint.
    """

    checkout: Path
    settings: Sequence[Setting]
    rows: int
    seed: int


def make(folder: Path, plan: Plan) -> int:
    """Make the records of all settings, and return how many commands ended with another code than 0 or 1."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl.gz"):
        old.unlink()
    checkout = plan.checkout.resolve()
    about = {
        "checkout": str(checkout),
        "commit": commit_of(checkout),
        "rows": plan.rows,
        "seed": plan.seed,
    }
    (folder / MADE).write_text(json.dumps(about), encoding="utf-8")
    refused = 0
    with (
        Endpoint(plan.seed) as endpoint,
        driver_of(checkout) as driver,
        tempfile.TemporaryDirectory() as place,
    ):
        for setting in plan.settings:
            collected = _judge(setting, plan, endpoint, driver, Path(place))
            write_collected(folder / f"{setting.name}.jsonl.gz", collected)
            refused += collected.code not in (0, 1)
            print(f"{setting.name}: {collected.about}", file=sys.stderr, flush=True)
    return refused


def _judge(
    setting: Setting, plan: Plan, endpoint: Endpoint, driver: Driver, place: Path
) -> Collected:
    folder = place / setting.name
    folder.mkdir()
    for name, shape in setting.data.items():
        rows = rows_of(
            _SHAPES[shape], max(3, round(plan.rows * setting.share)), (plan.seed, setting.name)
        )
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    code = driver.run(_job(setting, folder, endpoint.base_url(setting.name)))
    asked = endpoint.take_asked(setting.name)
    collected = collect(
        folder, code, asked, endpoint.address, are_shared=SHARED.search(setting.name) is not None
    )
    shutil.rmtree(folder)
    return collected


def _job(setting: Setting, folder: Path, url: str) -> Job:
    words, said = [word.replace(URL, url) for word in setting.words], folder / "said.txt"
    if not setting.judge:
        return Job(words, folder, said)
    begun = {name: value.replace(URL, url) for name, value in setting.judge.items()}
    return Job(
        (), folder, said, script=_IN_PYTHON, begun={**begun, "rows": str(folder / "rows.jsonl")}
    )
