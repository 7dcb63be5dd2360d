""" """

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.core.judgment import Judgment, Scale, Status

FAILURES = [Status.JUDGE_FAILED, Status.UNPARSABLE, Status.INVALID_COMPLETION]


@pytest.mark.parametrize("score", [-1.0, 0.0, 1.0])
def test_ok_has_a_score(score: float) -> None:
    judgment: Judgment[None] = Judgment(score, Status.OK, label="tie")
    assert (judgment.score, judgment.status, judgment.calls, judgment.detail) == (score, Status.OK, (), None)


@pytest.mark.parametrize("status", FAILURES)
def test_a_failure_has_none(status: Status) -> None:
    judgment: Judgment[None] = Judgment(None, status, explanation="why")
    assert judgment.score is None


@pytest.mark.parametrize(
    ("score", "status"), [(None, Status.OK), *((score, status) for status in FAILURES for score in (0.0, 0.5))]
)
def test_nothing_else_can_be_built(score: float | None, status: Status) -> None:
    with pytest.raises(ValueError, match=status.value):
        Judgment(score, status)


def test_results_cannot_be_changed() -> None:
    judgment: Judgment[None] = Judgment(0.0, Status.OK)
    with pytest.raises(AttributeError):
        judgment.score = 1.0  # type: ignore[misc]


def test_the_states_are_told_apart_by_stable_names() -> None:
    assert [status.value for status in Status] == ["ok", "judge_failed", "unparsable", "invalid_completion"]


SCALES = st.tuples(st.integers(-100, 100), st.integers(1, 200)).map(lambda drawn: Scale(drawn[0], drawn[0] + drawn[1]))


def test_the_default_is_from_one_to_five() -> None:
    scale = Scale()
    assert (scale.low, scale.high, scale.span) == (1, 5, 4)
    assert list(scale.levels) == [1, 2, 3, 4, 5]
    assert [scale.unit(score) for score in scale.levels] == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize(
    ("scale", "sentence"),
    [
        (Scale(), "an integer between 1 and 5"),
        (Scale(0, 10), "an integer between 0 and 10"),
        (Scale(-2, 2), "an integer between -2 and 2"),
    ],
)
def test_what_a_prompt_says(scale: Scale, sentence: str) -> None:
    assert scale.sentence == sentence


@pytest.mark.parametrize(
    ("scale", "score", "unit"),
    [
        (Scale(), 3.5, 0.625),
        (Scale(0, 10), 7, 0.7),
        (Scale(1, 100), 1, 0),
        (Scale(-2, 2), -2, 0),
        (Scale(-2, 2), 1, 0.75),
        (Scale(0, 1), 1, 1),
    ],
)
def test_a_score_as_a_share_of_the_scale(scale: Scale, score: float, unit: float) -> None:
    assert scale.unit(score) == pytest.approx(unit)


@pytest.mark.parametrize(
    ("scale", "score", "level"),
    [
        (Scale(), 1.0, 1),
        (Scale(), 1.49, 1),
        (Scale(), 1.5, 2),
        (Scale(), 2.5, 3),
        (Scale(), 3.5, 4),
        (Scale(), 4.4999, 4),
        (Scale(), 4.5, 5),
        (Scale(), 0.2, 1),
        (Scale(), -7.0, 1),
        (Scale(), 5.9, 5),
        (Scale(), 99.0, 5),
        (Scale(-2, 2), -1.5, -1),
        (Scale(-2, 2), -1.6, -2),
        (Scale(-2, 2), -0.5, 0),
        (Scale(-2, 2), -0.6, -1),
        (Scale(-2, 2), 0.5, 1),
        (Scale(-2, 2), -9.0, -2),
    ],
)
def test_the_nearest_level_and_the_higher_of_two(scale: Scale, score: float, level: int) -> None:
    assert scale.nearest(score) == level


@pytest.mark.slow
@given(SCALES, st.floats(-400, 400))
def test_no_level_is_nearer(scale: Scale, score: float) -> None:
    level = scale.nearest(score)
    assert level in scale.levels
    assert abs(level - score) == pytest.approx(min(abs(each - score) for each in scale.levels), abs=1e-12)


@given(SCALES)
def test_levels_and_units(scale: Scale) -> None:
    units = [scale.unit(level) for level in scale.levels]
    assert (units[0], units[-1], len(units)) == (0, 1, scale.span + 1)
    assert units == sorted(set(units))
    assert all(scale.nearest(level) == level for level in scale.levels)


def test_scaled_judgment_has_a_share_of_the_score_from_0_to_1_and_a_failed_one_has_none() -> None:
    assert Judgment(0.5, Status.OK, "x").scaled(0.5) == Judgment(0.25, Status.OK, "x")
    rated = Judgment(4.0, Status.OK, unit=0.75).scaled(0.5)
    assert (rated.score, rated.unit_score) == (0.375, 0.375)
    failed = Judgment[object](None, Status.UNPARSABLE)
    assert failed.scaled(0.5) is failed
