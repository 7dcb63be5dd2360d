"""Folders of runs, and the command over them as a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judgegym.engine.metrics import HeadlineTerm
from tests.command import PATIENCE_S
from tests.core.engine.samples_of import sample
from tests.core.reports.results.test_run import GENERAL, VALUES, written
from tests.forking import ROOT

PROGRAM = ("-m", "judgegym.reports.view")
DATASET = {"name": "/data/arena_hard.jsonl", "split": None, "rows": 4, "digest": "sha256:00"}
GENERAL_OF_VIEW: Mapping[str, Any] = {
    **GENERAL,
    "datasets": [DATASET],
    "rows": {"selected": 4, "digest": "00"},
    "protocol": {"env.judge_temperature": 0.2, "env.min_response_length": 10},
    "generation_parameters": {"judge_temperature": 0.2},
    "judge_prompt_digests": {"judge_system_prompt": "sha256:00"},
    "seed": 0,
}


def run_of(
    path: Path,
    values: tuple[float, ...] = (1.0, 0.0, 0.5, 1.0),
    *,
    question: str = "",
    **general: Any,
) -> Path:
    """A finished run with a value for each row."""
    rows = [
        sample(
            f"row-{number}",
            headline=HeadlineTerm(value, 1.0),
            texts={"baseline": "b"},
            question=question or f"Question {number}",
        )
        for number, value in enumerate(values)
    ]
    mean = sum(values) / len(values)
    metrics = {
        "eval/overall_winrate": mean,
        "eval/judge_failed_count": 1,
        "eval/unparsable_count": 1,
    }
    return written(path, rows, general={**GENERAL_OF_VIEW, **general}, **metrics)


def with_metrics(path: Path, **metrics: Any) -> Path:
    """Change the metrics of a finished run."""
    report = json.loads((path / "metrics.json").read_bytes())
    report["results"]["all"] |= metrics
    (path / "metrics.json").write_text(json.dumps(report))
    return path


def command(*words: str) -> list[str]:
    return [sys.executable, *PROGRAM, *words]


@contextmanager
def viewed(
    folder: Path, *words: str, program: Sequence[str] = PROGRAM
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command over a folder: where it listens, and its process."""
    process = subprocess.Popen(
        [sys.executable, *program, str(folder), "--port=0", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        found = re.search(r"http://\S+/", said)
        assert found is not None, said + process.stderr.read()
        yield found[0], process
    finally:
        process.terminate()  # it removes the reports that it has made
        process.communicate(timeout=PATIENCE_S)


__all__ = ["DATASET", "GENERAL_OF_VIEW", "VALUES", "command", "run_of", "viewed", "with_metrics"]
