"""Two runs of an environment can be compared from their files, on the rows that both have."""

from __future__ import annotations

import pytest

from judgegym.reports.compare.comparison import compare_runs
from judgegym.reports.results.run import SavedRun
from tests.conformance.lab import Lab, Undisturbed, slow_with_several_models
from tests.core.reports.objects import objects
from tests.scripted import Reply


@slow_with_several_models
def test_runs_with_the_same_judge_protocol_and_data_are_compared(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    """The second run lacks what was refused, which is left out unless it counts as wrong."""
    lab.policy.disturb({"row-1": Reply(status=400, body={"error": {"message": "no"}})}.get)
    lab.evaluate("--env.max_judge_error_rate=1")
    first, second = (SavedRun.open(path) for path in (undisturbed.files.path, lab.files().path))
    found = objects(compare_runs([first, second], rounds=100))
    assert (found.differing, found.environment) == ([], lab.subject.env_type.spec.name)
    shares = [
        {each.uid: each.headline for each in run.samples() if each.headline is not None}
        for run in (first, second)
    ]
    both = shares[0].keys() & shares[1].keys()
    assert found.rows == len(both) > 1
    for run, own in zip(found.runs, shares, strict=True):
        total, weight = (
            sum(getattr(own[uid], name) for uid in both) for name in ("total", "weight")
        )
        assert run.headline == pytest.approx(total / weight)
    assert found.runs[1].failed == found.runs[0].not_shared
