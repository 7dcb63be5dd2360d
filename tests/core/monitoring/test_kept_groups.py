"""Which groups are kept for the page, and that they are bounded."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import pytest

from judgegym.monitoring.alarms import Alarm, RolloutLocation
from judgegym.monitoring.kept_groups import (
    ALARM,
    GAP,
    LATEST,
    MAX_GROUPS,
    OVER_THE_RUN,
    WORST,
    PageGroups,
    cut_middle,
)
from tests.core.monitoring.watched import group, rollout
from tests.core.reports.training.made import kept_as


def kept_of(count: int) -> PageGroups:
    kept = PageGroups()
    for number in range(1, count + 1):
        score = 0.0 if number == 2_900 else 0.5 + number % 7 / 20
        kept.add(group(number, rollout(f"text {number}", score), rollout("other", 1.0)))
    return kept


def of(kept: PageGroups, name: str) -> list[int]:
    return [number for number, names in kept_as(list(kept.lines())).items() if name in names]


def test_the_latest_the_worst_and_some_over_the_run_are_kept() -> None:
    kept = kept_of(3_000)
    assert of(kept, LATEST) == list(range(2_989, 3_001))
    assert 2_900 in of(kept, WORST) and len(of(kept, WORST)) == MAX_GROUPS[WORST]
    assert all(number > 2_000 for number in of(kept, WORST)), "of the last thousand"
    spread = of(kept, OVER_THE_RUN)
    assert (
        spread[0] == 1 and MAX_GROUPS[OVER_THE_RUN] / 2 <= len(spread) <= MAX_GROUPS[OVER_THE_RUN]
    )
    assert len({later - earlier for earlier, later in pairwise(spread)}) == 1, "at even distances"
    assert (kept.groups, kept.rollouts) == (3_000, 6_000)


def test_the_widest_gap_of_the_whole_run_is_kept_also_when_gold_comes_late() -> None:
    kept = kept_of(3_000)
    for number in range(1, 2_000):
        old = group(number, rollout(f"text {number}", 0.9), rollout("other", 1.0))
        kept.add_gold(old, {0: 0.0 if number == 77 else 0.85})
    assert 77 in of(kept, GAP) and len(of(kept, GAP)) == MAX_GROUPS[GAP]
    (found,) = [
        json.loads(line)["group"]
        for line in kept.lines()
        if json.loads(line)["group"]["number"] == 77
    ]
    assert found["gold"] == [0.0, None] and found["rollouts"][0]["gold"] == 0.0


def test_groups_of_an_alarm_stay_and_outlive_a_resumed_run_in_bounds() -> None:
    kept = kept_of(1_500)
    for number in (1_400, 3):
        kept.pin(Alarm("gap", 9, 5, "seen", "advice", (RolloutLocation(number, "row", 0),)))
    assert of(kept, ALARM) == [1_400], "what is no longer in memory cannot be kept"
    resumed = PageGroups()
    resumed.restore([{"status": {}}, *map(json.loads, kept.lines())])
    assert (
        resumed.last_number == 1_500 and of(resumed, ALARM) == [1_400] and not of(resumed, LATEST)
    )
    other = PageGroups()
    other.restore(map(json.loads, kept.lines("mount")))
    assert other.last_number == 0, "those of another judge of a server are its own"


def test_of_a_large_group_the_texts_of_the_best_and_the_worst_are_kept() -> None:
    kept = PageGroups()
    kept.add(group(1, *(rollout(f"text {place}", place / 63) for place in range(64))))
    (found,) = [json.loads(line)["group"] for line in kept.lines()]
    assert [each["number"] for each in found["rollouts"]] == [*range(8), *range(56, 64)]
    assert found["size"] == 64 and len(found["rewards"]) == 64


@pytest.mark.parametrize(
    ("fields", "causes"),
    [
        ({}, {}),
        ({"status": "judge_failed", "reward": None}, {"judge_failed": 1, "masked": 1}),
        ({"format_fault": "not closed"}, {"format: not closed": 1}),
        ({"finish_reason": "length"}, {"longest completion": 1}),
    ],
)
def test_failures_are_counted_by_cause(fields: dict[str, Any], causes: dict[str, int]) -> None:
    kept = PageGroups()
    score = None if fields.get("status") else 1.0
    kept.add(
        group(1, rollout("text", score, explanation="no answer", **{"reward": score, **fields}))
    )
    assert [*kept.failures.values()] == [*causes.values()]
    assert all(words in cause for words, cause in zip(causes, kept.failures, strict=True))
    assert kept.reasons == ({"judge_failed": "no answer"} if "status" in fields else {})


def test_a_long_completion_is_kept_with_a_cut() -> None:
    kept = PageGroups()
    kept.add(group(1, rollout("x" * 20_000, 1.0)))
    (line,) = kept.lines()
    assert len(line) < 10_000 and b" characters " in line


def test_a_text_is_cut_in_its_middle() -> None:
    text = "a" * 900 + "the end"
    assert cut_middle(text, 907) == text
    short = cut_middle(text, 100)
    assert short.startswith("a" * 75) and short.endswith("the end") and " 807 characters " in short
    assert math.isclose(len(short), 140, abs_tol=10)
