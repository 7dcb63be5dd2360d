from judgegym.llm.errors import EndpointError, FailureKind


def test_an_endpoints_error_in_one_line() -> None:
    error = EndpointError(FailureKind.BUSY, endpoint="http://h/v1", answer="slow down", status=429, attempts=4)
    assert str(error) == "http://h/v1: busy HTTP 429 after 4 requests; last answer: slow down"


def test_an_attempt_without_an_answer_has_no_status() -> None:
    error = EndpointError(FailureKind.BROKEN, endpoint="http://h/v1", answer="none")
    assert str(error) == "http://h/v1: broken after 1 request; last answer: none"
