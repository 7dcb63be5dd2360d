"""Agreement statistics against their definitions, worked out here in plain loops, and against published numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgegym.judges.core.judgment import Scale
from judgegym.statistics.agreement import (
    SCORE_STATISTICS,
    VERDICT_STATISTICS,
    Agreement,
    agreement_rule,
    correlation,
    krippendorff_alpha,
    score_agreement,
    verdict_agreement,
)

FIVE = Scale(1, 5)
Scores = Sequence[float]


def mean(values: Scores) -> float:
    return math.fsum(values) / len(values)


def pearson(first: Scores, second: Scores) -> float:
    moved = [[value - mean(side) for value in side] for side in (first, second)]
    both = math.fsum(one * other for one, other in zip(*moved, strict=True))
    return both / math.sqrt(math.prod(math.fsum(value**2 for value in side) for side in moved))


def ranks(values: Scores) -> list[float]:
    """From 1; those of equal values are their mean."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def tau_b(first: Scores, second: Scores) -> float:
    signs = [
        ((one > other) - (one < other), (its > others) - (its < others))
        for (one, its), (other, others) in combinations(list(zip(first, second, strict=True)), 2)
    ]
    concordant = sum(one * other for one, other in signs)
    return concordant / math.sqrt(
        sum(one != 0 for one, _ in signs) * sum(other != 0 for _, other in signs)
    )


def quadratic_kappa(judge: Sequence[int], gold: Sequence[int]) -> float | None:
    """1 − observed over expected squared disagreement; `None` where nothing is expected."""
    observed = mean([(one - other) ** 2 for one, other in zip(judge, gold, strict=True)])
    expected = mean([(one - other) ** 2 for one in judge for other in gold])
    return 1 - observed / expected if expected else None


def alpha(ratings: Sequence[Sequence[float | None]]) -> float:
    """1 − disagreement within items over disagreement between any two ratings of items that have two."""
    items = [[value for value in item if value is not None] for item in zip(*ratings, strict=True)]
    items = [item for item in items if len(item) > 1]
    values = [value for item in items for value in item]

    def apart(one: float, other: float) -> float:
        return (one - other) ** 2

    within = math.fsum(
        apart(*pair) / (len(item) - 1) for item in items for pair in permutations(item, 2)
    )
    overall = math.fsum(apart(*pair) for pair in permutations(values, 2)) / (len(values) - 1)
    return 1 - within / overall


def check(found: Agreement, names: Sequence[str]) -> None:
    """Every statistic has a finite value or a reason, and not both."""
    assert sorted([*found.values, *found.undefined]) == sorted(names)
    assert all(type(value) is float and math.isfinite(value) for value in found.values.values())
    assert all(found.undefined.values())


def test_score_statistics_equal_values_computed_by_hand() -> None:
    found = score_agreement([1, 2, 3, 4, 5, 3], [1, 3, 3, 2, 5, 4], FIVE)
    assert found.undefined == {}
    assert found.values == pytest.approx(
        {
            "exact_rate": 3 / 6,
            "within_one_rate": 5 / 6,
            "mae": 4 / 6,
            "bias": 0.0,
            "pearson": 7 / 10,
            "spearman": 10.25 / 17,
            "kendall_tau_b": 7 / 14,
            "quadratic_kappa": 1 - 6 / 20,
        }
    )


LEVELS = st.integers(1, 5)
PAIRS = st.lists(st.tuples(LEVELS, LEVELS), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=60)
@given(PAIRS)
def test_score_statistics_equal_their_definitions(pairs: list[tuple[int, int]]) -> None:
    judge, gold = [one for one, _ in pairs], [other for _, other in pairs]
    found = score_agreement(judge, gold, FIVE)
    check(found, SCORE_STATISTICS)
    wanted = {
        "exact_rate": mean([one == other for one, other in pairs]),
        "within_one_rate": mean([abs(one - other) <= 1 for one, other in pairs]),
        "mae": mean([abs(one - other) for one, other in pairs]),
        "bias": mean([one - other for one, other in pairs]),
    }
    kappa = quadratic_kappa(judge, gold)
    if kappa is not None:
        wanted["quadratic_kappa"] = kappa
    if len(set(judge)) > 1 and len(set(gold)) > 1:
        wanted |= {"pearson": pearson(judge, gold), "spearman": pearson(ranks(judge), ranks(gold))}
        wanted["kendall_tau_b"] = tau_b(judge, gold)
    assert found.values == pytest.approx(wanted, abs=1e-12)


