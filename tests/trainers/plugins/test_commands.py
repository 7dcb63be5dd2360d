"""The commands of targets: a wrong argument, and a trainer that is not installed, is one line with exit code 2."""

from __future__ import annotations

import pytest

from judgegym_trainers.nemo_gym import __main__ as nemo_gym
from judgegym_trainers.openenv import __main__ as openenv


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            [],
            "python -m judgegym_trainers.openenv: the following arguments are required: "
            "environment\n",
        ),
        (
            ["arena_hard", "--port=eighty"],
            "python -m judgegym_trainers.openenv: argument --port: invalid int value: 'eighty'\n",
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
    assert (
        capsys.readouterr().err
        == "python -m judgegym_trainers.nemo_gym: unrecognized arguments: --there\n"
    )
