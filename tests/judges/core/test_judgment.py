import pytest

from judgegym.judges.core.judgment import Judgment, Status

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
