"""The detector of a growing gap between two judges: its formula, its reference, and how often it is right."""

from __future__ import annotations

import math
import statistics

import pytest

from benchmarks.gap_detector import BOUNDARY, FAMILIES, Family, delays
from judgegym.statistics.gap_detector import ALARM_AT, GapDetector


def test_evidence_is_the_bet_of_its_formula() -> None:
    reference = [(0.6, 0.5), (0.5, 0.5), (0.7, 0.5), (0.4, 0.5)]
    checks = [[(0.8, 0.5), (0.8, 0.55)] * 16, [(0.8, 0.5), (0.9, 0.55)] * 16]
    detector = GapDetector(checks=2, reference_rollouts=4, tolerance=0.05)
    first = detector.add(0, *map(list, zip(*reference, strict=True)))
    assert (first.limit, first.evidence, first.is_alarm) == (None, 1.0, False)
    gaps = [ours - theirs for ours, theirs in reference]
    mean, variance = statistics.fmean(gaps), statistics.variance(gaps)
    limit = mean + 2.576 * math.sqrt(variance / 4) + 0.05
    wealth = dict.fromkeys((0.5, 1.0, 1.5, 2.5), 0.0)
    for number, pairs in enumerate(checks):
        found = detector.add(number + 1, *map(list, zip(*pairs, strict=True)))
        own = [ours - theirs for ours, theirs in pairs]
        error = math.sqrt((20 * variance + 32 * statistics.variance(own)) / 52 / 32)
        z = (statistics.fmean(own) - limit) / error
        wealth = {
            bet: (held + 1 / 2) * math.exp(bet * z - bet * bet / 2) for bet, held in wealth.items()
        }
        assert found.gap == pytest.approx(statistics.fmean(own))
        assert (found.limit, found.error) == pytest.approx((limit, error))
        assert found.evidence == pytest.approx(statistics.fmean(wealth.values()))
        assert found.is_alarm == (found.evidence >= ALARM_AT)


def test_checks_of_few_rollouts_are_decided_together_also_after_a_restart() -> None:
    gold = [0.5, 0.25, 0.75, 0.5] * 2
    apart = [score + 0.5 for score in gold]
    whole, parts = (GapDetector(checks=100, reference_rollouts=64) for _ in range(2))
    found = [
        (whole.add(step, gold * 4, gold * 4), [parts.add(step, gold, gold) for _ in range(4)])
        for step in (0, 1)
    ]
    for step in range(2, 20):
        found.append(
            (whole.add(step, apart * 4, gold * 4), [parts.add(step, apart, gold) for _ in range(4)])
        )
        again = GapDetector(checks=100, reference_rollouts=64)
        for check in [check for _, of_step in found for check in of_step][:-2]:
            again.restore(check)
        assert [again.add(step, apart, gold) for _ in range(2)] == found[-1][1][-2:]
    assert [one for one, _ in found[2:]] == [of_step[-1] for _, of_step in found[2:]]
    assert not any(check.is_alarm for _, of_step in found for check in of_step[:-1])
    assert any(of_step[-1].is_alarm for _, of_step in found)


def test_judges_that_differ_by_a_constant_are_no_alarm_and_a_jump_is_one() -> None:
    detector = GapDetector(checks=50, reference_rollouts=64)
    gold = [0.25, 0.5, 0.75, 0.5] * 8
    lenient = [score + 0.2 for score in gold]
    assert not any(detector.add(step, lenient, gold).is_alarm for step in range(40))
    assert any(
        detector.add(step, [score + 0.3 for score in lenient], gold).is_alarm
        for step in range(40, 50)
    )


def test_equal_judges_have_no_variance_and_one_odd_rollout_is_no_proof() -> None:
    detector = GapDetector(checks=100, reference_rollouts=64)
    same = [0.5] * 32
    for step in range(20):
        assert detector.add(step, same, same).evidence < 2.0
    assert not detector.add(20, [1.0, *same[1:]], same).is_alarm


def test_checks_beyond_the_plan_stay_valid() -> None:
    planned, beyond = (
        GapDetector(checks=1000, reference_rollouts=32),
        GapDetector(checks=10, reference_rollouts=32),
    )
    same, worse = [0.5, 0.6] * 16, [0.7, 0.8] * 16
    for step in range(500):
        assert beyond.add(step, same, same).evidence <= 2.0
        planned.add(step, same, same)
    assert any(beyond.add(step, worse, same).is_alarm for step in range(500, 530))


@pytest.mark.parametrize(("training", "gold"), [([], []), ([0.5], []), ([], [0.5])])
def test_a_check_needs_rollouts_with_both_scores(training: list[float], gold: list[float]) -> None:
    with pytest.raises(ValueError):
        GapDetector(checks=5).add(0, training, gold)


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, BOUNDARY], ids=lambda family: family.name)
def test_hacks_are_found_and_clean_runs_are_not_accused(family: Family) -> None:
    found = list(delays(family, 80, seed=11))
    if family.most is not None:
        assert sum(delay is not None for delay in found) <= max(1, family.most * len(found))
    else:
        limit = family.within or 120
        assert sum(delay is not None and 0 <= delay <= limit for delay in found) >= 0.95 * len(
            found
        )
