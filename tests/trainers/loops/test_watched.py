"""A judge in a trainer's process is watched as the reward server is; here by TRL's reward function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores import in_process
from judgegym_trainers.scores.groups import find_distributed
from judgegym_trainers.trl import judge_reward
from tests.scripted import Reply, ScriptedEndpoint

TEXTS = ["long " * 20, "short"]


def of(url: str, model: str) -> dict[str, Any]:
    return {
        "judge": "rubric",
        "judge_base_url": url,
        "judge_model_name": model,
        "judge_api_key_env": "NO_KEY",
    }


def lines(folder: Path, kind: str) -> list[Any]:
    found = map(json.loads, (folder / "monitor.jsonl").read_bytes().splitlines())
    return [line[kind] for line in found if kind in line]


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_plugin_has_the_gold_judge_and_the_files_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    class Second:
        def get_rank(self) -> int:
            return 1

    monkeypatch.setattr(
        in_process, "find_distributed", find_distributed if processes == 1 else Second
    )
    folder = tmp_path if processes == 1 else tmp_path / "process-1"
    reply = Reply(text="[FEEDBACK] fine [SCORE] 5")
    low = Reply(text="[FEEDBACK] poor [SCORE] 1")
    async with (
        ScriptedEndpoint(lambda request, number: reply) as training,
        ScriptedEndpoint(lambda request, number: low) as gold,
    ):
        watched = {
            "run_dir": str(tmp_path),
            "monitor_every": 1,
            "gold_judge": of(gold.base_url, "gold"),
            "gold_share": 1,
        }
        reward = judge_reward(judge={**of(training.base_url, "weak"), "monitor": watched})
        scores = await reward(prompts=["Why?"] * 2, completions=TEXTS)
        await reward.close()
    assert scores == [1.0, 1.0], "gold scores are no rewards"
    (step,) = lines(folder, "step")
    assert (step["groups"], step["rollouts"], step["values"]["reward_mean"]) == (1, 2, 1.0)
    assert lines(folder, "begin") == [{"judge": "weak", "gold_judge": "gold"}]
    assert [score for line in lines(folder, "gold") for score in line["scores"].values()][:1] == [
        0.0
    ]
    assert (folder / "live.jsonl").exists()


@pytest.mark.parametrize(
    ("monitor", "message"),
    [
        (
            {"gold_jugde": {}},
            r"^judge\.monitor\.gold_jugde: unknown setting .*did you mean gold_judge",
        ),
        (
            {"gold_judge": {"judge": "listwise"}},
            r"^judge\.monitor\.gold_judge\.judge: .*sees each response",
        ),
        ("runs", r"^judge\.monitor: .*a mapping .*found 'runs'"),
    ],
)
def test_wrong_settings_are_told_at_once(monitor: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        judge_reward(judge={"judge": "rubric", "monitor": monitor})
