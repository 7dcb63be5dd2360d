"""Messages of values that may be of several kinds, and of numbers that are none."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.environments.command_line.arguments import load_settings
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from judgegym.llm.errors import SettingsError


def said(env_type: Any, flag: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load_settings(env_type, [flag], verb="evaluate")
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "1",
            "--env.num_choices (command line): expected greater than or equal to 2, or 'auto', "
            "got '1'",
        ),
        (
            "27",
            "--env.num_choices (command line): expected less than or equal to 26, or 'auto', got "
            "'27'",
        ),
        (
            "some",
            "--env.num_choices (command line): expected a valid integer, or 'auto', got 'some'",
        ),
    ],
)
def test_value_of_several_kinds_has_one_line_without_inside_names(value: str, message: str) -> None:
    assert said(PairwiseJudgementEnv, f"--env.num_choices={value}") == [message]


def test_choice_names_its_values() -> None:
    (line,) = said(PairwiseJudgementEnv, "--env.shuffle=never")
    assert (
        line
        == "--env.shuffle (command line): expected 'permutation' or 'official_swap', got 'never'"
    )


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize(
    "name",
    [
        "env.judge_temperature",
        "env.eval_temperature",
        "env.judge_timeout",
        "openai.timeout",
        "env.max_judge_error_rate",
    ],
)
def test_number_that_is_not_finite_is_refused(name: str, value: str) -> None:
    (line,) = said(
        PairwiseJudgementEnv if "judge_t" not in name else SelfCritiqueEnv, f"--{name}={value}"
    )
    assert f"--{name} (command line): expected " in line
    assert line.endswith(f"got '{value}'")


def test_seed_below_0_is_refused_before_rows_are_asked_for() -> None:
    (line,) = said(SelfCritiqueEnv, "--env.seed=-1")
    assert line == "--env.seed (command line): expected greater than or equal to 0, got '-1'"


@pytest.mark.parametrize(
    ("value", "where", "facts"),
    [
        ("a, b", "--env.candidates", ("a JSON list", '[{"name": ')),
        (
            '[{"name": "a", "answer": "a.jsonl"}]',
            "env.candidates.0.answer",
            ("unknown setting", "did you mean "),
        ),
        (
            '[{"name": "a", "zzz": 1}]',
            "env.candidates.0.zzz",
            ("unknown setting", "expected name, model_name, "),
        ),
    ],
)
def test_what_is_wrong_in_a_list_of_models_is_said_with_what_a_model_may_have(
    value: str, where: str, facts: tuple[str, ...]
) -> None:
    (line,) = said(SelfCritiqueEnv, f"--env.candidates={value}")
    assert line.startswith(f"{where} (command line): ")
    assert all(fact in line for fact in facts)
