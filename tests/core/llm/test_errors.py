import pytest

from judgegym.llm.errors import EndpointError, FailureKind, JudgeGymError, SettingsError, UserError


@pytest.mark.parametrize("kind", list(FailureKind))
def test_only_a_rejected_request_is_not_sent_again(kind: FailureKind) -> None:
    assert kind.retryable is (kind is not FailureKind.REJECTED)


def test_an_endpoints_error_in_one_line() -> None:
    error = EndpointError(FailureKind.BUSY, endpoint="http://h/v1", answer="slow down", status=429, attempts=4)
    assert str(error) == "http://h/v1: busy HTTP 429 after 4 requests; last answer: slow down"


def test_an_attempt_without_an_answer_has_no_status() -> None:
    error = EndpointError(FailureKind.BROKEN, endpoint="http://h/v1", answer="none")
    assert str(error) == "http://h/v1: broken after 1 request; last answer: none"


def test_an_endpoints_error_is_not_the_users() -> None:
    assert issubclass(SettingsError, UserError) and issubclass(EndpointError, JudgeGymError)
    assert not issubclass(EndpointError, UserError)
