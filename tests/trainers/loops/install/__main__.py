"""Installs each target into an environment of its own, two at a time, runs the tests, and prints a table.

    python -m tests.trainers.loops.install [--only NAME,NAME] [--install_only] [OPTIONS OF PYTEST]

The environments lie in TRAINER_ENVIRONMENTS (by default `.trainers`); TRAINER_SOURCES may name a
folder with clones of the repositories that some targets come from. What cannot be installed here is
said, and its tests are skipped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.trainers.loops.install.environments import make
from tests.trainers.loops.install.table import counted, lines
from tests.trainers.loops.install.targets import TARGETS, Target
from tests.trainers.loops.install.uv import NotInstallableError, uv
from tests.trainers.loops.trainers import HERE, ROOT

_AT_ONCE = 2
_NO_TESTS = 5
"""The exit code of pytest when the options select none."""


def main() -> int:
    """Install, test, report; the exit code is that of pytest."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.trainers.loops.install", allow_abbrev=False
    )
    parser.add_argument("--only", default="", help="names of targets, with commas")
    parser.add_argument("--install_only", action="store_true", help="run no tests")
    given, of_pytest = parser.parse_known_args()
    place = Path(os.environ.get("TRAINER_ENVIRONMENTS", ROOT / ".trainers")).absolute()
    place.mkdir(parents=True, exist_ok=True)
    names = [name for name in given.only.split(",") if name]
    targets = [target for target in TARGETS if not names or target.name in names]
    unknown = set(names) - {target.name for target in targets}
    if unknown:
        parser.error(
            f"--only: no target {', '.join(unknown)}; expected "
            f"{', '.join(each.name for each in TARGETS)}"
        )
    try:
        uv()
    except NotInstallableError as error:
        print(error, file=sys.stderr)
        return 2
    why = _install(targets, place)
    if given.install_only:
        return 0
    print(f"testing with the packages in {place}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = _test(targets, place, report, of_pytest)
        print(
            "\n"
            + "\n".join(lines(targets, place, counted(report) if report.is_file() else {}, why))
        )
    return 0 if code == _NO_TESTS else code


def _install(targets: Sequence[Target], place: Path) -> dict[str, str]:
    """Install all; returns the reasons of those that cannot be, by name."""
    print(f"installing into {place}, {_AT_ONCE} at a time", flush=True)
    why = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        began = {pool.submit(_timed, target, place): target for target in targets}
        for future in as_completed(began):
            name = began[future].name
            try:
                done, seconds = future.result()
                print(
                    f"  {name}: {done}{f' in {seconds:.0f} s' if done == 'installed' else ''}",
                    flush=True,
                )
            except NotInstallableError as error:
                why[name] = str(error)
                print(f"  {name}: skipped, {error}", flush=True)
    return dict(sorted(why.items()))


def _timed(target: Target, place: Path) -> tuple[str, float]:
    begun = time.monotonic()
    done = make(target, place)
    return done, time.monotonic() - begun


def _test(targets: Sequence[Target], place: Path, report: Path, of_pytest: Sequence[str]) -> int:
    folders = {
        str(HERE / target.folder): None for target in targets if (HERE / target.folder).is_dir()
    }
    at_once = (
        "-n",
        str(_AT_ONCE),
        "--dist",
        "loadfile",
    )  # tests of one file share what Ray and the trainers start
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rs",
        *at_once,
        f"--junitxml={report}",
        *folders,
        *of_pytest,
    ]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TRAINER_ENVIRONMENTS": str(place)}
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
