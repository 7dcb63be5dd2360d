"""`python -m benchmarks` on scripts of its own: what becomes of each in RESULTS.md."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

REPORTS = """
import argparse, sys, time
from benchmarks.measured import Measured, report, results_option
parser = argparse.ArgumentParser()
results_option(parser)
results = parser.parse_args().results
report([Measured("rows", "{work}", "s", {ours}, "peer | bound", 2.0, at_most=1.5)], results)
"""


class Checkout:
    """The runner, with scripts of the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copytree(ROOT / "benchmarks/runner", path / "benchmarks/runner")
        for name in ("__main__.py", "measured.py"):
            shutil.copy(ROOT / "benchmarks" / name, path / "benchmarks" / name)

    def script(self, name: str, *, ours: float = 1.0, work: str = "all", then: str = "") -> None:
        text = REPORTS.format(ours=ours, work=work)
        (self.path / f"benchmarks/{name}.py").write_text(f"{text}{then}\n")

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # No bytecode: a script that is written anew within a second would be taken for the one
        # before.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "benchmarks", *words]
        return subprocess.Popen(command, cwd=self.path, text=True, env=environment, **pipes)  # type: ignore[call-overload]

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def rows(self) -> dict[str, list[list[str]]]:
        """The rows of the table by script, as cells."""
        found: dict[str, list[list[str]]] = {}
        lines = [line for line in self.results.read_text().splitlines() if line.startswith("|")]
        for line in lines[2:]:
            cells = [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")]
            assert len(cells) == len(lines[0].strip("|").split("|"))
            found.setdefault(cells[-1], []).append(cells)
        return found

    @property
    def results(self) -> Path:
        return self.path / "benchmarks/RESULTS.md"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_each_script_that_takes_results_is_a_row_with_its_figures(checkout: Checkout) -> None:
    checkout.script("quick", ours=1.0)
    checkout.script("slow", ours=4.0)
    (checkout.path / "benchmarks/other.py").write_text("raise SystemExit('it is not run')\n")
    code, out, _ = checkout.run()
    rows = checkout.rows()
    assert code == 0 and "NOT MET" in out
    assert list(rows) == ["quick", "slow"]
    assert rows["quick"][0][:8] == [
        "rows",
        "all",
        "s",
        "1",
        "peer ¦ bound: 2",
        "0.5",
        "≤ 1.5",
        "yes",
    ]
    assert rows["slow"][0][5:8] == ["2", "≤ 1.5", "**no**"]


def test_only_replaces_the_rows_of_the_scripts_that_it_names(checkout: Checkout) -> None:
    checkout.script("one", ours=1.0)
    checkout.script("two", ours=1.0)
    checkout.script("gone", ours=1.0)
    checkout.run()
    before = checkout.rows()
    for name in ("one", "two"):
        checkout.script(name, ours=2.0)
    (checkout.path / "benchmarks/gone.py").unlink()
    assert checkout.run("--only", "two")[0] == 0
    rows = checkout.rows()
    assert list(rows) == ["one", "two"]
    assert rows["one"] == before["one"] and rows["two"][0][3] == "2"


def test_a_script_that_fails_is_a_row_that_says_so_and_loses_nothing(checkout: Checkout) -> None:
    checkout.script(
        "fails", then="sys.stderr.write('a line\\n'); raise ValueError('no such judge')"
    )
    checkout.script("works")
    code, _, err = checkout.run()
    rows = checkout.rows()
    assert code == 1 and "Traceback" in err
    assert rows["fails"][0][3] == "1", "what it had reported"
    assert "exit code 1: ValueError: no such judge" in rows["fails"][1][1]
    assert rows["works"][0][3] == "1"


def test_a_script_that_is_too_late_is_ended_with_what_it_has_started(checkout: Checkout) -> None:
    note = checkout.path / "child"
    then = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
    checkout.script(
        "late", then=f"{then}open({str(note)!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    )
    checkout.script("works")
    assert checkout.run("--limit", "10")[0] == 1
    assert "stopped after 10 s" in checkout.rows()["late"][1][1] and "works" in checkout.rows()
    until = time.monotonic() + 20
    while _is_running(int(note.read_text())):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_script_without_time_left_or_that_reports_nothing_is_a_row_that_says_so(
    checkout: Checkout,
) -> None:
    checkout.script("one")
    assert checkout.run("--total", "0")[0] == 1
    assert "no time was left" in checkout.rows()["one"][0][1]
    path = checkout.path / "benchmarks/one.py"
    path.write_text(path.read_text().replace("report([", "list([").replace(", results)", ")"))
    assert checkout.run()[0] == 1
    assert "reported no ratio" in checkout.rows()["one"][0][1]


def test_ctrl_c_keeps_what_is_measured(checkout: Checkout) -> None:
    begun = checkout.path / "begun"
    checkout.script("first")
    checkout.script("second", then=f"open({str(begun)!r}, 'w').close()\ntime.sleep(600)")
    process = checkout.start()
    until = time.monotonic() + 60
    while not begun.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert list(checkout.rows()) == ["first"]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] != "Z"
        if Path("/proc").exists()
        else True
    )
