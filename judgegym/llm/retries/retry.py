"""Retries of failed requests: the pause, the number of attempts, and the deadline.

Busy and broken attempts are retried with full jitter; `Retry-After` is a lower bound of the pause;
the deadline covers a call with all its attempts and pauses. Only broken attempts count against
`max_retries`: a busy endpoint is waited for. Unreachable endpoints are handled elsewhere
(`judgegym.llm.reachability`). A rejected request is final. No other layer retries failed requests
to a model. Other reasons to ask again: a judge's response without a verdict
(`judgegym.judges.core.calls`, the arena judge), a policy's completion that is too short, an
unreachable trainer.

The module also reads the headers about time: how long an endpoint asks to wait, and how long a
caller of our own server waits.
"""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass
from datetime import timezone

from judgegym.llm.errors import EndpointError, FailureKind

_LONGEST_PAUSE_S = 60.0
_SHORTEST_ATTEMPT_S = 0.005
"""The shortest attempt that fits in the deadline, in seconds.

Timers fire up to a millisecond early: an attempt that took all of the deadline seems to leave some.
"""
_LEAST_DELAY_S = 0.05  # for a busy endpoint, whose retries have no limit in number


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is retried.

    Attributes:
        max_retries: the most broken attempts after the first one.
        delay_s: the upper bound of the first pause; it doubles with each pause, up to a minute.
        deadline_s: the seconds for the whole call; a pause that would leave no time for an attempt
            ends the call.
    """

    max_retries: int
    delay_s: float
    deadline_s: float

    def pause(
        self, error: EndpointError, *, failures: int, broken: int, elapsed: float
    ) -> float | None:
        """Return the pause before the next attempt, in seconds; `None` for no further attempt.

        Args:
            error: the last attempt's failure.
            failures: the number of failed attempts so far.
            broken: the number of those that count against `max_retries`.
            elapsed: the seconds of the deadline used so far.
        """
        if not error.kind.retryable or (
            error.kind is FailureKind.BROKEN and broken > self.max_retries
        ):
            return None
        delay = self.delay_s
        if error.kind is FailureKind.BUSY:
            delay = max(delay, _LEAST_DELAY_S)
        longest = min(_LONGEST_PAUSE_S, delay * 2.0 ** min(failures - 1, 32))
        pause = max(error.retry_after or 0.0, random.uniform(0.0, longest))  # jitter, no secret
        if elapsed + pause + _SHORTEST_ATTEMPT_S >= self.deadline_s:
            return None
        return pause


REQUEST_DEADLINE = "X-Request-Deadline"
"""The header in which a caller gives the seconds after which it abandons a request."""
LONGEST_PAUSE_S = 31 * 86_400.0
"""Longer waits are ignored: no endpoint can mean more than a month."""


def retry_after_seconds(header: str | None, *, now: float | None = None) -> float | None:
    """Return the seconds to wait by a `Retry-After` header (RFC 9110, section 10.2.3).

    Args:
        header: the header's value: a number of seconds (fractions are accepted) or an HTTP date.
        now: the current Unix time; the clock's by default.

    Returns:
        A number from 0 to `LONGEST_PAUSE_S`; `None` if there is no header, or it is invalid or asks
        for more.
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
    if seconds <= LONGEST_PAUSE_S:
        return max(0.0, seconds)
    return None


def _http_date(text: str) -> float | None:
    """Return the Unix time of an HTTP date; without a zone it is in UTC."""
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return (
            moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        ).timestamp()
    except (
        ValueError,
        OverflowError,
        TypeError,
        IndexError,
    ):  # the parser raises all of these on malformed dates
        return None
