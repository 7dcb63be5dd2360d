import asyncio
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import aiohttp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tenacity import RetryCallState

from judges.llm.errors import EndpointError, FailureKind
from judges.llm.retry import RetryPolicy, classify_exception, classify_status, retry_after_seconds

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=timezone.utc)
NOW = NOON.timestamp()


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (FailureKind.OVERLOADED, [429, 503, 529]),
        (FailureKind.SERVER, [408, 409, 500, 501, 502, 504, 507, 599]),
        (FailureKind.REJECTED, [300, 302, 307, 400, 401, 402, 403, 404, 405, 410, 413, 415, 418, 422, 451]),
    ],
)
def test_status_has_a_kind_of_failure(kind: FailureKind, statuses: list[int]) -> None:
    assert {status: classify_status(status) for status in statuses} == dict.fromkeys(statuses, kind)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncio.TimeoutError(), FailureKind.TIMEOUT),
        (TimeoutError(), FailureKind.TIMEOUT),
        (aiohttp.ServerTimeoutError(), FailureKind.TIMEOUT),
        (aiohttp.ServerDisconnectedError(), FailureKind.CONNECTION),
        (aiohttp.ClientPayloadError(), FailureKind.CONNECTION),
        (ConnectionRefusedError(), FailureKind.CONNECTION),
        (ConnectionResetError(), FailureKind.CONNECTION),
        (OSError("network unreachable"), FailureKind.CONNECTION),
        (aiohttp.InvalidURL("http://"), FailureKind.REJECTED),
        (ValueError("a header that cannot be sent"), FailureKind.REJECTED),
        (UnicodeError("a host name that cannot be"), FailureKind.REJECTED),
    ],
)
def test_exception_has_a_kind_of_failure(error: Exception, kind: FailureKind) -> None:
    assert classify_exception(error) is kind


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


def test_retry_after_counts_from_the_present() -> None:
    later = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=1000), usegmt=True)
    seconds = retry_after_seconds(later)
    assert seconds is not None and 900 < seconds <= 1000


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
def test_any_header_is_a_finite_pause_or_none(header: str) -> None:
    seconds = retry_after_seconds(header, now=NOW)
    assert seconds is None or 0 <= seconds < float("inf")


def failure(kind: FailureKind = FailureKind.SERVER, retry_after: float | None = None) -> EndpointError:
    return EndpointError(kind, endpoint="http://h/v1", answer="no", retry_after=retry_after)


def pause_after(policy: RetryPolicy, attempt: int, error: EndpointError) -> float:
    """A pause as the policy draws it after this attempt."""
    retrying = policy.retrying(lambda: 0.0)
    state = RetryCallState(retrying, None, (), {})
    state.attempt_number = attempt
    state.set_exception((type(error), error, None))
    return float(retrying.wait(state))


@pytest.mark.parametrize(("attempt", "longest"), [(1, 2.0), (2, 4.0), (3, 8.0), (5, 32.0), (6, 60.0), (50, 60.0)])
def test_full_jitter_below_a_bound_that_doubles(attempt: int, longest: float) -> None:
    policy = RetryPolicy(max_retries=99, delay_s=2.0, deadline_s=1e9)
    draws = [pause_after(policy, attempt, failure()) for _ in range(500)]
    assert 0 <= min(draws) < 0.1 * longest
    assert 0.9 * longest < max(draws) <= longest


def test_retry_after_is_a_lower_bound() -> None:
    policy = RetryPolicy(max_retries=99, delay_s=2.0, deadline_s=1e9)
    assert pause_after(policy, 1, failure(retry_after=90.0)) == 90.0
    draws = [pause_after(policy, 3, failure(retry_after=4.0)) for _ in range(200)]
    assert min(draws) == 4.0 and 4.0 < max(draws) <= 8.0


async def attempts(policy: RetryPolicy, *errors: Exception, elapsed: float = 0.0) -> int:
    """How many attempts the policy makes of a call that fails with these errors in turn, the last one ever after."""
    made = 0
    with pytest.raises(type(errors[0])):
        async for attempt in policy.retrying(lambda: elapsed):
            with attempt:
                made += 1
                raise errors[min(made, len(errors)) - 1]
    return made


@pytest.mark.parametrize("max_retries", [0, 1, 4])
async def test_max_retries_counts_requests_after_the_first(pauses: list[float], max_retries: int) -> None:
    policy = RetryPolicy(max_retries=max_retries, delay_s=1.0, deadline_s=1e9)
    assert await attempts(policy, failure()) == max_retries + 1
    assert len(pauses) == max_retries


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_final_failure_is_not_retried(pauses: list[float], kind: FailureKind) -> None:
    policy = RetryPolicy(max_retries=3, delay_s=1.0, deadline_s=1e9)
    assert await attempts(policy, failure(kind)) == (4 if kind.retryable else 1)


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("another"), asyncio.CancelledError()])
async def test_what_is_no_endpoints_failure_is_not_repeated(error: Exception) -> None:
    assert await attempts(RetryPolicy(max_retries=3, delay_s=0.0, deadline_s=1e9), error) == 1


async def test_a_pause_that_would_pass_the_deadline_is_not_begun(pauses: list[float]) -> None:
    policy = RetryPolicy(max_retries=9, delay_s=0.0, deadline_s=100.0)
    errors = [failure(retry_after=20.0), failure(retry_after=200.0)]
    assert await attempts(policy, *errors) == 2
    assert pauses == [20.0]


async def test_after_the_deadline_nothing_is_repeated(pauses: list[float]) -> None:
    policy = RetryPolicy(max_retries=9, delay_s=0.0, deadline_s=100.0)
    assert await attempts(policy, failure(), elapsed=101.0) == 1
