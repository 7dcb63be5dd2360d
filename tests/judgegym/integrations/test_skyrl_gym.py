"""Trajectories without a judge's score in what SkyRL's generator has made; SkyRL itself is not needed."""

from __future__ import annotations

import importlib
import runpy
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from tests.command import ROOT

leave_out_failed = runpy.run_path(str(ROOT / "judgegym/integrations/skyrl_gym/generated.py"))["leave_out_failed"]
"""The package imports skyrl-gym, which this module does not need."""


def made(rewards: list[Any], failed: list[int], masks: list[list[int]] | None = None) -> dict[str, Any]:
    return {
        "rewards": rewards,
        "loss_masks": masks or [[1] * (len(reward) if isinstance(reward, list) else 2) for reward in rewards],
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
    found = leave_out_failed(made([1.0, -5.0, -5.0, -5.0], failed=[1, 2, 3]), batch("a", "a", "b", "b"))
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


class SkyRLGymGenerator:
    """SkyRL's generator: makes what it is told."""

    def __init__(self, output: dict[str, Any]) -> None:
        self.output = output

    async def generate(self, input_batch: Any, disable_tqdm: bool = False) -> dict[str, Any]:
        return self.output


async def test_the_generator_leaves_out_what_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """`JudgedGenerator`, on the few names of SkyRL and skyrl-gym that our package uses."""
    ours = "judgegym.integrations.skyrl_gym"
    names = {"BaseTextEnv": object, "BaseTextEnvStepOutput": object, "SkyRLGymGenerator": SkyRLGymGenerator}
    for name in (
        *("skyrl_gym", "skyrl_gym.envs", "skyrl_gym.envs.base_text_env"),
        *("skyrl", "skyrl.train", "skyrl.train.generators", "skyrl.train.generators.skyrl_gym_generator"),
    ):
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    for name in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    generator = importlib.import_module(f"{ours}.generator")
    try:
        output = made([[0.0, 1.0], [0.0, 0.0, -5.0], [0.0, 0.5]], failed=[1])
        found = await generator.JudgedGenerator(output).generate(batch("a", "a", "a"))
    finally:
        for name in [name for name in sys.modules if name.startswith(ours)]:
            del sys.modules[name]
    assert found["rewards"] == [[0.0, 1.0], [0.0, 0.0, 0.75], [0.0, 0.5]]
    assert found["loss_masks"] == [[1, 1], [0, 0, 0], [1, 1]]
