"""A command whose output nobody reads."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from judgegym.judges.config.exit_code import run_and_flush
from judgegym.llm.errors import UserError


def test_quiet_at_broken_pipe_exit_code_is_the_commands_and_its_output_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_and_flush(lambda: print("said") or 3) == 3  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == "said\n"


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--help_all", "--show_config"])
def test_reward_server_output_that_nobody_reads_ends_it_quietly(flag: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "judgegym.server", "--judge=rubric", flag]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.slow
def test_output_in_an_encoding_that_lacks_a_character_shows_a_question_mark() -> None:
    home = "judgegym.judges.config.exit_code"
    code = f"from {home} import run_and_flush as run; run(lambda: print('1 \u2013 2') or 0)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"1 ? 2\n", b"")


def test_a_path_that_the_system_refuses_is_a_user_error_that_names_it() -> None:
    name = "a" * 300
    with pytest.raises(UserError, match=f"^{name}: File name too long$"):
        run_and_flush(lambda: int(Path(name).exists()))


def test_another_error_of_the_system_stays_what_it_is() -> None:
    def command() -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "samples.jsonl")

    with pytest.raises(OSError, match="No space left"):
        run_and_flush(command)
