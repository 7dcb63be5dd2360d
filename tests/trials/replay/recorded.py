"""Recorded runs for tests of juries and cascades: the commands in this process, judges that say the same each time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample, SampleRun
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.llm.usage import Usage
from judgegym_trials.replay import command
from tests.command import Ended, called, clean_environment, write_lines
from tests.scripted import Json, Reply


def replay(*words: object) -> Ended:
    return called(
        lambda: command.main(list(map(str, words)), prog="judgegym replay"), clean_environment()
    )


def choose(*words: object) -> Ended:
    return replay(*words, "--choose")


def steady_judge(request: Json, number: int) -> Reply | str:
    """A rubric or aspect judge that answers by what it is asked alone; in eight answers one has no verdict.

    The model `strong` refuses one request in eleven; the model `plain` refuses response formats.
    """
    asked = json.dumps([request["model"], request["messages"], request.get("seed")])
    at = int(hashlib.sha256(asked.encode()).hexdigest(), 16)
    if request["model"] == "plain" and "response_format" in request:
        return Reply(status=400, body={"error": {"message": "response_format is not supported"}})
    if request["model"] == "strong" and at % 11 == 0:
        return Reply(status=400, body={"error": {"message": f"number {at % 1000} is refused"}})
    if at % 8 == 0:
        return "I cannot say."
    if "submission" in asked:
        return json.dumps({"reason": f"because {at % 997}", "verdict": int(at % 5 > 0)})
    return f"[FEEDBACK] Because {at % 997}. [SCORE] {1 + at % 5}"


def written_run(
    folder: Path,
    scores: Mapping[str, float | None],
    *,
    cost: float = 0.0,
    orders: Mapping[str, Sequence[float]] | None = None,
    is_scored: bool = False,
) -> Path:
    """A finished run of an environment, or of `score`, with these headline values by row, and the points of orders."""
    samples = [
        Sample[None](
            uid=uid,
            category=None,
            question=f"Why {uid}?",
            completions=(Completion("Because.", "", None, "stop", False),),
            judgment=Judgment(score, Status.JUDGE_FAILED if score is None else Status.OK),
            score=score,
            run=SampleRun(0.0, (), {"game": CallRun(usage=Usage(1, 1, cost))}),
            headline=None if score is None else HeadlineTerm(score, 1.0),
            orders=dict(zip(("given", "swapped"), (orders or {}).get(uid, ()), strict=False)),
        )
        for uid, score in scores.items()
    ]
    folder.mkdir()
    if is_scored:
        config = {
            "data": "rows.jsonl",
            "judge": "rubric",
            "judge_model_name": folder.name,
            "seed": 0,
        }
        (folder / "config.yaml").write_text(json.dumps(config), "utf-8")
    general = {
        "environment": "score" if is_scored else "arena_hard",
        "judge_model_name": folder.name,
        "headline": "eval/w",
    }
    report = {"config_general": general, "results": {"all": {"eval/w": 0.5}}}
    (folder / "metrics.json").write_text(json.dumps(report), "utf-8")
    (folder / "samples.jsonl").write_bytes(
        b"".join(each.to_line() for each in samples if each.finished)
    )
    (folder / "failures.jsonl").write_bytes(
        b"".join(each.to_line() for each in samples if not each.finished)
    )
    return folder


def written_labels(path: Path, labels: Mapping[str, float]) -> Path:
    return write_lines(
        path, [{"uid": uid, "labeller": "a", "label": label} for uid, label in labels.items()]
    )
