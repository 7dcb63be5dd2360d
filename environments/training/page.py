"""Write an HTML page of scored groups. All text of models is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from environments.rollouts.scored_group import ZERO_ADVANTAGE
from environments.runs.atomic import write_atomic
from judges.llm import wire
from judges.llm.wire import JSON

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class _Rollout:
    score: float
    text: str
    status: str
    label: str | None
    explanation: str
    failed: bool


@dataclass(frozen=True, slots=True)
class _Group:
    scores: list[str]
    prompt: Sequence[Mapping[str, JSON]]
    rollouts: list[_Rollout]


def write_page(groups_file: Path) -> Path:
    """Write the page of a JSONL file of groups, beside it; groups without `messages` show only their scores.

    Returns:
        The page's path: that of the file, with the ending `.html`.
    """
    from jinja2 import Environment, FileSystemLoader  # late: only process writes a page

    groups = [_group(wire.loads(line)) for line in groups_file.read_bytes().splitlines()]
    templates = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = groups_file.with_suffix(".html")
    write_atomic(page, templates.get_template("groups.html").render(title=groups_file.stem, groups=groups).encode())
    return page


def _group(line: JSON) -> _Group:
    values = cast("Mapping[str, JSON]", line)
    scores = cast("list[float]", values["scores"])
    conversations = cast("list[list[Mapping[str, JSON]]]", values.get("messages") or [])
    overrides = cast("list[Mapping[str, JSON]]", values.get("overrides") or [{}] * len(scores))
    rollouts = [
        _rollout(score, turns[-1], failed=override.get(ZERO_ADVANTAGE) is True)
        for score, turns, override in zip(scores, conversations, overrides, strict=False)
    ]
    return _Group([f"{score:g}" for score in scores], conversations[0][:-1] if conversations else [], rollouts)


def _rollout(score: float, turn: Mapping[str, JSON], *, failed: bool) -> _Rollout:
    judgment = cast("Mapping[str, JSON]", turn.get("judgment") or {})
    label = judgment.get("label")
    if label == "tie" and score:  # of two games of which one was tied, or a strong and a weak verdict
        label = f"{'better' if score > 0 else 'worse'} than a tie"
    return _Rollout(
        score=score,
        text=str(turn["content"]),
        status=str(judgment.get("status", "")),
        label=str(label) if label is not None else None,
        explanation=str(judgment.get("explanation", "")),
        failed=failed,
    )
