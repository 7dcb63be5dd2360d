"""Runs to label, sessions over them, and the command as a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import HeadlineTerm
from judgegym.reports.results.run import SavedRun
from judgegym_trials.labelling.session import LabelPlan, Session
from tests.command import PATIENCE_S
from tests.core.engine.samples_of import sample
from tests.core.reports.results.test_run import written
from tests.core.reports.view.made import GENERAL_OF_VIEW
from tests.forking import ROOT

SECRETS = ("zeta-policy", "omega-judge")
"""The names of the policy and the judge, which no labeller may see."""


def run_of(
    path: Path,
    values: Sequence[float],
    config: dict[str, Any] | None = None,
    *,
    texts: dict[str, str] | None = None,
    answer: str = "an answer",
    **general: Any,
) -> Path:
    """A finished run with these headline values; without settings one of arena_hard."""
    rows = [
        sample(
            f"zeta-policy/{number}",
            question=f"Question {number}",
            completions=(Completion(f"{answer} to {number}"),),
            headline=HeadlineTerm(value, 1.0),
            texts={"baseline": f"the baseline's answer to {number}"} if texts is None else texts,
        )
        for number, value in enumerate(values)
    ]
    named = dict(zip(("model_name", "judge_model_name"), SECRETS, strict=True))
    written(
        path, rows, general={**GENERAL_OF_VIEW, "rows": {"selected": len(rows)}, **named, **general}
    )
    (path / "config.yaml").write_text(yaml.safe_dump({"env": config or {}}))
    return path


@contextmanager
def session_of(run: Path, plan: LabelPlan | None = None, **draw: Any) -> Iterator[Session]:
    """A session over a run, whose labels are in its directory."""
    how, seed, path = draw.get("how"), draw.get("seed"), run / "labels.jsonl"
    with closing(
        Session(SavedRun.open(run), path, plan or LabelPlan(100), how=how, seed=seed)
    ) as session:
        yield session


@contextmanager
def served(run: Path, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command over a run: the address of its page, and its process."""
    command = [sys.executable, "-m", "judgegym", "label", str(run), "--port=0", *words]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        found = re.search(r"http://\S+/", said)
        assert found is not None, said + process.stderr.read()
        yield found[0], process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
