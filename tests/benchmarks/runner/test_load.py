"""Which load is another's, and when a row says so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.runner import load
from benchmarks.runner.load import Load, LoadMeter


class Machine:
    """A machine whose clock, load average and CPU counters the test sets."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.now, self.average, self.stat = 1000.0, 0.0, path / "stat"
        patch.setattr(time, "monotonic", lambda: self.now)
        patch.setattr(os, "getloadavg", lambda: (self.average, 0.0, 0.0))
        patch.setattr(os, "cpu_count", lambda: 2)
        patch.setattr(os, "sysconf", lambda name: 100)
        patch.setattr(load, "_STAT", self.stat)
        self.busy(0, 0)

    def busy(self, seconds: float, stolen: float) -> None:
        self.stat.write_text(f"cpu  {seconds * 100:.0f} 0 0 9999 0 0 0 {stolen * 100:.0f} 0 0\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_load_that_earlier_scripts_left_is_not_anothers(machine: Machine) -> None:
    meter = LoadMeter()
    with meter.watching() as watched:
        machine.now += 300
        watched.own_cpu_s = 300.0
        machine.busy(300, 0)
    assert watched.load.others == 0.0
    machine.average = 1.0
    with meter.watching() as watched:
        machine.now += 1
    assert watched.load.average == 1.0
    assert watched.load.before == pytest.approx(0.0, abs=0.01)
    assert not watched.load.is_disturbing


def test_the_load_that_was_there_before_the_run_is_anothers(machine: Machine) -> None:
    machine.average = 1.0
    with LoadMeter().watching() as watched:
        machine.now += 1
    assert watched.load.is_disturbing and "UNDER LOAD" in str(watched.load)


@pytest.mark.parametrize(("busy", "stolen", "words"), [(14, 0, "others 20%"), (10, 1, "stolen 5%")])
def test_other_processes_and_the_hypervisor_disturb(
    busy: float, stolen: float, words: str, machine: Machine
) -> None:
    with LoadMeter().watching() as watched:
        machine.now += 10
        machine.busy(busy, stolen)
        watched.own_cpu_s = 10.0
    assert watched.load.is_disturbing and words in str(watched.load)


def test_a_machine_that_counts_no_ticks_has_a_load_average(machine: Machine) -> None:
    machine.stat.unlink()
    with LoadMeter().watching() as watched:
        machine.now += 10
    assert (watched.load.others, watched.load.stolen) == (None, None)
    assert str(watched.load) == "0.0" and not watched.load.is_disturbing


def test_an_idle_machine_is_not_marked() -> None:
    assert str(Load(0.21, 0.2, 0.03, 0.0)) == "0.2, others 3%"
