"""The set-up of `make`: what is installed, and with what. Python, uv and pip are stand-ins that note their calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PYTHON = r"""#!/usr/bin/env bash
echo "${0##*/} $*" >>"$NOTES"
case "$*" in
    *"version_info < (3, 10)"*) exit "${TOO_OLD:-0}" ;;
    *"version_info >= (3, 14)"*) exit "${TOO_NEW:-0}" ;;
    *'find_spec("torch")'*) exit "${NO_TORCH:-0}" ;;
    *"torch=="*"+cpu") exit "${NO_CPU_BUILD:-0}" ;;
    --version) echo "Python 3.9.1" ;;
    "-m venv --clear .venv")
        [ -z "$NO_ENSUREPIP" ] || exit 1
        mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/judgegym; touch .venv/pip ;;
    "-m venv --clear --without-pip .venv")
        mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/judgegym ;;
    "-m pip --version") [ -e .venv/pip ] ;;
    "-m ensurepip") exit 1 ;;
    "-m pip --python"*) touch .venv/pip ;;
    "-m pip install"*" uv") [ -n "$PIP_FETCHES_UV" ] || exit 1; cp "$UV" .venv/bin/uv ;;
esac
"""
UV = r"""#!/usr/bin/env bash
case "$1" in --version) exit 0 ;; esac
echo "uv $*" >>"$NOTES"
if [ -n "${UV_DEFAULT_INDEX:-}" ]; then echo "index $UV_DEFAULT_INDEX" >>"$NOTES"; fi
case "$1 ${UV_FAILS:-}" in
    "venv "*)
        mkdir -p .venv/bin; touch .venv/pip
        for name in python judgegym; do cp "$(command -v python3)" ".venv/bin/$name"; done ;;
    "pip yes") echo "no such index" >&2; exit 2 ;;