def test_scores_between_levels_are_rounded_for_kappa() -> None:
    """Rates and kappa compare the nearest levels, of two as near the higher; the others take the scores as they are."""
    judge, gold = [2.5, 3.49, 1.2, 4.75], [3, 4.5, 1, 5]
    found = score_agreement(judge, gold, FIVE).values
    near = quadratic_kappa([3, 3, 1, 5], [3, 5, 1, 5])
    assert (found["exact_rate"], found["within_one_rate"]) == (3 / 4, 3 / 4)
    assert found["mae"] == pytest.approx((0.5 + 1.01 + 0.2 + 0.25) / 4)
    assert found["bias"] == pytest.approx((-0.5 - 1.01 + 0.2 - 0.25) / 4)
    assert found["quadratic_kappa"] == pytest.approx(near)
    assert found["pearson"] == pytest.approx(pearson(judge, gold))
    assert (
        found["spearman"] == pytest.approx(pearson(ranks(judge), ranks(gold))) == pytest.approx(1.0)
    )


CORRELATIONS = ("pearson", "spearman", "kendall_tau_b")


@pytest.mark.parametrize("scale", [FIVE, Scale(-5, 5)])
def test_scores_agree_where_the_scale_has_one_level_that_is_nearest_to_both(scale: Scale) -> None:
    steps = [scale.low + step / 4 for step in range(4 * scale.span + 1)]
    agrees = agreement_rule(steps, has_levels=True)
    for judge, gold in permutations(steps, 2):
        assert agrees(judge, gold) is (scale.nearest(judge) == scale.nearest(gold))


@pytest.mark.parametrize(
    ("golds", "has_levels", "judge", "gold", "agrees"),
    [
        ([3, 4], False, 3.5, 4, True),
        ([3, 4], False, 3.5, 3, False),
        ([0, 0.75, 1], False, 0.75, 0.75, True),
        ([0, 0.75, 1], False, 0.8, 0.75, False),
        ([0, 0.75, 1], False, 0.8, 1, False),
        ([0, 0.75, 1], True, 0.8, 0.75, True),
        ([0, 0.75, 2], False, 0.8, 0.75, True),
        ([0, 1], False, 0.8, 1, True),
        ([0, 1], False, math.nan, 1, False),
        ([], False, 3.5, 4, True),
    ],
)
def test_shares_have_no_levels(
    golds: Scores, has_levels: bool, judge: float, gold: float, agrees: bool
) -> None:
    assert agreement_rule(golds, has_levels=has_levels)(judge, gold) is agrees


@pytest.mark.parametrize(("judge", "gold"), [([3, 3, 3], [1, 3, 5]), ([1, 3, 5], [3, 3, 3])])
def test_one_side_that_never_moves_has_no_correlation(judge: Scores, gold: Scores) -> None:
    found = score_agreement(judge, gold, FIVE)
    assert set(found.undefined) == set(CORRELATIONS)
    assert all("gives 3 to every item" in reason for reason in found.undefined.values())
    assert found.values == pytest.approx(
        {
            "exact_rate": 1 / 3,
            "within_one_rate": 1 / 3,
            "mae": 4 / 3,
            "bias": 0.0,
            "quadratic_kappa": 0.0,
        }
    )


def test_where_both_say_one_and_the_same_there_is_no_kappa_either() -> None:
    found = score_agreement([4, 4], [4, 4], FIVE)
    assert set(found.undefined) == {*CORRELATIONS, "quadratic_kappa"}
    assert found.values == {"exact_rate": 1.0, "within_one_rate": 1.0, "mae": 0.0, "bias": 0.0}


def test_one_pair_has_no_correlation() -> None:
    found = score_agreement([2], [2], FIVE)
    check(found, SCORE_STATISTICS)
    (reason,) = {found.undefined[name] for name in CORRELATIONS}
    assert "two items" in reason
    assert "quadratic_kappa" in found.undefined
    assert found.values["exact_rate"] == 1.0


def test_no_pairs_leave_all_statistics_undefined() -> None:
    for found, names, word in (
        (score_agreement([], [], FIVE), SCORE_STATISTICS, "both scores"),
        (verdict_agreement([], []), VERDICT_STATISTICS, "both verdicts"),
    ):
        assert found.values == {} and {*found.undefined} == {*names}
        assert all(word in reason for reason in found.undefined.values())


