"""The faults that a stand-in shows on purpose: their kinds, and which request meets which.

Each kind is what some endpoint, router or network has been seen to do. `judgegym.offline.misbehaviour` has how each
looks on the wire.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from judgegym.judges.core.seeding import generator

NO_ANSWER: Mapping[str, str] = {
    "drop": "the connection is closed without an answer",
    "reset": "the connection is reset",
    "timeout": "no answer, until the client leaves",
    "half_header": "the connection is closed within the headers",
    "no_http": "what comes is not HTTP",
    "short_body": "the connection is closed before the body has its Content-Length",
    "short_chunks": "the connection is closed before the last chunk",
}
"""Kinds that end without a whole HTTP answer."""

NO_COMPLETION: Mapping[str, str] = {
    "malformed": "JSON that is cut off",
    "html": "a page of a proxy, with status 200",
    "no_body": "an empty body",
    "no_content": "status 204",
    "redirect": "status 302 to a page",
    "error_page": "a page of a proxy, with status 502",
    "body_error": "an error object, with status 200",
    "event_stream": "a stream of events that nobody asked for",
    "no_choices": "a list of no choices",
    "no_message": "choices without a message",
    "wrong_type": "a value of another type: choices, a choice, a message or its content",
    "bad_encoding": "JSON that is not UTF-8",
    "bad_gzip": "a body that is said to be compressed, and is not",
    "deep_body": "brackets nested 100,000 deep",
    "huge_body": "a body of 256 MiB",
}
"""Kinds whose HTTP answer holds no completion."""

BROKEN: Mapping[str, str] = {
    "finish_error": 'finish reason "error", after a text that looks whole',
    "finish_abort": 'finish reason "abort", likewise',
    "choice_error": "an error object in the choice, likewise",
    "no_finish": "no finish reason, likewise; not before an answer that has one",
    "empty": "no text",
    "blank": "white space",
    "null_content": "null for text",
    "tool_calls": "tool calls and no text",
    "reasoning_only": "reasoning and no text",
    "fewer_choices": "one choice less than asked for",
    "duplicate_choices": "the first choice in place of the last, with its index",
}
"""Kinds whose completion is not whole."""

SAID: Mapping[str, str] = {
    "garbage": "noise for text",
    "refusal": "a refusal in a field of its own",
    "content_filter": 'finish reason "content_filter", after half a text',
    "length": 'finish reason "length", after half a text',
}
"""Kinds whose completion is the model's last word, and not what was wanted."""

HARMLESS: Mapping[str, str] = {
    "slow": "the right answer, in small pieces over --slow_ms",
    "absurd_usage": "the right answer, with token counts that nobody has",
    "missing_usage": "the right answer, without token counts",
    "text_parts": "the right answer, its text as a list of parts",
    "extra_fields": "the right answer, among fields that nobody knows",
    "more_choices": "the right answer, with one choice more than asked for",
    "shuffled_choices": "the right answer, its choices from the last to the first",
}
"""Kinds whose answer is the right one in another form."""

BUSY: Mapping[str, str] = {
    "retry_after_date": "status 429 with the date of the next second in Retry-After",
    "retry_after_absurd": "status 429 with a Retry-After that is no time, or a year",
}
"""Kinds that say when to come again, beside the statuses 429 and 503 with --retry_after."""

KINDS: Mapping[str, str] = {**NO_ANSWER, **NO_COMPLETION, **BROKEN, **SAID, **HARMLESS, **BUSY}
"""The kinds that are no bare HTTP status, each with what happens."""


@dataclass(frozen=True)
class Faults:
    """Rates by kind: an HTTP status from "400" to "599", or one of `KINDS`.

    Every rate is a number from 0 to 1 and their sum is at most 1; anything else raises a `ValueError` of one line that
    names the kind and the value.
    """

    rates: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the rates."""
        for kind, rate in self.rates.items():
            if kind not in KINDS and not (isinstance(kind, str) and re.fullmatch("[45][0-9]{2}", kind)):
                raise ValueError(f"unknown kind of fault {kind!r}: known are 400 to 599, {', '.join(KINDS)}")
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise ValueError(f"the rate of fault {kind!r} must be a number from 0 to 1, not {rate!r}")
        total = math.fsum(self.rates.values())
        if total > 1 + 1e-9:  # less is rounding
            raise ValueError(f"the rates of the faults must add up to at most 1, not {total:g} ({dict(self.rates)})")

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """Read a JSON object such as `{"429": 0.1, "drop": 0.02}`; raises `ValueError` with one line."""
        try:
            rates = json.loads(text)
        except (ValueError, RecursionError):
            rates = None
        if not isinstance(rates, dict):
            raise ValueError(f'faults must be a JSON object such as {{"429": 0.1}}, not {text[:80]!r}')
        return cls(rates)

    def draw(self, digest: str, attempt: int) -> str | None:
        """The kind of fault that this attempt of this request meets, or `None` for a proper answer.

        A function of the rates (not of their order), the digest and the attempt: attempts are independent draws.
        """
        left = generator(attempt, digest, "fault").random()
        for kind, rate in sorted(self.rates.items()):
            if left < rate:
                return kind
            left -= rate
        return None


@dataclass(frozen=True)
class Outage:
    """A time for which nothing listens: from the moment that the request with a number has arrived, for some seconds.

    All connections are reset at its beginning. A number or a time that is none raises a `ValueError` of one line.
    """

    request: int
    seconds: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.request < 1 or not 0 < self.seconds < math.inf:
            raise ValueError(f"away is a request from 1 and seconds above 0, not {self.request}:{self.seconds:g}")

    @classmethod
    def parse(cls, text: str) -> "Outage":
        """Read `REQUEST:SECONDS`; raises `ValueError` with one line."""
        request, _, seconds = text.partition(":")
        try:
            numbers = int(request), float(seconds)
        except ValueError:
            raise ValueError(f"away is REQUEST:SECONDS such as 100:60, not {text[:80]!r}") from None
        return cls(*numbers)
