"""Two runs of one configuration are the same, whatever runs at once and whatever goes wrong on the way."""

from __future__ import annotations

from tests.conformance.lab import Lab, Undisturbed
from tests.conformance.subjects import uids

TIMINGS = ("latency", "seconds", "_requests")


def test_undisturbed_run_has_each_row_once_and_in_order(undisturbed: Undisturbed) -> None:
    """And rows differ, so that what the other tests compare is not the same everywhere."""
    files = undisturbed.files
    rows = [sample["uid"].partition(":")[0] for sample in files.samples]
    assert list(dict.fromkeys(rows)) == uids()
    assert files.failures == []
    assert len({sample["score"] for sample in files.samples}) > 1


def test_samples_and_metrics_are_the_same_whatever_the_limits(lab: Lab, undisturbed: Undisturbed) -> None:
    narrow = lab.finished(*lab.subject.limits(1))
    assert narrow.without_run() == undisturbed.files.without_run()
    assert _without_timings(narrow.metrics) == _without_timings(undisturbed.files.metrics)


def _without_timings(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not any(word in name for word in TIMINGS)}
