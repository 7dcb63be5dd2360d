"""A command whose output nobody reads."""

import os
import subprocess
import sys

import pytest

from judges.config.broken_pipe import quiet_at_broken_pipe


def test_quiet_at_broken_pipe_exit_code_is_the_commands_and_its_output_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quiet_at_broken_pipe(lambda: print("said") or 3) == 3  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == "said\n"


@pytest.mark.parametrize("flag", ["--help_all", "--show_config"])
def test_reward_server_output_that_nobody_reads_ends_it_quietly(flag: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "judges.server", "--judge=rubric", flag]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
