"""The metrics of a run whose endpoints answer are there, or left out with a reason, also where they do not.

`tests/docs/test_metrics.py` compares the metrics of runs with those on the pages.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.command import RunFiles
from tests.conformance.lab import Lab, Undisturbed
from tests.scripted import Reply

Fault = Callable[[Lab], None]


def unreadable(lab: Lab) -> None:
    """The policy says the same short sentence to everything, in which no verdict can be read."""
    lab.policy.disturb(lambda uid: Reply(text="I would rather not say anything about this at all."))


def refusing(lab: Lab) -> None:
    """Both endpoints refuse what they are asked about most rows."""
    for side in (lab.policy, lab.judge):
        side.disturb(
            lambda uid: (
                None if uid in ("row-0", "row-4") else Reply(status=400, body={"error": "no"})
            )
        )


def names(files: RunFiles) -> set[str]:
    """The metrics of a run, those included that it says it has left out."""
    found, left_out = files.report["results"]["all"], files.report["config_general"]["left_out"]
    assert not found.keys() & left_out.keys(), "a metric is there or left out"
    assert all(left_out.values()), "each with its reason"
    return {*found, *left_out}


@pytest.mark.parametrize("fault", [unreadable, refusing], ids=lambda fault: fault.__name__)
def test_metrics_are_there_or_left_out_with_a_reason(
    lab: Lab, undisturbed: Undisturbed, fault: Fault
) -> None:
    fault(lab)
    lab.evaluate()
    assert names(undisturbed.files) - names(lab.files()) == set()
