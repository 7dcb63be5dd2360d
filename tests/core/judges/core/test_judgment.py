""" """

import pytest

from judgegym.judges.core.judgment import Judgment, Scale, Status

FAILURES = [Status.JUDGE_FAILED, Status.UNPARSABLE, Status.INVALID_COMPLETION]


@pytest.mark.parametrize("score", [-1.0, 0.0, 1.0])
def test_ok_has_a_score(score: float) -> None:
    judgment: Judgment[None] = Judgment(score, Status.OK, label="tie")
    assert (judgment.score, judgment.status, judgment.calls, judgment.detail) == (
        score,
        Status.OK,
        (),
        None,
    )


@pytest.mark.parametrize("status", FAILURES)
def test_a_failure_has_none(status: Status) -> None:
    judgment: Judgment[None] = Judgment(None, status, explanation="why")
    assert judgment.score is None


@pytest.mark.parametrize(
    ("score", "status"),
    [(None, Status.OK), *((score, status) for status in FAILURES for score in (0.0, 0.5))],
)
def test_nothing_else_can_be_built(score: float | None, status: Status) -> None:
    with pytest.raises(ValueError, match=status.value):
        Judgment(score, status)


def test_the_default_is_from_one_to_five() -> None:
    scale = Scale()
    assert (scale.low, scale.high, scale.span) == (1, 5, 4)
    assert list(scale.levels) == [1, 2, 3, 4, 5]
    assert [scale.unit(score) for score in scale.levels] == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize(
    ("scale", "score", "unit"),
    [
        (Scale(), 3.5, 0.625),
        (Scale(0, 10), 7, 0.7),
        (Scale(-2, 2), 1, 0.75),
    ],
)
def test_a_score_as_a_share_of_the_scale(scale: Scale, score: float, unit: float) -> None:
    assert scale.unit(score) == pytest.approx(unit)


@pytest.mark.parametrize(
    ("scale", "score", "level"),
    [
        (Scale(), 1.49, 1),
        (Scale(), 1.5, 2),
        (Scale(), 4.4999, 4),
        (Scale(), 0.2, 1),
        (Scale(), 99.0, 5),
        (Scale(-2, 2), -1.5, -1),
        (Scale(-2, 2), -1.6, -2),
        (Scale(-2, 2), -9.0, -2),
    ],
)
def test_the_nearest_level_and_the_higher_of_two(scale: Scale, score: float, level: int) -> None:
    assert scale.nearest(score) == level


def test_scaled_judgment_has_a_share_of_the_score_from_0_to_1_and_a_failed_one_has_none() -> None:
    assert Judgment(0.5, Status.OK, "x").scale_score(0.5) == Judgment(0.25, Status.OK, "x")
    rated = Judgment(4.0, Status.OK, unit=0.75).scale_score(0.5)
    assert (rated.score, rated.unit_score) == (0.375, 0.375)
    failed = Judgment[object](None, Status.UNPARSABLE)
    assert failed.scale_score(0.5) is failed
