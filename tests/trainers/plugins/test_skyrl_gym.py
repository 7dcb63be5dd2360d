"""Trajectories without a judge's score in what SkyRL's generator has made, on the few names of SkyRL that we use."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from tests.trainers.plugins.packages import present

OURS = "judgegym_trainers.skyrl_gym"


class SkyRLGymGenerator:
    """SkyRL's generator: makes what it is told."""

    def __init__(self, output: dict[str, Any]) -> None:
        self.output = output

    async def generate(self, input_batch: Any, disable_tqdm: bool = False) -> dict[str, Any]:
        return self.output


SKYRL = {
    "skyrl_gym.envs.base_text_env": {"BaseTextEnv": object, "BaseTextEnvStepOutput": object},
    "skyrl.train.generators.skyrl_gym_generator": {"SkyRLGymGenerator": SkyRLGymGenerator},
}


@pytest.fixture(autouse=True)
def skyrl(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with present(monkeypatch, SKYRL, OURS):
        yield


def leave_out_failed(output: dict[str, Any], input_batch: dict[str, Any]) -> Any:
    return importlib.import_module(OURS).leave_out_failed(output, input_batch)


def made(
    rewards: list[Any], failed: list[int], masks: list[list[int]] | None = None
) -> dict[str, Any]:
    return {
        "rewards": rewards,
        "loss_masks": masks
        or [[1] * (len(reward) if isinstance(reward, list) else 2) for reward in rewards],
        "env_metrics": [{"judge_failed": float(place in failed)} for place in range(len(rewards))],
    }


def batch(*ids: str) -> dict[str, Any]:
    return {"trajectory_ids": [SimpleNamespace(instance_id=name, repetition_id=0) for name in ids]}


def test_the_mean_of_the_prompts_others_at_the_last_token() -> None:
    output = made([[0.0, 1.0], [0.0, 0.0, -5.0], [0.0, 0.5], [0.25]], failed=[1])
    found = leave_out_failed(output, batch("a", "a", "a", "b"))
    assert found["rewards"] == [[0.0, 1.0], [0.0, 0.0, 0.75], [0.0, 0.5], [0.25]]
    assert found["loss_masks"] == [[1, 1], [0, 0, 0], [1, 1], [1]]


def test_a_prompt_with_one_score_or_none_has_no_signal() -> None:
    found = leave_out_failed(
        made([1.0, -5.0, -5.0, -5.0], failed=[1, 2, 3]), batch("a", "a", "b", "b")
    )
    assert found["rewards"] == [1.0, 1.0, 0.0, 0.0]
    assert found["loss_masks"] == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_nothing_changes_without_a_failure_and_an_episode_without_a_step_is_none() -> None:
    output = made([1.0, 0.5], failed=[])
    output["env_metrics"][1] = {}  # too long a prompt
    assert leave_out_failed(output, {"trajectory_ids": None})["rewards"] == [1.0, 0.5]
    assert output["loss_masks"] == [[1, 1], [1, 1]]


def test_batched_output_tells_no_failure() -> None:
    with pytest.raises(SettingsError, match=r"generator\.batched: expected false"):
        leave_out_failed({"rewards": [1.0], "loss_masks": [[1]]}, {})


# Losses: skyrl-gym | any | `JudgedGenerator` | safe
async def test_the_generator_leaves_out_what_has_no_score() -> None:
    output = made([[0.0, 1.0], [0.0, 0.0, -5.0], [0.0, 0.5]], failed=[1])
    generator = importlib.import_module(f"{OURS}.generator").JudgedGenerator(output)
    found = await generator.generate(batch("a", "a", "a"))
    assert found["rewards"] == [[0.0, 1.0], [0.0, 0.0, 0.75], [0.0, 0.5]]
    assert found["loss_masks"] == [[1, 1], [0, 0, 0], [1, 1]]
