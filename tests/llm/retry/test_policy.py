"""After which pause a failed attempt is made again, and when no more."""

import pytest

from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.retry import RetryPolicy

RETRIED = [FailureKind.BUSY, FailureKind.BROKEN]


def failure(kind: FailureKind = FailureKind.BROKEN, retry_after: float | None = None) -> EndpointError:
    return EndpointError(kind, endpoint="http://h/v1", answer="no", retry_after=retry_after)


def pauses(policy: RetryPolicy, failures: int, error: EndpointError) -> list[float]:
    """Pauses as the policy draws them after so many failures."""
    drawn = [policy.pause(error, failures=failures, broken=failures, elapsed=0.0) for _ in range(500)]
    return [pause for pause in drawn if pause is not None]


@pytest.mark.parametrize("kind", RETRIED)
@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 2.0), (2, 4.0), (3, 8.0), (5, 32.0), (6, 60.0), (50, 60.0), (10_000, 60.0)]
)
def test_full_jitter_below_a_bound_that_doubles(kind: FailureKind, failures: int, longest: float) -> None:
    drawn = pauses(RetryPolicy(max_retries=10_000, delay_s=2.0, deadline_s=1e9), failures, failure(kind))
    assert 0 <= min(drawn) < 0.1 * longest
    assert 0.9 * longest < max(drawn) <= longest


def test_retry_after_is_a_lower_bound() -> None:
    policy = RetryPolicy(max_retries=99, delay_s=2.0, deadline_s=1e9)
    assert set(pauses(policy, 1, failure(retry_after=90.0))) == {90.0}
    drawn = pauses(policy, 3, failure(retry_after=4.0))
    assert min(drawn) == 4.0 and 4.0 < max(drawn) <= 8.0


@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_max_retries_counts_broken_attempts_after_the_first(max_retries: int) -> None:
    policy = RetryPolicy(max_retries=max_retries, delay_s=1.0, deadline_s=1e9)
    made = 1
    while policy.pause(failure(), failures=made, broken=made, elapsed=0.0) is not None:
        made += 1
    assert made == max_retries + 1


def test_busy_endpoint_is_waited_for_however_often_it_says_so() -> None:
    policy = RetryPolicy(max_retries=0, delay_s=1.0, deadline_s=1e9)
    assert policy.pause(failure(FailureKind.BUSY), failures=1000, broken=0, elapsed=0.0) is not None


def test_busy_endpoint_is_not_asked_again_without_a_pause() -> None:
    policy = RetryPolicy(max_retries=0, delay_s=0.0, deadline_s=1e9)
    assert 0.04 < max(pauses(policy, 1, failure(FailureKind.BUSY))) <= 0.05
    assert max(pauses(RetryPolicy(9, 0.0, 1e9), 1, failure())) == 0.0


def test_rejected_request_is_final() -> None:
    policy = RetryPolicy(max_retries=9, delay_s=1.0, deadline_s=1e9)
    assert policy.pause(failure(FailureKind.REJECTED), failures=1, broken=0, elapsed=0.0) is None


@pytest.mark.parametrize("kind", RETRIED)
@pytest.mark.parametrize(("elapsed", "is_final"), [(79.0, False), (80.0, True), (101.0, True)])
def test_pause_that_would_reach_the_deadline_is_not_begun(kind: FailureKind, elapsed: float, is_final: bool) -> None:
    policy = RetryPolicy(max_retries=9, delay_s=0.0, deadline_s=100.0)
    pause = policy.pause(failure(kind, retry_after=20.0), failures=1, broken=1, elapsed=elapsed)
    assert (pause is None) is is_final


def test_attempt_that_took_its_deadline_is_final_though_its_timer_fired_early() -> None:
    policy = RetryPolicy(max_retries=9, delay_s=0.0, deadline_s=1.0)
    assert policy.pause(failure(), failures=1, broken=1, elapsed=0.999) is None
    assert policy.pause(failure(), failures=1, broken=1, elapsed=0.9) == 0.0
