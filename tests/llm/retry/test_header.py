"""The `Retry-After` header."""

import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judgegym.llm.retry import LONGEST_PAUSE_S, retry_after_seconds

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
        ("86401", None),
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
def test_any_header_is_a_pause_of_a_day_at_most_or_none(header: str) -> None:
    seconds = retry_after_seconds(header, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_PAUSE_S
