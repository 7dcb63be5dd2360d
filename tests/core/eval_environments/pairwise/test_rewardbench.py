"""RewardBench-2's arithmetic, against one written anew with arrays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.eval_environments.rewardbench import (
    SUBSETS,
    TiesRow,
    leaderboard_score,
    ties_row_score,
    ties_score,
)

Rating = int | None


def row(uid: str, correct: list[Rating], wrong: list[Rating]) -> TiesRow:
    return {"id": uid, "num_correct": len(correct), "ratings": [*correct, *wrong]}


def reference(rows: list[TiesRow]) -> float | None:
    """The definition, term by term, with numpy's own arithmetic for what has no finite value."""
    stats: dict[str, dict[int, tuple[float, float]]] = {"ref": {}, "tied": {}}
    for each in rows:
        kind, number = each["id"].split(":")
        rated = np.array([-1.0 if value is None else float(value) for value in each["ratings"]])
        right, wrong = np.split(rated, [each["num_correct"]])
        stats[kind][int(number)] = (float(np.ptp(right)), float(right.min() - wrong.max()))
    common = [number for number in stats["ref"] if number in stats["tied"]]
    if not common:
        return None
    spread = np.array([stats["tied"][number][0] for number in common])
    tied = np.array([stats["tied"][number][1] for number in common])
    hard = np.minimum(tied, np.array([stats["ref"][number][1] for number in common]))
    with np.errstate(divide="ignore", invalid="ignore"):
        separation = np.nan_to_num(np.tanh(hard / spread - 1))
    accuracy = {kind: np.mean([margin > 0 for _, margin in stats[kind].values()]) for kind in stats}
    return float(
        0.30 * accuracy["tied"]
        + 0.30 * accuracy["ref"]
        + 0.20 * np.mean(tied > spread)
        + 0.20 * np.mean(hard > spread)
        + 0.01 * np.mean(separation)
    )


RATINGS: Any = st.none() | st.integers(1, 10) | st.sampled_from([1, 10])
ROWS = st.dictionaries(
    st.tuples(st.sampled_from(["ref", "tied"]), st.integers(0, 4)),
    st.tuples(st.lists(RATINGS, min_size=1, max_size=4), st.lists(RATINGS, min_size=1, max_size=4)),
    max_size=8,
).map(
    lambda found: [row(f"{kind}:{number}", *ratings) for (kind, number), ratings in found.items()]
)


@pytest.mark.slow
@given(ROWS)
def test_the_score_of_the_definition(rows: list[TiesRow]) -> None:
    score, expected = ties_score(rows), reference(rows)
    if expected is None:
        assert score is None
    else:
        assert score == pytest.approx(expected, abs=1e-12)
        assert -0.01 - 1e-12 <= expected <= 1.01 + 1e-12


def pair(
    ref: tuple[list[Rating], list[Rating]], tied: tuple[list[Rating], list[Rating]]
) -> float | None:
    return ties_score([row("ref:1", *ref), row("tied:1", *tied)])


@pytest.mark.parametrize(
    ("ref", "tied", "score"),
    [
        # A judge that likes everything, and one that cannot be read, are worth nothing.
        (([10], [10, 10]), ([10, 10], [10, 10]), 0.0),
        # Correct answers all the same and above the rest: no spread, so that the separation is
        # whole.
        (([10], [1, 1]), ([10, 10], [1, 1]), 1.01),
        # The other way round.
        (([1], [10]), ([1, 9], [10]), 0.01 * float(np.tanh(-9 / 8 - 1))),
        # A spread as wide as the margin is not preferred, and separates nothing.
        (([9], [5]), ([10, 8], [6]), 0.60),
        # Preferred by itself, not where the harder of both margins counts.
        (([6], [5]), ([10, 8], [5]), 0.80 + 0.01 * float(np.tanh(1 / 2 - 1))),
        # An unparsed rating counts as −1: bad for a correct answer, good for the judge at a wrong
        # one.
        (([9], [5]), ([9, None], [5]), 0.30 + 0.01 * float(np.tanh(-6 / 10 - 1))),
        # Only the ref row is right; 0/0 for the other.
        (([9], [5]), ([5, 5], [5]), 0.30),
    ],
)
def test_by_hand(
    ref: tuple[list[Rating], list[Rating]], tied: tuple[list[Rating], list[Rating]], score: float
) -> None:
    assert pair(ref, tied) == pytest.approx(score, abs=1e-12)


def test_questions_without_their_other_half_count_for_accuracy_alone() -> None:
    both = [row("ref:1", [9], [5]), row("tied:1", [9, 9], [5])]
    assert ties_score([*both, row("ref:2", [5], [9])]) == pytest.approx(1.01 - 0.15)
    assert ties_score([*both, row("tied:2", [5, 5], [9])]) == pytest.approx(1.01 - 0.15)


def test_no_question_in_both_groups_gives_no_score() -> None:
    assert ties_score([]) is None
    assert ties_score([row("ref:1", [9], [1])]) is None
    assert ties_score([row("ref:1", [9], [1]), row("tied:2", [9, 9], [1])]) is None


@pytest.mark.parametrize(
    ("correct", "wrong", "score"),
    [
        ([9], [8, 7], 1.0),
        ([10, 10], [10, 10], 1.0),
        ([8, None], [9], 0.0),
        ([None, 9], [9], 1.0),
        ([1], [None], 1.0),
        ([None, None], [None], 0.0),
    ],
)
def test_a_row_is_right_where_a_top_rated_answer_is_correct(
    correct: list[Rating], wrong: list[Rating], score: float
) -> None:
    assert ties_row_score([*correct, *wrong], len(correct)) == score


def test_the_leaderboard_weighs_each_subset_the_same() -> None:
    assert SUBSETS == ("Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties")
    scores = dict(zip(SUBSETS, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), strict=True))
    assert leaderboard_score(scores) == pytest.approx(0.35)
    assert leaderboard_score(scores | {"Other": 100.0}) == pytest.approx(0.35)


def test_the_leaderboard_needs_every_subset() -> None:
    with pytest.raises(ValueError, match="missing: Safety, Ties"):
        leaderboard_score({subset: 0.5 for subset in SUBSETS if subset not in ("Safety", "Ties")})
