"""How commands over finished runs end."""

from __future__ import annotations

import pytest

from judgegym.engine.terminal.output import exit_code
from judgegym.judges.config.extras import install_command
from judgegym.llm.errors import RunDirectoryError


def test_a_commands_own_code_is_kept() -> None:
    assert [exit_code(lambda: 0), exit_code(lambda: 1)] == [0, 1]


def test_wrong_input_is_one_message_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise RunDirectoryError("runs/a: no such directory")

    assert exit_code(command) == 2
    assert capsys.readouterr() == ("", "runs/a: no such directory\n")


def test_a_missing_extra_is_named_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise ModuleNotFoundError("No module named 'scipy.stats'", name="scipy.stats")

    assert exit_code(command) == 2
    assert capsys.readouterr().err == f"scipy is not installed: {install_command('environments')}\n"


def test_another_missing_module_is_a_fault_of_the_program() -> None:
    def command() -> int:
        raise ModuleNotFoundError("No module named 'nothing'", name="nothing")

    with pytest.raises(ModuleNotFoundError):
        exit_code(command)


def test_ctrl_c_ends_without_a_traceback() -> None:
    def command() -> int:
        raise KeyboardInterrupt

    assert exit_code(command) == 130
