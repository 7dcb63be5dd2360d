"""Judges the rows of each setting with the package of a checkout, and writes what was asked and what came of it."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.equal_judgments.collecting import Collected, collect, write_collected
from tests.conformance.equal_judgments.endpoint import Endpoint
from tests.conformance.equal_judgments.rows import rows_of
from tests.conformance.equal_judgments.settings import Setting, words_of
from tests.conformance.equal_runs.driving import Driver, Job, driver_of
from tests.conformance.equal_runs.making import MADE, commit_of

ALWAYS = {"max_judge_error_rate": 1, "write_report": False, "on_bad_row": "skip"}
ASKING = {
    "judge_model_name": "m",
    "retry_delay": 0,
    "judge_max_retries": 2,
    "judge_max_concurrency": 1,  # so that equal requests come in one order, and are answered in it
}
_MODELLESS = "rule"
"""The kind that asks nobody, and refuses the flags of an endpoint."""


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
    about = {"checkout": str(checkout), "commit": commit_of(checkout), "rows": plan.rows, "seed": plan.seed}
    (folder / MADE).write_text(json.dumps(about), encoding="utf-8")
    refused = 0
    with Endpoint(plan.seed) as endpoint, driver_of(checkout) as driver, tempfile.TemporaryDirectory() as place:
        for setting in plan.settings:
            collected = _judge(setting, plan, endpoint, driver, Path(place))
            write_collected(folder / f"{setting.name}.jsonl.gz", collected)
            refused += collected.code not in (0, 1)
            print(f"{setting.name}: {collected.about}", file=sys.stderr, flush=True)
    return refused


def _judge(setting: Setting, plan: Plan, endpoint: Endpoint, driver: Driver, place: Path) -> Collected:
    folder = place / setting.name
    folder.mkdir()
    rows = rows_of(setting.shape, plan.rows, plan.seed, setting.name)
    data = folder / "rows.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    asking = {} if setting.kind == _MODELLESS else {"judge_base_url": endpoint.base_url(setting.name), **ASKING}
    flags = {"judge": setting.kind, **asking, **ALWAYS, **setting.flags}
    words = ["score", data.name, "--out=scored.jsonl", *words_of(flags)]
    said = folder / "said.txt"
    code = driver.run(Job(words, folder, said))
    asked = endpoint.take_asked(setting.name)
    collected = collect(folder, code, asked, endpoint.address, are_batched="batched" in setting.name)
    shutil.rmtree(folder)
    return collected
