"""The headers about time: how long an endpoint asks to wait, and how long a caller of our own server waits."""

from __future__ import annotations

import email.utils
import time
from datetime import timezone

REQUEST_DEADLINE = "X-Request-Deadline"
"""The header in which a caller tells the reward server after how many seconds it gives up this request."""
LONGEST_PAUSE_S = 86_400.0
"""No endpoint can mean more than a day; what asks for more is taken as if it did not ask."""


def retry_after_seconds(header: str | None, *, now: float | None = None) -> float | None:
    """Seconds to wait by a `Retry-After` header (RFC 9110, section 10.2.3).

    Args:
        header: the header's value: a number of seconds (fractions are accepted) or an HTTP date.
        now: the present as Unix time; the clock's if not given.

    Returns:
        A number from 0 to `LONGEST_PAUSE_S`; `None` if there is no header, or it is neither form or asks for more.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        moment = _http_date(header)
        if moment is None:
            return None
        seconds = moment - (time.time() if now is None else now)
    return max(0.0, seconds) if seconds <= LONGEST_PAUSE_S else None


def _http_date(text: str) -> float | None:
    """The Unix time of an HTTP date; one without a zone is in UTC, as all of them are."""
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):  # the parser raises all of these on malformed dates
        return None
