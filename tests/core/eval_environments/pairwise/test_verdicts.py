"""What becomes of a policy's texts: score, status, and what the official code would read in them."""

from __future__ import annotations

import pytest

from judgegym.data.pairs import PairTask
from judgegym.eval_environments.pairwise import ParseMode, read_choices, read_ratings
from judgegym.judges.core.judgment import Status

CHOICE = PairTask("a", "Why?", "Math", "choice", ("right", "wrong"), (0,))
TIES = PairTask("tied:1", "Why?", "Ties", "ties", ("right", "right too", "wrong"), (0, 1))
MODES: tuple[ParseMode, ...] = ("last", "official")


@pytest.mark.parametrize("mode", MODES)
def test_ratings_that_the_official_code_reads_in_another_way_are_ambiguous_in_both_modes(
    mode: ParseMode,
) -> None:
    judgment = read_ratings(TIES, ["8/10", "It is a 7", "None: -5"], mode)
    assert judgment.detail is not None
    assert judgment.detail.official_ratings == (10, 7, 5)
    assert judgment.detail.ratings == ((10, 7, 5) if mode == "official" else (8, 7, None))
    assert judgment.detail.ambiguous == (True, False, True)


@pytest.mark.parametrize("mode", MODES)
def test_row_without_a_readable_verdict_is_invalid_and_has_no_score(mode: ParseMode) -> None:
    for judgment in (
        read_choices(CHOICE, ["I would not say."], mode),
        read_choices(CHOICE, ["[[A]]", "I would not say."], mode),
        read_ratings(TIES, ["good", "good", "bad"], mode),
    ):
        assert (judgment.status, judgment.score) == (Status.INVALID_COMPLETION, None)
        assert judgment.explanation == "no readable verdict"
        assert judgment.detail is not None


def test_row_with_verdicts_has_a_score() -> None:
    assert (
        read_choices(CHOICE, ["[[A]]"], "last").score,
        read_choices(CHOICE, ["[[B]]"], "last").score,
    ) == (1.0, 0.0)
    ties = read_ratings(TIES, ["9", "no rating", "3"], "last")
    assert (ties.status, ties.score) == (Status.OK, 1.0)
