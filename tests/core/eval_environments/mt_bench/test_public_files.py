"""The public prompts as the published code names them. `MT_BENCH` names a folder of the public files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.mt_bench import TurnTask, judge_views, read_templates

_FOLDER = os.environ.get("MT_BENCH")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        _FOLDER is None,
        reason="MT_BENCH: no folder of question.jsonl, judge_prompts.jsonl, gpt-4.jsonl",
    ),
]
FOLDER = Path(_FOLDER or ".")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines() if line]


def test_public_prompts_are_read_and_named_as_the_published_code_names_them() -> None:
    published = {line["name"]: line for line in lines("judge_prompts.jsonl")}
    templates = read_templates((FOLDER / "judge_prompts.jsonl").read_text("utf-8"))
    assert templates.keys() == published.keys()
    for name, line in published.items():
        assert templates[name] == (line["system_prompt"], line["prompt_template"])
        baseline, reference = (
            "q" if line["type"] == "pairwise" else None,
            "q" if "math" in name else None,
        )
        turn = JudgeTask("q", ("q",), reference, baseline=baseline)
        assert name in {look.template for look in judge_views(TurnTask.from_turns([turn, turn]))}
