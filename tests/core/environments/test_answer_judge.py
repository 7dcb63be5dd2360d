"""The judge that the base makes from spec and settings: of one kind, of one's own, or any that the user chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.own_environment.brief_environment import BriefEnv
from judgegym.engine.settings import EnvConfig
from judgegym.environments.spec import EnvSpec
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from tests.command import RunFiles, in_process, write_lines
from tests.core.environments.words import WordsEnv, opened, speaking

ANSWERS = {
    "short": "Eight legs.",
    "long": "Eight legs, if I have counted them right.",
    "wrong": "Six legs.",
}


def brief(path: Path, *flags: str) -> Any:
    """An evaluation of `BriefEnv` with given answers, which a rule judges: no endpoint is asked."""
    rows = [
        {"id": uid, "prompt": "How many legs has a spider?", "reference": "eight"}
        for uid in ANSWERS
    ]
    data = write_lines(path / "rows.jsonl", rows)
    answers = write_lines(
        path / "answers.jsonl", [{"uid": uid, "answer": text} for uid, text in ANSWERS.items()]
    )
    where = (
        f"--env.dataset={data}",
        f"--env.model_answers={answers}",
        f"--env.data_dir_to_save_evals={path / 'run'}",
    )
    return in_process("evaluate", *where, "--env.judge=rule", *flags, env_type=BriefEnv)


def test_any_judge_and_a_rule_beside_it_give_the_score(tmp_path: Path) -> None:
    ended = brief(tmp_path, "--env.rule=contains", "--env.most_words=4")
    assert ended.code == 0, ended.said
    scores = {sample["uid"]: sample["score"] for sample in RunFiles(tmp_path / "run").samples}
    assert scores == {"short": 1.0, "long": 0.5, "wrong": 0.0}
    assert RunFiles(tmp_path / "run").metrics["mean_score"] == 0.5


def test_setting_of_another_judge_is_refused_with_those_that_read_it(tmp_path: Path) -> None:
    ended = brief(tmp_path, "--env.rule=contains", "--env.scale_max=10")
    assert (ended.code, ended.out) == (2, "")
    assert "--env.scale_max (command line): " in ended.err
    assert "without --env.judge=rubric" in ended.err


def test_row_that_the_judge_cannot_judge_is_told_with_its_file(tmp_path: Path) -> None:
    ended = brief(tmp_path, "--env.judge=checklist", "--env.judge_base_url=http://127.0.0.1:9/v1")
    assert ended.code == 2
    assert f"{tmp_path / 'rows.jsonl'}: the row short: criteria: " in ended.err
    assert "the setting criteria" in ended.err


async def test_own_judge_is_opened_with_the_settings_before_the_first_call() -> None:
    made: list[tuple[EnvConfig, ChatClient]] = []

    def open_judge(config: EnvConfig, client: ChatClient) -> Any:
        made.append((config, client))

    class Own(WordsEnv):
        spec = EnvSpec(name="own", headline=("right", "right"), judge=open_judge)

    async with opened(speaking, env_type=Own) as (env, _):
        assert made == [(env.config, env.clients.judge)]


async def test_environment_without_a_judge_needs_no_key_and_says_so_where_one_is_asked() -> None:
    async with opened(speaking, "--env.judge_base_url=https://judge.example/v1"):
        pass
    async with opened(speaking) as (env, _):
        with pytest.raises(SettingsError, match=r"words names no judge: .*EnvSpec\(judge=…\)"):
            _ = env.answer_judge
