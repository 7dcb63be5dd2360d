"""verifiers' `vf-eval` with its `nemo-gym` taskset, which knows HTTP errors only: `--on_failure=http`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.core.server.running import asked, running
from tests.scripted import Json
from tests.trainers.loops import trainers
from tests.trainers.loops.verifiers.commands import stand_in

EVALUATION = """
model = "policy"

push = false
output_dir = "{directory}"

[client]
base_url = "{policy}"
api_key_var = "HOME"

[env.taskset]
id = "nemo-gym"
dataset = "{directory}/rows.jsonl"

[env.taskset.task]
resources_url = "{judge}"

[env.agent.harness]
id = "null"

[env.agent.runtime]
type = "subprocess"
"""


def judge(request: Json, number: int) -> str:
    text = asked(request)
    return "I cannot say." if "FAIL" in text else f"[SCORE] {5 if 'good?' in text else 1}"


@pytest.mark.timeout(150)
async def test_a_failed_judge_is_no_reward_of_zero(tmp_path: Path) -> None:
    rows = [
        {"responses_create_params": {"input": [{"role": "user", "content": question}]}}
        for question in ("Is it good?", "Is it bad?", "FAIL")
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with running("--on_failure=http", judge=judge) as server, stand_in() as of_policy:
        text = EVALUATION.format(directory=tmp_path, policy=of_policy, judge=server.url)
        (tmp_path / "evaluation.toml").write_text(text)
        place = trainers.place_of("verifiers") / "bin"
        options = ("--no-rich", "-r", "2", "-c", "4")
        ended = await trainers.run_with(
            str(place / "python"), place / "vf-eval", "@", tmp_path / "evaluation.toml", *options
        )
    assert ended.code == 0, ended.err
    (found,) = (
        Path(folder) / "traces.jsonl"
        for folder, _, files in os.walk(tmp_path)
        if "traces.jsonl" in files
    )
    traces = [
        trace for line in found.read_text().splitlines() for trace in json.loads(line)["traces"]
    ]
    rewards: dict[str, list[Any]] = {}
    for trace in traces:
        rewards.setdefault(trace["task"]["data"]["name"], []).append(
            (trace["ok"], trace["rewards"].get("nemo_gym"))
        )
    scored = {"weight": 1.0}
    assert rewards == {
        "rows:0": [(True, {"score": 1.0, **scored})] * 2,
        "rows:1": [(True, {"score": 0.0, **scored})] * 2,
        "rows:2": [(False, None)] * 2,  # with a failure in the row: (True, 0.0)
    }
