"""A finished row is on disk: its sample is read back when it is needed, and let go."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from judgegym.engine.records import Sample, SampleReader
from tests.conformance.lab import Lab, Undisturbed, slow_with_several_models
from tests.conformance.subjects import ROWS

AT_ONCE = 3
"""The sample that is being used, the one before it, and the last one of the loop before: variables still hold them."""


@slow_with_several_models
def test_metrics_and_reports_hold_few_samples_at_a_time(
    lab: Lab, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, most, times = 0, 0, 0
    read = SampleReader.read

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def counted(self: SampleReader[Any], line: bytes) -> Sample[Any]:
        nonlocal alive, most, times
        sample = read(self, line)
        alive, times = alive + 1, times + 1
        most = max(most, alive)
        weakref.finalize(sample, gone)
        return sample

    monkeypatch.setattr(SampleReader, "read", counted)
    lab.finished()
    assert (times >= ROWS, most <= AT_ONCE, alive) == (True, True, 0), (times, most, alive)
    undisturbed.same_results(lab.finished("--resume"))
    assert (times >= 3 * ROWS, most <= AT_ONCE, alive) == (True, True, 0), (times, most, alive)
