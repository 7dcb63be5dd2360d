"""The contract: what a class must have to be an environment, and what it need not answer."""

from __future__ import annotations

import logging
import sys
from typing import Any, Generic

import pytest

from judgegym.data.rows import TaskT
from judgegym.engine.settings import ConfigT, EnvConfig
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.judges.core.judgment import Judgment, Status
from tests.environments.words import Said, Word, WordsEnv, opened, speaking

HEADLINE = ("right", "right")


def test_types_are_read_from_the_type_parameters() -> None:
    assert (WordsEnv.config_type, WordsEnv.detail_type) == (EnvConfig, Said)


def test_types_are_read_through_generic_and_plain_subclasses() -> None:
    class OtherConfig(EnvConfig):
        pass

    class Half(JudgedEnv[ConfigT, Word, DetailT], Generic[DetailT, ConfigT]):
        """Abstract: its parameters stand in another order."""

    class Whole(Half[Said, OtherConfig]):
        name, headline = "whole", HEADLINE
        tasks = conversations = judge = record_metrics = WordsEnv.tasks  # type: ignore[assignment]  # any function will do

    class Plain(Whole):
        pass

    for env_type in (Whole, Plain):
        assert (env_type.config_type, env_type.detail_type) == (OtherConfig, Said)


@pytest.mark.parametrize("missing", ["name", "headline"])
def test_a_missing_class_attribute_is_said_when_the_class_is_made(missing: str) -> None:
    attributes = {"name": "mine", "headline": HEADLINE, **_answers()}
    del attributes[missing]
    with pytest.raises(TypeError, match=rf"the environment Mine: the class attribute `{missing}` is missing"):
        _make(JudgedEnv[EnvConfig, Word, Said], attributes)


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (JudgedEnv, "the type parameters are missing"),
        (JudgedEnv[int, Word, Said], "first type parameter must be a subclass of EnvConfig, found <class 'int'>"),  # type: ignore[type-var]
        (JudgedEnv["EnvConfig", Word, Said], "first type parameter must be .*'EnvConfig'"),
        (JudgedEnv[EnvConfig, TaskT, DetailT], "third type parameter must be a dataclass"),
        (JudgedEnv[EnvConfig, Word, dict[str, int]], "third type parameter must be a dataclass"),
    ],
)
def test_type_parameters_that_cannot_be_used_are_said_when_the_class_is_made(base: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        _make(base, {"name": "mine", "headline": HEADLINE, **_answers()})


def test_an_abstract_class_needs_no_name_yet() -> None:
    answers = _answers()
    del answers["judge"]
    abstract = _make(JudgedEnv[EnvConfig, Word, Said], answers)
    assert "judge" in abstract.__abstractmethods__


def test_five_questions_of_which_the_reward_has_a_default() -> None:
    assert JudgedEnv.__abstractmethods__ == {"tasks", "conversations", "judge", "record_metrics"}


async def test_the_reward_is_the_score_unless_it_is_overridden() -> None:
    async with opened(speaking) as (env, _):
        assert env.reward(Judgment(0.25, Status.OK)) == 0.25
        assert env.rewards([Judgment(0.25, Status.OK), Judgment(-1.0, Status.OK)]) == [0.25, -1.0]


def test_an_environment_has_a_command_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["words.py", "evaluate", "--show_config"])
    with pytest.raises(SystemExit) as leaving:
        WordsEnv.cli()
    assert leaving.value.code == 0
    assert "judge_protocol" not in capsys.readouterr().out, "that is Arena-Hard's"


def _answers() -> dict[str, Any]:
    return dict.fromkeys(JudgedEnv.__abstractmethods__, WordsEnv.tasks)


def _make(base: Any, attributes: dict[str, Any]) -> type[Any]:
    """A class as `class Mine(base)` makes it."""
    import types

    return types.new_class("Mine", (base,), exec_body=lambda namespace: namespace.update(attributes))


async def test_warning_about_rows_of_training_and_evaluation_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("judgegym.words")
    async with opened(speaking) as (env, _):
        for message in ("3 rows have no answer", "3 rows have no answer", "2 rows have no answer"):
            env.warn_once(logger, message)
    assert [record.getMessage() for record in caplog.records if record.name == logger.name] == [
        "3 rows have no answer",
        "2 rows have no answer",
    ]
