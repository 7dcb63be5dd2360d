"""Makes the environment of a target, unless it is there.

Guarantees: a folder that something else has made is used as it is, and never removed; one of ours
is made again when what belongs into it has changed, or when it was not finished; what cannot be
installed leaves no environment behind, and a file with the reason in its place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from tests.trainers.loops.install.targets import Source, Target
from tests.trainers.loops.install.uv import NotInstallableError, cpu_torch, interpreter, run, uv
from tests.trainers.loops.trainers import ROOT, reason_file

_MARK = ".installed"
"""In each folder of ours; its content says what was installed."""
SOURCES = "TRAINER_SOURCES"


def make(target: Target, place: Path) -> str:
    """Make the environment of a target below `place`; returns what was done, in a few words.

    Raises:
        NotInstallableError: it cannot be installed here.
    """
    folder, wanted = place / target.name, _digest(target)
    mark = folder / _MARK
    why = reason_file(place, target.name)
    why.unlink(missing_ok=True)
    if folder.exists() and not mark.exists():
        return "used as it is: made by something else"
    if mark.exists() and mark.read_text() == wanted:
        return "there already"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark.write_text("unfinished")
    log = place / f"{target.name}.log"
    log.write_text("")
    try:
        if target.has_environment:
            _install(target, folder, log)
        elif target.source is not None:
            _check_out(target.source, target.name, folder, log)
    except NotInstallableError as error:
        shutil.rmtree(folder, ignore_errors=True)
        why.write_text(f"{error}\n")
        raise
    mark.write_text(wanted)
    return "installed"


def _install(target: Target, folder: Path, log: Path) -> None:
    python = str(folder / "bin" / "python")
    chosen = interpreter(target.pythons)
    run(
        uv(),
        "venv",
        "--allow-existing",
        "--no-python-downloads",
        "--python",
        chosen,
        str(folder),
        log=log,
    )
    install = (uv(), "pip", "install", "--python", python)
    projects = []
    if target.source is not None:
        checkout = folder / "src" / target.name
        checkout.mkdir(parents=True)
        _check_out(target.source, target.name, checkout, log)
        projects = [str(checkout / project) for project in target.source.projects]
    overrides = folder / "overrides.txt"
    overrides.write_text("".join(f"{line}\n" for line in target.overrides))
    needs_torch = any(package.startswith("torch==") for package in target.packages)
    run(
        *(*install, *(("--python-version", target.python) if target.python else ())),
        *(*(cpu_torch() if needs_torch else ()), "--override", str(overrides), *target.packages),
        *(
            word
            for project in (_judgegym(target.extra), *projects)
            for word in ("--editable", project)
        ),
        log=log,
    )
    if target.bare:
        run(*install, "--no-deps", *target.bare, log=log)
    run(python, "-c", f"import {target.imported}, judgegym", log=log)


def _judgegym(extra: str) -> str:
    return f"{ROOT}[{extra}]" if extra else str(ROOT)


def _check_out(source: Source, name: str, folder: Path, log: Path) -> None:
    """Get the tested commit, from the repository in TRAINER_SOURCES if there is one.

    Raises:
        NotInstallableError: git cannot get it.
    """
    given = os.environ.get(SOURCES)
    url = (
        str(Path(given).absolute() / name)
        if given and (Path(given) / name).exists()
        else source.url
    )
    git = ("git", "-C", str(folder))
    try:
        run("git", "init", "--quiet", str(folder), log=log)
        run(*git, "fetch", "--quiet", "--depth", "1", url, source.commit, log=log)
        run(*git, "checkout", "--quiet", "FETCH_HEAD", log=log)
    except NotInstallableError as error:
        raise NotInstallableError(
            f"{url} cannot be cloned ({SOURCES} names a folder of clones): {error}"
        ) from None


def _digest(target: Target) -> str:
    """Of all that decides what is installed: the target, our requirements, entry points and top-level modules."""
    project = (ROOT / "pyproject.toml").read_text().partition("\n[tool.setuptools.package-data]")[0]
    packages = (ROOT / "setup.py").read_text()
    return hashlib.sha256(repr((target, project, packages, str(ROOT))).encode()).hexdigest()
