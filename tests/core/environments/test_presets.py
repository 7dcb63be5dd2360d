"""The presets of `configs/`: each is valid for its verb, and holds nothing that the verb does not use."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from judgegym.engine.settings.verbs import Verb
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.environments.rubric_checklist_environment import RubricChecklistEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from judgegym.judges.config.sources import load
from judgegym.server.settings import RewardServerSettings
from tests.command import ROOT

ENVIRONMENTS: list[type[JudgedEnv[Any, Any, Any]]] = [
    ArenaHardEnv, PairwiseJudgementEnv, SelfCritiqueEnv, RubricAbsoluteEnv, RubricChecklistEnv, AspectCritiqueEnv,
    PromptsEnv, MTBenchEnv,
]  # fmt: skip
CASES: list[tuple[str, type[JudgedEnv[Any, Any, Any]], Verb]] = [
    (f"{env_type.spec.name}_{purpose}.yaml", env_type, verb)
    for env_type in ENVIRONMENTS
    for purpose, verb in (("evaluate", "evaluate"), ("train", "serve"))
]
SERVERS = {"reward_server_rubric.yaml": {"", "safety"}, "reward_server_group.yaml": {"", "games"}}
"""Presets of the reward server, with the names of their judges."""


def test_every_preset_is_tested() -> None:
    assert {path.name for path in (ROOT / "configs").iterdir()} == {
        name for name, _, _ in CASES
    } | {*SERVERS}


@pytest.mark.parametrize(("name", "env_type", "verb"), CASES, ids=[name for name, _, _ in CASES])
def test_preset_is_valid_and_holds_settings_of_its_verb_only(
    name: str, env_type: type[JudgedEnv[Any, Any, Any]], verb: Verb
) -> None:
    path = ROOT / "configs" / name
    loaded = load_settings(env_type, [f"--config={path}"], verb=verb)
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    given = {
        f"{section}.{field}" for section in ("env", "openai") for field in values.get(section, {})
    }
    assert (
        given - {origin for origin, source in loaded.origins.items() if source == str(path)}
        == set()
    )


@pytest.mark.parametrize(("name", "mounts"), SERVERS.items())
def test_preset_of_the_reward_server_is_valid(name: str, mounts: set[str]) -> None:
    settings = load(
        RewardServerSettings, [f"--config={ROOT / 'configs' / name}"], prog="server"
    ).settings
    assert set(settings.mounted_judges()) == mounts


def test_judges_of_the_preset_for_groups_gather_what_the_command_line_says() -> None:
    argv = [f"--config={ROOT / 'configs' / 'reward_server_group.yaml'}", "--group_size=4"]
    mounts = load(RewardServerSettings, argv, prog="server").settings.mounted_judges().values()
    assert [(mount.judge, mount.group_size) for mount in mounts] == [
        ("listwise", 4),
        ("tournament", 4),
    ]
