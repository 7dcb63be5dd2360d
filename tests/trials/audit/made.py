"""Labelled pairs with recorded verdicts, as a user has them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judgegym_trials.audit.command import main

Row = dict[str, Any]


def pairs(count: int = 120, *, right: float = 0.9, first: float = 0.0, seed: int = 0) -> list[Row]:
    """Pairs with verdicts in both orders: right in this share, but the first shown in that one."""
    numbers = random.Random(seed)
    rows = []
    for number in range(count):
        label = numbers.choice([1, 2])
        said = label if numbers.random() < right else 3 - label
        verdict = [place if numbers.random() < first else said for place in (1, 2)]
        responses = [f"response {number} {side} " * numbers.randint(1, 9) for side in "ab"]
        rows.append(
            {
                "uid": f"row-{number}",
                "prompt": f"Question {number}?",
                "responses": responses,
                "label": label,
                "verdict": verdict,
                "category": numbers.choice(["code", "math"]),
            }
        )
    return rows


def written(path: Path, rows: Sequence[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def audited(path: Path, *flags: str, code: int = 0) -> dict[str, Any]:
    """What `judgegym audit` writes as JSON."""
    out = path.with_name("audit.json")
    assert main([str(path), f"--json={out}", *flags], prog="judgegym audit") == code
    found: dict[str, Any] = json.loads(out.read_bytes())
    return {**found, "by_name": {check["name"]: check for check in found["checks"]}}
