"""`--judge KIND --help`: the settings of that judge, in every command that has one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from judgegym.cli.commands import main
from judgegym.judges.config.judge import FLAT_NAMES, JudgeSettings
from judgegym.judges.scorers.registry import JUDGES
from tests.thinking import PROMPT_FILE

Help = Callable[..., str]
COMMANDS = {
    "score": ["score", "--judge"],
    "evaluate prompts": ["evaluate", "prompts", "--env.judge"],
    "judge-server": ["judge-server", "--judge"],
    "attack": ["attack", "--judge"],
    "audit": ["audit", "--judge"],
    "audit into a folder": ["audit", "--out=x", "--judge"],
}
OWN_JUDGE = """
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition


class CountSettings(JudgeSettings):
    count_from: int = 1
    '''Count from this number.'''


JUDGE = JudgeDefinition(CountSettings, "counts letters", print)
"""


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Help:
    """The help of a command in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def ask(*words: str) -> str:
        assert main([*words, "--help"]) == 0
        return capsys.readouterr().out

    return ask


def flags(page: str) -> list[str]:
    return re.findall(r"^  --(?:env\.)?(\w+)", page, re.MULTILINE)


@pytest.mark.parametrize("kind", JUDGES)
def test_help_of_a_kind_has_its_settings_and_no_others(page: Help, kind: str) -> None:
    text, judge = page("score", "--judge", kind), JUDGES[kind]
    listed = [name for name in flags(text) if name not in FLAT_NAMES.values()]
    own = (judge.group_settings or judge.settings).model_fields
    assert own.keys() - JudgeSettings.model_fields.keys() <= {*listed}
    assert {*listed} - own.keys() <= {"rubric", "judge_conversation_limit"}
    assert len(listed) <= 15, listed
    assert ("judge_model_name" in flags(text)) is judge.asks_endpoint
    assert all(len(line) <= 80 for line in text.splitlines()[1:]), text
    assert "--judge=NAME --help" in " ".join(text.split())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_shows_the_settings_of_a_kind(page: Help, command: list[str]) -> None:
    names = flags(page(*command, "cascade"))
    assert (
        names[:2] == ["cascade", "cascade_confidence"]
        and "strictness" not in names
        and "data" not in names
    )


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("aspekt", r"'aspekt', did you mean aspect\?"),
        ("nowhere.yaml", "nowhere.yaml: the prompt file .*: No such file"),
        ("nowhere.py:JUDGE", "nowhere.py cannot be read: No such file"),
    ],
)
def test_a_judge_that_there_is_not_is_one_line(
    command: list[str], kind: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, kind, "--help"]) == 2
    told = capsys.readouterr()
    assert (
        told.out == ""
        and told.err.count("\n") == 1
        and re.search(line, told.err)
        and command[-1] in told.err
    )


def test_help_without_a_judge_tells_how_to_see_one(page: Help) -> None:
    text = page("score")
    assert "--judge TEXT" in text and "--data TEXT" in text
    assert "--judge=NAME --help" in text.replace("\n", " ")


def test_help_of_a_prompt_file_and_of_an_own_judge(page: Help, tmp_path: Path) -> None:
    assert flags(page("score", f"--judge={PROMPT_FILE}"))[:2] == ["rubric", "judge_prompt"]
    (tmp_path / "count.py").write_text(OWN_JUDGE)
    own_judge = f"--judge={tmp_path / 'count.py'}:JUDGE"
    text = page("score", own_judge)
    _, settings = text.split("\n\n", 1)
    assert page("audit", "rows.jsonl", own_judge).endswith(settings), (
        "but for the first lines, which name the command"
    )
    assert (
        "counts letters" in text
        and flags(text)[:1] == ["count_from"]
        and "Count from this number." in text
    )
