"""uv, with the settings that pip has, and the interpreters of this machine.

`.ci/install` finds uv in the same places.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_SETTINGS = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
}
_PATIENCE_S = 1800.0
_ANSWER_S = 10.0


class NotInstallableError(Exception):
    """Something cannot be installed here; the message is the reason in one line."""


@cache
def uv() -> str:
    """The uv that runs: the one on PATH, or that of this environment; a shim may be there and not run.

    Raises:
        NotInstallableError: there is none.
    """
    for found in ("uv", str(Path(sys.executable).parent / "uv")):
        if (
            shutil.which(found)
            and subprocess.run([found, "--version"], capture_output=True).returncode == 0
        ):
            return found
    raise NotInstallableError("no uv: neither on PATH nor in .venv (pip install uv)")


def settings_of_pip(given: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for uv, which reads no settings of pip; what is set for uv itself stays."""
    named = {
        ours: given[theirs]
        for theirs, ours in _SETTINGS.items()
        if given.get(theirs) and not given.get(ours)
    }
    if "UV_FIND_LINKS" in named:  # pip divides by spaces, uv by commas
        named["UV_FIND_LINKS"] = ",".join(named["UV_FIND_LINKS"].split())
    return named


def run(*command: str, log: Path) -> None:
    """Run a command, with what it says at the end of a file.

    Raises:
        NotInstallableError: it fails; the message is the last of what it said.
    """
    variables = {**os.environ, **settings_of_pip(os.environ)}
    variables.pop("VIRTUAL_ENV", None)
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n")
        file.flush()
        begin = file.tell()
        try:
            code = subprocess.run(
                command,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env=variables,
                timeout=_PATIENCE_S,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstallableError(str(error)) from None
    if code:
        said = [
            line.strip(" │╰─▶×")
            for line in log.read_text(errors="replace")[begin:].splitlines()
            if line.strip()
        ]
        raise NotInstallableError(
            " ".join(" ".join(said[-4:]).split()) or f"{command[0]}: exit code {code}"
        )


def interpreter(versions: tuple[str, ...]) -> str:
    """The first interpreter of these versions that is here and runs: on PATH, of pyenv, or of uv.

    Raises:
        NotInstallableError: there is none.
    """
    for version in versions:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                return candidate
    raise NotInstallableError(f"needs Python {' or '.join(versions)}, which is not on this machine")


def _candidates(version: str) -> Iterator[str]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield str(Path(folder) / f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    of_uv = Path.home() / ".local" / "share" / "uv" / "python"
    for found in (*pyenv.glob(f"{version}*"), *of_uv.glob(f"cpython-{version}*")):
        yield str(found / "bin" / f"python{version}")


@cache
def _version_of(python: str) -> str:
    if not Path(python).is_file():
        return ""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    ended = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return ended.stdout.strip()


@cache
def cpu_torch() -> tuple[str, ...]:
    """The options with which uv takes the build of torch for CPUs, which is a tenth of the other one's size.

    A wheel in one of the folders of UV_FIND_LINKS or PIP_FIND_LINKS is preferred by its version and
    needs none.
    """
    folders = settings_of_pip(os.environ).get("UV_FIND_LINKS") or os.environ.get(
        "UV_FIND_LINKS", ""
    )
    if any(
        Path(folder).is_dir() and any(Path(folder).glob("torch-*+cpu*"))
        for folder in folders.split(",")
        if folder
    ):
        return ()
    try:
        with urlopen(f"{CPU_INDEX}/torch/", timeout=_ANSWER_S):
            return ("--torch-backend", "cpu")
    except (URLError, OSError):  # no network, or a mirror of the index alone: the index's own build
        return ()
