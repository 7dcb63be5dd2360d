"""Run directories that are compared: rows with given values, and the conditions of a run as `metrics.json` has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample
from judgegym.reports.compare import comparison
from judgegym.reports.results.run import SavedRun
from tests.core.engine.samples_of import sample
from tests.core.reports.objects import objects

PROMPT = "sha256:" + "ab" * 32
PROTOCOL: Mapping[str, Any] = {
    "env.judge_temperature": 0.2,
    "env.judge_extra_body": {},
    "env.judge_protocol": "three_way",
    "env.eval_temperature": 0.6,
    "env.thinking_mode": False,
    "openai.extra_body": {},
}
DATASET: Mapping[str, Any] = {
    "name": "prompts.jsonl",
    "split": None,
    "rows": 500,
    "digest": "sha256:" + "cd" * 32,
}
GENERAL: Mapping[str, Any] = {
    "environment": "arena_hard",
    "judgegym_version": "0.1.0",
    "model_name": "a-policy",
    "judge_model_name": "a-judge",
    "judge_prompt_digests": {"judge_system_prompt": PROMPT},
    "generation_parameters": {"judge_temperature": 0.2},
    "date": "2026-11-01T10:00:00+00:00",
    "datasets": [DATASET],
    "protocol": PROTOCOL,
    "seed": 0,
    "headline": "eval/overall_winrate",
    "headline_words": "win rate",
    "notices": [],
}


def row(uid: str, value: float, *, weight: float = 1.0, **fields: Any) -> Sample[Any]:
    """A finished row with this value."""
    return sample(uid, headline=HeadlineTerm(value * weight, weight), **fields)


def rows_of(values: Sequence[float], **fields: Any) -> list[Sample[Any]]:
    """A row for each value."""
    return [row(f"row-{number}", value, **fields) for number, value in enumerate(values)]


def run(
    path: Path,
    rows: Sequence[Sample[Any]],
    /,
    *,
    protocol: Mapping[str, Any] | None = None,
    **general: Any,
) -> Path:
    """A finished run; its protocol is the usual one with changes."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("env: {}\n")
    for name, is_finished in (("samples.jsonl", True), ("failures.jsonl", False)):
        lines = [each.to_line() for each in rows if each.finished is is_finished]
        (path / name).write_bytes(b"".join(lines))
    said = {**GENERAL, **general, "protocol": {**PROTOCOL, **(protocol or {})}}
    report = {"config_general": said, "results": {"all": {said["headline"]: 0.5}}}
    (path / "metrics.json").write_text(json.dumps(report))
    return path


def opened(path: Path, rows: Sequence[Sample[Any]], /, **facts: Any) -> SavedRun:
    """A finished run, opened."""
    return SavedRun.open(run(path, rows, **facts))


def compare_runs(*runs: Any, **options: Any) -> Any:
    """What the comparison of runs says, as objects."""
    return objects(comparison.compare_runs(*runs, **options))
