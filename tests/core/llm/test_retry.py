"""After which pause a failed attempt is made again, and when no more.

The `Retry-After` header.
"""

import time
from datetime import datetime, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.retries.retry import LONGEST_PAUSE_S, RetryPolicy, retry_after_seconds

RETRIED = [FailureKind.BUSY, FailureKind.BROKEN]


def failure(
    kind: FailureKind = FailureKind.BROKEN, retry_after: float | None = None
) -> EndpointError:
    return EndpointError(kind, endpoint="http://h/v1", answer="no", retry_after=retry_after)


def pauses(policy: RetryPolicy, failures: int, error: EndpointError) -> list[float]:
    """Pauses as the policy draws them after so many failures."""
    drawn = [
        policy.pause(error, failures=failures, broken=failures, elapsed=0.0) for _ in range(500)
    ]
    return [pause for pause in drawn if pause is not None]


@pytest.mark.parametrize("kind", RETRIED)
@pytest.mark.parametrize(
    ("failures", "longest"),
    [(1, 2.0), (2, 4.0), (3, 8.0), (5, 32.0), (6, 60.0), (50, 60.0), (10_000, 60.0)],
)
def test_full_jitter_below_a_bound_that_doubles(
    kind: FailureKind, failures: int, longest: float
) -> None:
    drawn = pauses(
        RetryPolicy(max_retries=10_000, delay_s=2.0, deadline_s=1e9), failures, failure(kind)
    )
    assert 0 <= min(drawn) < 0.1 * longest
    assert 0.9 * longest < max(drawn) <= longest


def test_retry_after_is_a_lower_bound() -> None:
    policy = RetryPolicy(max_retries=99, delay_s=2.0, deadline_s=1e9)
    assert set(pauses(policy, 1, failure(retry_after=90.0))) == {90.0}
    drawn = pauses(policy, 3, failure(retry_after=4.0))
    assert min(drawn) == 4.0 and 4.0 < max(drawn) <= 8.0


def test_busy_endpoint_is_not_asked_again_without_a_pause() -> None:
    policy = RetryPolicy(max_retries=0, delay_s=0.0, deadline_s=1e9)
    assert 0.04 < max(pauses(policy, 1, failure(FailureKind.BUSY))) <= 0.05
    assert max(pauses(RetryPolicy(9, 0.0, 1e9), 1, failure())) == 0.0


@pytest.mark.parametrize("kind", RETRIED)
@pytest.mark.parametrize(("elapsed", "is_final"), [(79.0, False), (80.0, True), (101.0, True)])
def test_pause_that_would_reach_the_deadline_is_not_begun(
    kind: FailureKind, elapsed: float, is_final: bool
) -> None:
    policy = RetryPolicy(max_retries=9, delay_s=0.0, deadline_s=100.0)
    pause = policy.pause(failure(kind, retry_after=20.0), failures=1, broken=1, elapsed=elapsed)
    assert (pause is None) is is_final


def test_attempt_that_took_its_deadline_is_final_though_its_timer_fired_early() -> None:
    policy = RetryPolicy(max_retries=9, delay_s=0.0, deadline_s=1.0)
    assert policy.pause(failure(), failures=1, broken=1, elapsed=0.999) is None
    assert policy.pause(failure(), failures=1, broken=1, elapsed=0.9) == 0.0


NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=timezone.utc)
NOW = NOON.timestamp()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("2.5", 2.5),
        ("-5", 0.0),
        ("nan", None),
        ("inf", None),
        ("-inf", 0.0),
        ("1e999", None),
        ("86400", 86_400.0),
        ("86401", 86_401.0),
        ("2678400", 2_678_400.0),
        ("2678401", None),
        ("9" * 5000, None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("", None),
        ("soon", None),
        ("7 seconds", None),
        ("Fri, 20 Nov 2026 12:01:30 GMT", 90.0),
        ("Fri, 20 Nov 2026 12:01:30 +0000", 90.0),
        ("Fri, 20 Nov 2026 13:01:30 +0100", 90.0),
        ("Friday, 20-Nov-26 12:01:30 GMT", 90.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 99 Nov 2026 12:01:30 GMT", None),
        ("Fri, 20 Nov 2026 12:01:30 +9999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, now=NOW) == seconds


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_date_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        # RFC 9110, section 5.6.7: asctime's form is still an HTTP date, and all of them are in UTC.
        assert retry_after_seconds("Fri Nov 20 12:01:30 2026", now=NOW) == 90.0
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.text(max_size=40) | st.floats().map(str) | st.datetimes().map(format_datetime))
@example("Fri, 20 Nov 2026 12:01:30 +99999999999999999999")
@example("Fri, 20 Nov 99999999999999999999 12:01:30 GMT")
@example("Fri, 31 Dec 9999 23:59:59 -0000")
def test_any_header_is_a_pause_of_a_month_at_most_or_none(header: str) -> None:
    seconds = retry_after_seconds(header, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_PAUSE_S
