"""Flags and their defaults, by the command that prints all settings."""

from __future__ import annotations

import pytest

from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.command import ROOT, in_process
from tests.conformance.specification.promises import DEVIATIONS, PROMISED, RETIRED, Promised, Verb

ENVIRONMENTS = {"arena_hard": ArenaHardEnv, "pairwise_judgement": PairwiseJudgementEnv}
VERBS: tuple[Verb, ...] = ("evaluate", "serve", "process")


def shown(promised: Promised, verb: Verb, *flags: str) -> dict[str, tuple[str, str]]:
    """Each setting of a verb, with its value and its source."""
    ended = in_process(verb, "--show_config", *flags, env_type=ENVIRONMENTS[promised.name])
    assert ended.code == 0, ended.said
    settings = {}
    for line in ended.out.splitlines():
        name, _, value_and_source = line.partition(" ")
        value, _, source = value_and_source.strip().rpartition("  [")
        settings[name] = (value, source.removesuffix("]"))
    return settings


@pytest.mark.parametrize("promised", PROMISED, ids=lambda promised: promised.name)
def test_flags_and_defaults(promised: Promised) -> None:
    assert (ROOT / promised.script).is_file()
    settings = {name: value for verb in VERBS for name, value in shown(promised, verb).items()}
    assert not promised.flags - set(settings)
    expected = {name: value for name, value in promised.defaults.items() if name not in DEVIATIONS}
    assert {name: settings[name] for name in expected} == {name: (value, "default") for name, value in expected.items()}
    for name in promised.defaults.keys() & DEVIATIONS.keys():
        assert settings[name] != (promised.defaults[name], "default"), f"{name} is as promised: no deviation"


def test_the_judge_is_a_sonnet_that_takes_the_promised_temperature() -> None:
    settings = shown(PROMISED[0], "evaluate")
    model, _ = settings["env.judge_model_name"]
    assert model.startswith("claude-sonnet-4")
    assert model != RETIRED
    assert settings["env.judge_base_url"] == ("https://api.anthropic.com/v1", "default")


@pytest.mark.parametrize(("value", "code"), [("2", 0), ("26", 0), ("1", 2), ("27", 2)])
def test_the_range_of_choices(value: str, code: int) -> None:
    ended = in_process("evaluate", "--show_config", f"--env.num_choices={value}", env_type=PairwiseJudgementEnv)
    assert ended.code == code
    assert ("env.num_choices" in ended.said) == (code != 0 or value in ended.out)
