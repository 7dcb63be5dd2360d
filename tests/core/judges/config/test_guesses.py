"""Flags as other tools call them are answered with ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from judgegym.datasets.sample import USED_BY
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.command_line.arguments import load_settings, make_settings_type
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.sources import load
from judgegym.llm.errors import SettingsError
from judgegym.server.settings import RewardServerSettings

GUESSES = (
    *(
        "seed",
        "model",
        "temperature",
        "dataset",
        "data",
        "out",
        "output",
        "output_dir",
        "concurrency",
        "max_tokens",
    ),
    *(
        "max_new_tokens",
        "judge",
        "judge_model",
        "api_key",
        "base_url",
        "n",
        "num_samples",
        "max_samples",
        "batch_size",
    ),
    *(
        "workers",
        "num-workers",
        "retries",
        "system_prompt",
        "max-concurrency",
        "split",
        "timeout",
        "debug",
    ),
)
Command = tuple[Callable[[Sequence[str]], object], frozenset[str]]


def _verb(env_type: type, verb: Verb) -> Command:
    known = frozenset(
        each.name
        for each in declared_settings(expand_choices(make_settings_type(env_type)), verb=verb)
    )
    return lambda argv: load_settings(env_type, argv, verb=verb), known


COMMANDS: dict[str, Command] = {
    "evaluate": _verb(ArenaHardEnv, "evaluate"),
    "process": _verb(ArenaHardEnv, "process"),
    "serve": _verb(PairwiseJudgementEnv, "serve"),
    "evaluate self_critique": _verb(SelfCritiqueEnv, "evaluate"),
    "score": (
        lambda argv: load(ScoreSettings, argv, prog="score", verb=USED_BY),
        frozenset(
            each.name for each in declared_settings(expand_choices(ScoreSettings), verb=USED_BY)
        ),
    ),
    "judge-server": (
        lambda argv: load(RewardServerSettings, argv, prog="judge-server"),
        frozenset(each.name for each in declared_settings(expand_choices(RewardServerSettings))),
    ),
}
WITHOUT = {
    "judge-server": {
        "dataset",
        "data",
        "out",
        "output",
        "output_dir",
        "max_samples",
        "split",
        "debug",
    },
    "score": {"debug"},
}
"""What a command has nothing for."""


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_natural_guess_is_answered_with_flags_of_that_command(command: str) -> None:
    read, known = COMMANDS[command]
    for guess in GUESSES:
        if guess in known:
            continue
        with pytest.raises(SettingsError) as error:
            read([f"--{guess}=1"])
        message = str(error.value)
        assert f"unknown flag --{guess}" in message
        named = set(
            re.findall(r"--([\w.]+)", message.partition("did you mean")[2].partition(";")[0])
        )
        assert named <= known
        assert bool(named) != (guess in WITHOUT.get(command, ())), (guess, message)


def test_the_first_answer_is_the_setting_that_is_meant() -> None:
    expected = {
        "model": "--openai.model_name or --env.judge_model_name?",
        "temperature": "--env.eval_temperature or --env.judge_temperature?",
        "seed": "--env.seed?",
        "dataset": "--env.eval_prompt_dataset, --env.eval_baseline_dataset, --env.train_prompt_dataset",
        "out": "--env.data_dir_to_save_evals?",
        "num_samples": "--limit?",
        "env.judge_temprature": "--env.judge_temperature?",
    }
    for guess, answer in expected.items():
        with pytest.raises(
            SettingsError, match=re.escape(f"unknown flag --{guess}, did you mean {answer}")
        ):
            load_settings(ArenaHardEnv, [f"--{guess}=1"], verb="evaluate")


def test_a_flag_of_an_environment_is_answered_with_that_of_a_command_without_sections() -> None:
    with pytest.raises(
        SettingsError, match=re.escape("unknown flag --env.judge, did you mean --judge?")
    ):
        load(ScoreSettings, ["--env.judge=aspect"], prog="score", verb=USED_BY)


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--env.thinking_mode"], True),
        (["--env.thinking_mode", "--limit=3"], True),
        (["--limit=3", "--env.thinking_mode"], True),
        (["--env.thinking_mode", "false"], False),
        (["--env.thinking_mode=False"], False),
        ([], False),
    ],
)
def test_a_yes_or_no_without_a_value_is_yes(argv: list[str], value: bool) -> None:
    assert load_settings(ArenaHardEnv, argv, verb="evaluate").settings.env.thinking_mode is value
