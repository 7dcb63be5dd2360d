"""Scores of several chunks on one scale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.listwise.prompt import one_scale

UNIT = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0])


def test_scores_of_a_single_chunk_stay_as_they_are() -> None:
    scores = {"a": 0.1, "b": 0.7, "link": 0.3}
    assert one_scale([scores], None) == one_scale([scores], "link") == scores
    assert one_scale([], "link") == {}


def test_chunks_are_shifted_so_that_the_shared_text_has_the_mean_of_its_scores() -> None:
    found = one_scale([{"link": 0.5, "a": 0.7}, {"link": 0.3, "b": 0.3, "c": 0.1}], "link")
    assert found == pytest.approx({"link": 0.4, "a": 0.6, "b": 0.4, "c": 0.2})


def test_scores_beyond_the_scale_move_all_scores_together_linearly() -> None:
    found = one_scale([{"link": 1.0, "a": 0.0}, {"link": 0.0, "b": 1.0, "c": 0.5}], "link")
    assert found == pytest.approx({"a": 0.0, "link": 0.5, "c": 0.75, "b": 1.0})


@given(
    chunks=st.lists(st.tuples(UNIT, st.lists(UNIT, min_size=1, max_size=4)), min_size=1, max_size=4),
)
def test_answers_of_one_chunk_never_change_their_order(chunks: list[tuple[float, list[float]]]) -> None:
    given_scores = [
        {"link": link, **{f"{number} {place}": score for place, score in enumerate(scores)}}
        for number, (link, scores) in enumerate(chunks)
    ]
    found = one_scale(given_scores, "link")
    assert all(0 <= score <= 1 for score in found.values())
    for scores in given_scores:
        for one, first in scores.items():
            for other, second in scores.items():
                assert found[one] <= found[other] if first <= second else found[one] >= found[other]
                # Numbers that differ in their last digits only may become equal.
                assert (found[one] < found[other]) or second - first < 1e-9
