"""The HTTP retry layer of the chat client: which requests are sent again, when, and for how long.

Retry 429, 408, 409, 5xx, connection errors, time-outs, broken bodies and empty content with full jitter; `Retry-After`
is a lower bound of the pause; the deadline covers a call with all its attempts and pauses. Other answers are final.
No other layer sends a failed request to a model again. What asks again for another reason: a judge whose answer holds
no verdict (`judges.core.voting`, the arena judge), a policy whose answer is too short, a trainer's API that is away.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timezone

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from judges.llm.errors import EndpointError, FailureKind

_LONGEST_PAUSE_S = 60.0
_SERVER_STATUSES = frozenset({408, 409})


def classify_status(status: int) -> FailureKind:
    """The kind of failure of an HTTP status other than 2xx."""
    if status in (429, 503, 529):  # 529: Anthropic's "overloaded"
        return FailureKind.OVERLOADED
    return FailureKind.SERVER if status >= 500 or status in _SERVER_STATUSES else FailureKind.REJECTED


def classify_exception(error: BaseException) -> FailureKind:
    """The kind of failure of an exception of the HTTP client.

    A `ValueError` (a URL, a header or a host name that cannot be sent) is final: a retry would raise it again.
    """
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return FailureKind.TIMEOUT
    return FailureKind.REJECTED if isinstance(error, aiohttp.InvalidURL | ValueError) else FailureKind.CONNECTION


def retry_after_seconds(header: str | None, *, now: float | None = None) -> float | None:
    """Seconds to wait by a `Retry-After` header (RFC 9110, section 10.2.3).

    Args:
        header: the header's value: a number of seconds (fractions are accepted) or an HTTP date.
        now: the present as Unix time; the clock's if not given.

    Returns:
        A number ≥ 0, or `None` if there is no header or it is neither form.
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
    return max(0.0, seconds) if seconds < math.inf else None


def _http_date(text: str) -> float | None:
    """The Unix time of an HTTP date; one without a zone is in UTC, as all of them are."""
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):  # the parser raises all of these on malformed dates
        return None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and for how long a call is retried.

    Attributes:
        max_retries: requests after the first one.
        delay_s: upper bound of the first pause; it doubles with each further one, up to a minute.
        deadline_s: seconds for the whole call; a pause that would pass it ends the call at once.
    """

    max_retries: int
    delay_s: float
    deadline_s: float

    def retrying(self, elapsed: Callable[[], float]) -> AsyncRetrying:
        """A loop of attempts for one call.

        Args:
            elapsed: the seconds of the deadline that the call has used so far.
        """
        jitter = wait_random_exponential(multiplier=self.delay_s, max=_LONGEST_PAUSE_S)

        def wait(state: RetryCallState) -> float:
            asked = _error(state).retry_after or 0.0
            return max(asked, jitter(state))

        def stop(state: RetryCallState) -> bool:
            if state.attempt_number > self.max_retries:
                return True
            return elapsed() + state.upcoming_sleep >= self.deadline_s

        return AsyncRetrying(
            wait=wait,
            stop=stop,
            retry=retry_if_exception(lambda error: isinstance(error, EndpointError) and error.kind.retryable),
            reraise=True,
        )


def _error(state: RetryCallState) -> EndpointError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, EndpointError)  # nothing else is retried
    return error
