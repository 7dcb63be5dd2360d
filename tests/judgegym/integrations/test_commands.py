"""The commands of targets: a wrong argument, and a trainer that is not installed, is one line with exit code 2."""

from __future__ import annotations

import subprocess
import sys

import pytest

from judgegym.integrations.nemo_gym import __main__ as nemo_gym
from judgegym.integrations.openenv import __main__ as openenv
from judgegym.judges.config.extras import install_command

WITHOUT_OPENENV = "import sys; sys.modules['openenv'] = None; from judgegym.integrations.openenv.__main__ import main; "


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "python -m judgegym.integrations.openenv: the following arguments are required: environment\n"),
        (
            ["arena_hard", "--port=eighty"],
            "python -m judgegym.integrations.openenv: argument --port: invalid int value: 'eighty'\n",
        ),
    ],
)
def test_a_wrong_argument_for_openenv_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        openenv.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == said


def test_a_wrong_argument_for_nemo_gym_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        nemo_gym.main(["here", "--there"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "python -m judgegym.integrations.nemo_gym: unrecognized arguments: --there\n"


@pytest.mark.slow
def test_without_openenv_its_command_names_the_extra() -> None:
    code = WITHOUT_OPENENV + "main(['arena_hard', '--offline'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"openenv.core is not installed: {install_command('openenv')}\n"
