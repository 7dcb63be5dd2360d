"""The environment of two turns: what the user asks for, and what the judge says of each turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.tiny_grpo.judge import Script, serve_judge
from examples.tiny_grpo.two_turns import TwoTurnsEnv
from judgegym.engine.completions import Completion
from judgegym.judges.core.judgment import Status
from tests.core.environments.words import opened


@pytest.mark.parametrize(
    ("first", "second", "scores"),
    [
        ("eeee", "eeee", (1.0, 1.0)),
        ("qqqe", "qqee", (0.25, 0.5)),
        ("qqqq", "eeee", (0.0, 0.0)),
        ("eeee", "qqqq", (1.0, 0.0)),
    ],
)
async def test_each_turn_has_a_score_and_the_conversation_their_mean(
    first: str, second: str, scores: tuple[float, float], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        json.dumps({"prompt": "write", "rubric": "More of the letter e is better."}) + "\n"
    )
    with serve_judge(Script()) as url:
        flags = (
            f"--env.train_dataset={rows}",
            f"--env.judge_base_url={url}",
            "--env.scale_min=0",
            "--env.scale_max=20",
        )
        async with opened("unused", *flags, verb="serve", env_type=TwoTurnsEnv) as (env, _):
            (task,) = env.tasks("train")
            said = [Completion(first)]
            follow_up = await env.follow_up(task, said)
            assert follow_up == f"use {first[0]}"
            said.append(Completion(second, follow_up=follow_up))
            assert await env.follow_up(task, said) is None
            judgment = await env.judge(task, said)
    assert judgment.status is Status.OK
    assert judgment.detail.parts == dict(zip(("turn_1", "turn_2"), scores, strict=True))
    assert judgment.score == sum(scores) / 2
