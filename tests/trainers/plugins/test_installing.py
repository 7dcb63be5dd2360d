"""The installer of `make test-integrations`: what it makes, makes again, leaves alone, and says of what it cannot."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainers.loops import trainers
from tests.trainers.loops.install import environments, uv
from tests.trainers.loops.install.table import Counted, counted, lines
from tests.trainers.loops.install.targets import Source, Target
from tests.trainers.loops.install.uv import NotInstallableError

OF_THE_INDEX = Target("some", "Some", "some", "1.0", "some", extra="trl", packages=("some==1.0",), bare=("large==2.0",))
REPORT = """<testsuites><testsuite>
<testcase classname="tests.trainers.loops.some.test_some" name="test_a" time="1.25"/>
<testcase classname="tests.trainers.loops.some.test_some" name="test_b" time="2"><failure/></testcase>
<testcase classname="tests.trainers.loops.other.test_other" name="test_a[x]" time="0"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


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


def test_an_environment_is_made_once_and_again_when_its_packages_change(tmp_path: Path, commands: Commands) -> None:
    assert environments.make(OF_THE_INDEX, tmp_path) == "installed"
    venv, packages, bare, imported = commands.said
    assert venv.startswith("uv venv") and "--no-python-downloads --python python3.11" in venv
    assert "some==1.0 --editable" in packages and packages.endswith("[trl]") and "large" not in packages
    assert "--no-deps large==2.0" in bare
    assert "import some, judgegym" in imported
    assert environments.make(OF_THE_INDEX, tmp_path) == "there already"
    assert len(commands.said) == 4
    assert environments.make(replace(OF_THE_INDEX, packages=("some==1.1",)), tmp_path) == "installed"


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


def test_a_checkout_comes_from_the_folder_of_clones_if_there_is_one(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source("https://host/some", commit="abc", day="2026-01-02", projects=("part", "."))
    target = replace(OF_THE_INDEX, source=source, bare=())
    environments.make(target, tmp_path)
    assert any("fetch --quiet --depth 1 https://host/some abc" in said for said in commands.said)
    (packages,) = (said for said in commands.said if "pip install" in said)
    assert f"--editable {tmp_path}/some/src/some/part --editable {tmp_path}/some/src/some" in packages
    clones = tmp_path / "clones"
    (clones / "some").mkdir(parents=True)
    monkeypatch.setenv("TRAINER_SOURCES", str(clones))
    commands.fails = "fetch"
    with pytest.raises(NotInstallableError, match="clones/some cannot be cloned"):
        environments.make(replace(target, version="2"), tmp_path)


def test_a_command_that_fails_is_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(NotInstallableError, match=r"^first it is not there$"):
        uv.run("sh", "-c", "echo first; echo '  it is' >&2; echo; echo 'not there'; exit 3", log=log)
    assert "$ sh -c" in log.read_text()
    with pytest.raises(NotInstallableError, match="nobody"):
        uv.run("/nobody/here", log=log)


def test_settings_of_pip_are_those_of_uv() -> None:
    given = {"PIP_INDEX_URL": "https://i", "PIP_FIND_LINKS": "/a  /b", "UV_DEFAULT_INDEX": "https://own"}
    assert uv.settings_of_pip(given) == {"UV_FIND_LINKS": "/a,/b"}
    assert uv.settings_of_pip({"PIP_INDEX_URL": "https://i"}) == {"UV_DEFAULT_INDEX": "https://i"}


def test_an_interpreter_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shim of pyenv, which is on PATH and knows the version not."""
    pyenv = tmp_path / "pyenv" / "versions" / "3.99.1" / "bin"
    pyenv.mkdir(parents=True)
    shims = tmp_path / "shims"
    shims.mkdir()
    for folder, says in ((shims, "exit 127"), (pyenv, "echo 3.99")):
        (folder / "python3.99").write_text(f"#!/bin/sh\n{says}\n")
        (folder / "python3.99").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert uv.interpreter(("3.98", "3.99")) == str(pyenv / "python3.99")
    with pytest.raises(NotInstallableError, match=r"needs Python 3.97 or 3.98, which is not on this machine"):
        uv.interpreter(("3.97", "3.98"))


def test_the_table_counts_the_tests_of_each_target(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    tests = counted(report)
    assert tests == {"some": Counted(1, 1, 0, 3.25), "other": Counted(0, 0, 1, 0.0)}
    other = replace(OF_THE_INDEX, name="other")
    table = lines([OF_THE_INDEX, other], tmp_path, tests, {"other": "no network"})
    assert [line.split() for line in table] == [
        ["target", "version", "passed", "failed", "skipped", "seconds"],
        ["some", "–", "1", "1", "0", "3"],
        ["other", "–", "0", "0", "1", "0"],
        ["all", "1", "1", "1", "3"],
        ["not", "here:", "other:", "no", "network"],
    ]
