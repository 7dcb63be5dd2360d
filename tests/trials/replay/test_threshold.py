"""The threshold of a cascade: a fixed sequence of exact bounds, and whether promises hold."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.juries import CASCADES, LLMBAR, CascadeCase, RecordedVerdicts, judge_cascade
from judgegym.statistics.cascades import upper_bound
from judgegym_trials.replay.threshold import CascadeThreshold, choose_threshold, rows_for

needs_llmbar = pytest.mark.skipif(not LLMBAR.is_dir(), reason="the real data is not there: ../shared/data/llmbar")


def test_few_rows_promise_nothing_and_say_how_many_would() -> None:
    needed = rows_for(0.02, level=0.95)
    assert upper_bound(0, needed, level=0.95) <= 0.02 < upper_bound(0, needed - 5, level=0.95)
    found = choose_threshold([1.0] * 100, [False] * 100, [0.5] * 100, harm=0.02)
    assert found == f"not enough rows: 100, and to promise 2.0 % with 95 % certainty takes {needed}"


def test_rows_that_are_sure_and_right_are_kept_and_unsure_ones_escalated() -> None:
    confidences = [1.0] * 300 + [0.0] * 100
    harms = [False] * 300 + [True] * 100
    found = choose_threshold(confidences, harms, np.linspace(0, 1, 400).tolist(), harm=0.03)
    assert isinstance(found, CascadeThreshold)
    assert (found.confidence, found.share_at, found.kept, found.harmed) == (1.0, 1.0, 0.75, 0)
    assert found.harmed_at_most == pytest.approx(upper_bound(0, 400, level=0.95))


def test_of_equal_confidences_a_share_is_kept_by_the_order_of_rows() -> None:
    harms = [place % 10 == 0 for place in range(1000)]
    orders = np.random.default_rng(0).random(1000).tolist()
    found = choose_threshold([1.0] * 1000, harms, orders, harm=0.05)
    assert isinstance(found, CascadeThreshold)
    assert found.confidence == 1.0 and 0.2 < found.share_at < 0.5
    assert found.kept == found.share_at


def test_the_sequence_ends_at_the_first_threshold_that_fails() -> None:
    # Harm among the surest rows: later thresholds would pass by their rate among the kept, not by the promise.
    harms = [True] * 40 + [False] * 960
    found = choose_threshold([1.0] * 40 + [0.5] * 960, harms, [0.5] * 1000, harm=0.02)
    assert found == "not even the surest 5 % of the rows keeps the promise of 2.0 %: escalate all"


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError):
        choose_threshold([1.0], [False, True], [0.5], harm=0.5)


@needs_llmbar
@pytest.mark.slow
@pytest.mark.parametrize("case", CASCADES, ids=lambda case: f"{case.name}-{case.harm}-{case.has_labels}")
def test_promises_hold_on_recorded_judges(case: CascadeCase) -> None:
    assert judge_cascade(RecordedVerdicts.read(), case, 100).is_met(0.16)  # 10 %, and two deviations of 100 resamples
