"""The threshold of a cascade: a fixed sequence of exact bounds, and whether promises hold."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.juries import CASCADES, LLMBAR, CascadeCase, RecordedVerdicts, judge_cascade
from judgegym_trials.replay.threshold import CascadeThreshold, choose_threshold

needs_llmbar = pytest.mark.skipif(
    not LLMBAR.is_dir(), reason="the real data is not there: ../shared/data/llmbar"
)


def test_of_equal_confidences_a_share_is_kept_by_the_order_of_rows() -> None:
    harms = [place % 10 == 0 for place in range(1000)]
    orders = np.random.default_rng(0).random(1000).tolist()
    found = choose_threshold([1.0] * 1000, harms, orders, harm=0.05)
    assert isinstance(found, CascadeThreshold)
    assert found.confidence == 1.0 and 0.2 < found.share_at < 0.5
    assert found.kept == found.share_at


def test_the_sequence_ends_at_the_first_threshold_that_fails() -> None:
    # Harm among the surest rows: later thresholds would pass by their rate among the kept, not by
    # the promise.
    harms = [True] * 40 + [False] * 960
    found = choose_threshold([1.0] * 40 + [0.5] * 960, harms, [0.5] * 1000, harm=0.02)
    assert isinstance(found, str)
    assert all(fact in found for fact in ("surest 5 %", "promise of 2.0 %", "escalate all"))


@needs_llmbar
@pytest.mark.slow
@pytest.mark.parametrize(
    "case", CASCADES, ids=lambda case: f"{case.name}-{case.harm}-{case.has_labels}"
)
def test_promises_hold_on_recorded_judges(case: CascadeCase) -> None:
    assert judge_cascade(RecordedVerdicts.read(), case, 100).is_met(
        0.16
    )  # 10 %, and two deviations of 100 resamples
