"""The installer of `make test-integrations`: what it makes, makes again, leaves alone, and says of what it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainers.loops import trainers
from tests.trainers.loops.install import environments
from tests.trainers.loops.install.targets import Target
from tests.trainers.loops.install.uv import NotInstallableError

OF_THE_INDEX = Target(
    "some",
    "Some",
    "some",
    "1.0",
    "some",
    extra="trl",
    packages=("some==1.0",),
    bare=("large==2.0",),
)


class Commands:
    """Stands in for the commands of the installer, and notes them."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.fails = ""

    def __call__(self, *command: str, log: Path) -> None:
        self.said.append(" ".join(command))
        if self.fails and self.fails in self.said[-1]:
            raise NotInstallableError(f"no {self.fails}")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands()
    monkeypatch.setattr(environments, "run", commands)
    monkeypatch.setattr(environments, "uv", lambda: "uv")
    monkeypatch.setattr(environments, "interpreter", lambda versions: f"python{versions[0]}")
    monkeypatch.delenv("TRAINER_SOURCES", raising=False)
    return commands


def test_an_environment_is_made_once_and_again_when_its_packages_change(
    tmp_path: Path, commands: Commands
) -> None:
    assert environments.make(OF_THE_INDEX, tmp_path) == "installed"
    venv, packages, bare, imported = commands.said
    assert venv.startswith("uv venv") and "--no-python-downloads --python python3.11" in venv
    assert (
        "some==1.0 --editable" in packages
        and packages.endswith("[trl]")
        and "large" not in packages
    )
    assert "--no-deps large==2.0" in bare
    assert "import some, judgegym" in imported
    assert environments.make(OF_THE_INDEX, tmp_path) == "there already"
    assert len(commands.said) == 4
    assert (
        environments.make(replace(OF_THE_INDEX, packages=("some==1.1",)), tmp_path) == "installed"
    )


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "some" / "bin").mkdir(parents=True)
    assert "used as it is" in environments.make(OF_THE_INDEX, tmp_path)
    assert commands.said == [] and (tmp_path / "some" / "bin").is_dir()


def test_what_cannot_be_installed_leaves_a_reason_with_which_its_tests_are_skipped(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.fails = "some==1.0"
    with pytest.raises(NotInstallableError):
        environments.make(OF_THE_INDEX, tmp_path)
    assert not (tmp_path / "some").exists()
    monkeypatch.setattr(trainers, "PLACE", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=r"some is not installed: no some==1\.0"):
        trainers.place_of("some")
    commands.fails = ""
    assert environments.make(OF_THE_INDEX, tmp_path) == "installed"
    assert not trainers.reason_file(tmp_path, "some").exists()