def test_verdict_statistics_equal_values_computed_by_hand() -> None:
    """Two of them yes and right, one yes and wrong, three no and wrong, four no and right."""
    judge = [True] * 3 + [False] * 7
    gold = [True, True, False, True, True, True, False, False, False, False]
    found = verdict_agreement(judge, gold)
    assert found.undefined == {}
    by_chance = (3 * 5 + 7 * 5) / 100
    assert found.values == pytest.approx(
        {
            "accuracy": 0.6,
            "precision": 2 / 3,
            "recall": 2 / 5,
            "f1": 1 / 2,
            "kappa": (0.6 - by_chance) / (1 - by_chance),
        }
    )


@pytest.mark.parametrize(
    ("judge", "gold", "undefined"),
    [
        ([True, True], [True, False], set()),
        ([False, False], [True, False], {"precision"}),
        ([True, False], [False, False], {"recall"}),
        ([False, False], [False, False], {"precision", "recall", "f1", "kappa"}),
        ([True, True], [True, True], {"kappa"}),
        ([True], [False], {"recall"}),
    ],
)
def test_constant_verdicts_leave_statistics_undefined(
    judge: list[bool], gold: list[bool], undefined: set[str]
) -> None:
    found = verdict_agreement(judge, gold)
    check(found, VERDICT_STATISTICS)
    assert set(found.undefined) == undefined


def test_statistics_of_any_input_raise_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    """What the libraries would warn of is settled before they are asked."""
    for judge, gold in ([[3, 3], [3, 3]], [[3, 3], [1, 2]], [[1], [2]], [[1], [1]]):
        score_agreement(judge, gold, FIVE)
    for verdicts in ([True, True], [False, False], [True, False]):
        for others in ([True, True], [False, False], [True, False]):
            verdict_agreement(verdicts, others)
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_a_correlation_needs_two_items_that_differ(kind: str) -> None:
    assert "two items" in str(correlation(kind, [], []))  # type: ignore[arg-type]
    assert "two items" in str(correlation(kind, [1], [2]))  # type: ignore[arg-type]
    assert "gives 2.5 to" in str(correlation(kind, [2.5, 2.5], [1, 2]))  # type: ignore[arg-type]
    assert correlation(kind, [1, 2], [5, 1]) == pytest.approx(-1.0)  # type: ignore[arg-type]


_ = None
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
"""Krippendorff, Computing Krippendorff's alpha-reliability (2011), section C."""


def test_alpha_equals_the_published_example() -> None:
    found = krippendorff_alpha(PUBLISHED)
    assert found == pytest.approx(0.849, abs=5e-4)
    assert found == pytest.approx(alpha(PUBLISHED))


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 3), min_size=2, max_size=6))
def test_alpha_equals_its_definition(items: list[tuple[int | None, ...]]) -> None:
    ratings = list(zip(*items, strict=True))
    found = krippendorff_alpha(ratings)
    paired = [
        value
        for item in items
        for value in item
        if value is not None and sum(one is not None for one in item) > 1
    ]
    if len(set(paired)) > 1:
        assert found == pytest.approx(alpha(ratings), abs=1e-12)
    else:
        assert ("all ratings" if paired else "two judges") in str(found)


def test_alpha_of_scores_between_levels() -> None:
    ratings = [[1.5, 2.25, 4.0, None], [1.0, 2.5, None, 3.0], [2.0, 2.25, 4.5, 3.5]]
    assert krippendorff_alpha(ratings) == pytest.approx(alpha(ratings))


@pytest.mark.parametrize(
    "ratings", [[], [[]], [[1, 2, 3]], [[1, None], [None, 2]], [[None], [None]]]
)
def test_alpha_needs_an_item_with_two_ratings(ratings: list[list[float | None]]) -> None:
    assert "two judges" in str(krippendorff_alpha(ratings))


def test_a_rating_that_nobody_else_gave_makes_no_difference_of_its_own() -> None:
    assert "all ratings" in str(krippendorff_alpha([[3, 3, 5], [3, 3, None]]))


def test_ranks_are_compared_where_both_have_rated() -> None:
    first, second = [10, None, 30, 50, 40, 2], [1, 99, 2, None, 3, 2]
    assert correlation("spearman", first, second) == pytest.approx(
        pearson([2, 3, 4, 1], [1, 2.5, 4, 2.5])
    )
    assert "two items" in str(correlation("spearman", [1, None, 3], [None, 2, 5]))
    assert "gives 4 to" in str(correlation("spearman", [4, 4, None], [1, 2, 3]))
    with pytest.raises(ValueError):
        correlation("spearman", [1, 2], [1])
