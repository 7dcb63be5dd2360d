"""What ran, of which version, and how long it took."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.trainers.loops.install.targets import TARGETS, Target


@dataclass
class Counted:
    """The tests of a target."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


def counted(report: Path) -> dict[str, Counted]:
    """The tests by target, of a report that pytest has written (`--junitxml`): their folder, or an id that is one."""
    targets = {target.name for target in TARGETS}
    found: dict[str, Counted] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = re.search(
            r"(?:^|\.)loops\.(\w+)\.test_", f"{case.get('classname', '')}.{case.get('name', '')}"
        )
        ids = targets.intersection(re.findall(r"\w+", case.get("name", "").partition("[")[2]))
        count = found.setdefault(next(iter(ids), name[1] if name else ""), Counted())
        count.seconds += float(case.get("time", 0))
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None:
            count.skipped += 1
        else:
            count.passed += 1
    return found


def version_of(target: Target, place: Path) -> str:
    """The version that is installed, as the package itself says; for a checkout, its commit."""
    folder = place / target.name
    if not target.has_environment:
        return _said("git", "-C", str(folder), "log", "-1", "--format=%cs %h")
    code = f"from importlib.metadata import version; print(version({target.distribution!r}))"
    return _said(str(folder / "bin" / "python"), "-I", "-c", code)


def _said(*command: str) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "–"
    return ended.stdout.strip() or "–"


def lines(
    targets: Sequence[Target], place: Path, tests: Mapping[str, Counted], why: Mapping[str, str]
) -> list[str]:
    """The table: a line for each target, and below it the reasons of those that were skipped."""
    heads = ("target", "version", "passed", "failed", "skipped", "seconds")
    rows = []
    for target in targets:
        count = tests.get(target.name, Counted())
        version = "–" if target.name in why else version_of(target, place)
        numbers = (str(count.passed), str(count.failed), str(count.skipped), f"{count.seconds:.0f}")
        rows.append((target.name, version, *numbers))
    total = [tests.get(target.name, Counted()) for target in targets]
    sums = (
        sum(c.passed for c in total),
        sum(c.failed for c in total),
        sum(c.skipped for c in total),
    )
    rows.append(("all", "", *map(str, sums), f"{sum(c.seconds for c in total):.0f}"))
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    table = [
        "  ".join(
            _cell(text, width, place)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (heads, *rows)
    ]
    return [*table, *(f"not here: {name}: {reason}" for name, reason in why.items())]


def _cell(text: str, width: int, place: int) -> str:
    return text.ljust(width) if place < 2 else text.rjust(width)