esac
"""


class Checkout:
    """A checkout with the Makefile and the set-up alone, and a PATH of stand-ins."""

    def __init__(self, path: Path) -> None:
        self.path, self.notes, self.bin = path / "checkout", path / "notes", path / "bin"
        (self.path / ".ci").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("Makefile", "pyproject.toml", "constraints.txt", ".ci/install"):
            shutil.copy(ROOT / name, self.path / name)
        self.script(self.bin / "python3", PYTHON)
        self.script(path / "uv", UV)
        self.environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "NOTES": str(self.notes),
            "UV": str(path / "uv"),
        }

    def script(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def uv_on_path(self) -> None:
        self.script(self.bin / "uv", UV)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        self.notes.write_text("")
        environment = {**self.environment, **variables}
        return subprocess.run(
            words, cwd=self.path, env=environment, capture_output=True, text=True, timeout=60
        )

    def install(self, extra: str = "environments", **variables: str) -> str:
        """Installs; gives what it said."""
        ended = self.run(".ci/install", extra, **variables)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout + ended.stderr

    def made(self, target: str) -> list[str]:
        """Makes what the target needs; gives the extras that were installed."""
        ended = self.run("make", target)
        assert ended.returncode == 0, ended.stderr
        return [line.rpartition("[")[2].rstrip("]") for line in self.said() if line.endswith("]")]

    def said(self) -> list[str]:
        return self.notes.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    if shutil.which("make") is None or shutil.which("uv", path="/usr/bin:/bin"):
        pytest.skip("needs make, and a system without uv")
    return Checkout(tmp_path)


WHAT = "-c constraints.txt --editable .[environments]"
WITH_UV = f"uv pip install --quiet --python .venv/bin/python {WHAT}"
WITH_PIP = f"python -m pip install -qq --disable-pip-version-check --no-compile {WHAT}"


def test_uv_on_path_creates_the_environment_and_installs(checkout: Checkout) -> None:
    checkout.uv_on_path()
    assert "pip" not in checkout.install()
    assert [line for line in checkout.said() if line.startswith("uv venv")]
    assert checkout.said()[-1] == WITH_UV


def test_uv_that_is_not_on_path_comes_with_pip(checkout: Checkout) -> None:
    assert "longer" not in checkout.install(PIP_FETCHES_UV="yes")
    assert "python3 -m venv --clear .venv" in checkout.said()
    assert checkout.said()[-1] == WITH_UV


def test_without_uv_pip_installs_and_a_line_says_so(checkout: Checkout) -> None:
    said = checkout.install()
    assert "uv is not on PATH, and pip could not fetch it: installing with pip" in said
    assert checkout.said()[-1] == WITH_PIP


def test_a_shim_of_uv_that_does_not_run_counts_as_missing(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "uv", "#!/bin/sh\nexit 127\n")
    checkout.install(PIP_FETCHES_UV="yes")
    assert checkout.said()[-1] == WITH_UV


def test_uv_that_fails_is_replaced_by_pip_and_its_message_is_shown(checkout: Checkout) -> None:
    checkout.uv_on_path()
    said = checkout.install(UV_FAILS="yes")
    assert "no such index" in said and "uv failed" in said
    assert checkout.said()[-1] == WITH_PIP


def test_uv_takes_the_index_that_pip_is_told_to_use(checkout: Checkout) -> None:
    checkout.uv_on_path()
    checkout.install(PIP_INDEX_URL="http://mirror.example/simple")
    assert checkout.said()[-1] == "index http://mirror.example/simple"


def test_python_without_ensurepip_gets_its_pip_from_outside(checkout: Checkout) -> None:
    checkout.install(NO_ENSUREPIP="yes", PIP_FETCHES_UV="yes")
    assert "python3 -m pip --python .venv/bin/python install -qq pip" in checkout.said()
    assert checkout.said()[-1] == WITH_UV


def test_a_new_python_is_installed_without_constraints_and_a_line_says_so(
    checkout: Checkout,
) -> None:
    checkout.uv_on_path()
    assert "constraints.txt fits" in checkout.install(TOO_NEW="1")
    assert "constraints" not in checkout.said()[-1]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PYTHON": "python9"}, ["'python9' was not found"]),
        ({"TOO_OLD": "1"}, ["Python 3.10 or newer", "3.9.1"]),
    ],
)
def test_a_python_that_does_not_do_is_one_line(
    variables: dict[str, str], words: list[str], checkout: Checkout
) -> None:
    ended = checkout.run("make", ".venv/.installed-dev", **variables)
    assert ended.returncode != 0
    line = ended.stderr.splitlines()[0]
    assert line.startswith("JudgeGym needs") and all(word in line for word in words)


def test_an_environment_that_is_there_is_kept(checkout: Checkout) -> None:
    checkout.uv_on_path()
    checkout.install()
    (checkout.path / ".venv/mine").touch()
    assert "Creating" not in checkout.install("dev")
    assert (checkout.path / ".venv/mine").exists()


def test_make_installs_what_a_command_needs_and_once(checkout: Checkout) -> None:
    checkout.uv_on_path()
    assert checkout.made("evaluate") == ["environments"]
    assert checkout.made("evaluate") == []
    assert checkout.made("install") == ["all"]
    assert checkout.made("real-model") == ["real-model"]
    assert checkout.made(".venv/.installed-dev") == ["dev"]
    assert checkout.made("install") == checkout.made("evaluate") == []


def test_make_evaluate_after_the_tests_installs_nothing(checkout: Checkout) -> None:
    checkout.uv_on_path()
    assert checkout.made(".venv/.installed-dev") == ["dev"]
    assert checkout.made("evaluate") == []


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_a_changed_file_is_installed_for_each_command_that_needs_it(
    changed: str, checkout: Checkout
) -> None:
    checkout.uv_on_path()
    checkout.made(".venv/.installed-dev")
    later = (checkout.path / ".venv/.installed-dev").stat().st_mtime + 2
    os.utime(checkout.path / changed, (later, later))
    for stamp in (checkout.path / ".venv").glob(".installed-*"):
        os.utime(stamp, (later - 1, later - 1))
    assert checkout.made("evaluate") == ["environments"]
    os.utime(checkout.path / ".venv/.installed-environments", (later + 1, later + 1))
    assert checkout.made("evaluate") == []
    assert checkout.made(".venv/.installed-dev") == ["dev"]


def test_make_learn_trains_with_what_it_needs(checkout: Checkout) -> None:
    checkout.uv_on_path()
    assert checkout.made("learn") == ["examples"]
    assert checkout.said()[-1] == "python -m examples.tiny_grpo"
    assert checkout.made("learn") == checkout.made("evaluate") == []


TORCH = "python -m pip install -qq --disable-pip-version-check --no-compile "


@pytest.mark.parametrize(
    ("variables", "installed"),
    [
        ({}, []),  # it is there
        (
            {"NO_TORCH": "1"},
            ["+cpu"],
        ),  # pip's own settings know a build for CPUs: nothing larger is asked for
        ({"NO_TORCH": "1", "NO_CPU_BUILD": "1"}, ["+cpu", "/whl/cpu"]),
    ],
)
def test_torch_comes_by_pip_as_a_build_for_cpus(
    variables: dict[str, str], installed: list[str], checkout: Checkout
) -> None:
    checkout.uv_on_path()
    checkout.install("examples", **variables)
    asked = [line for line in checkout.said() if line.startswith(TORCH)]
    assert len(asked) == len(installed) and all(map(str.__contains__, asked, installed))
    assert checkout.said()[-1] == WITH_UV.replace("environments", "examples")
    checkout.install("dev", **variables)
    assert not [line for line in checkout.said() if line.startswith(TORCH)]
