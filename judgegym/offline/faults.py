"""Faults that a stand-in injects: their effects, and which request meets which.

`FAULTS` has those that users name. A program that runs its own `StandInServer` may give `Faults`
further ones.

If a request asks for a stream, a fault that sends a completion (whole or broken) sends it as a
stream. Any other fault comes before the stream and looks as it does without one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from judgegym.judges.core.seeding import make_generator
from judgegym.llm import wire
from judgegym.offline import request as protocol
from judgegym.offline.answers import write_noise
from judgegym.offline.request import ChatRequest, Json, make_events

JSON_BODY: Mapping[str, str] = {"Content-Type": "application/json"}
HTML_PAGE = (
    b"<html><head><title>502 Bad Gateway</title></head><body>\n<h1>Bad Gateway</h1>\n</body></html>"
)
HTML_BODY: Mapping[str, str] = {"Content-Type": "text/html"}
_EVENTS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
_SLOW_PIECES = 10


@dataclass(frozen=True)
class Effect:
    """What the server does with a request.

    Attributes:
        end: `response` sends the response; `close` and `reset` send the body as it is, without
            headers, and end the connection; `hang` does nothing.
        pieces: the pieces of the body; several are sent one after the other, as a stream.
        status: the response's HTTP status.
        headers: the response's headers.
        is_slow: whether the pieces are spread over `slow_ms`.
        is_answer: whether the response is the right one.
    """

    end: Literal["response", "close", "reset", "hang"] = "response"
    pieces: Sequence[bytes] = (b"",)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_BODY)
    is_slow: bool = False
    is_answer: bool = False

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)


def send_json(body: bytes, status: int = 200, **more: Any) -> Effect:
    """Send this body as it is, with status and further fields of an `Effect`."""
    return Effect("response", (body,), status, **more)


def send_completion(request: ChatRequest, completion: Json, *, is_answer: bool = False) -> Effect:
    """Send a completion in the requested form: one body, or a stream."""
    if request.stream:
        pieces = make_events(completion, include_usage=bool(request.stream_options.include_usage))
        return Effect(pieces=pieces, headers=_EVENTS, is_answer=is_answer)
    return send_json(orjson.dumps(completion), is_answer=is_answer)


def send_error(status: int, fault: str, headers: Mapping[str, str] | None = None) -> Effect:
    """Send an error status with a body that names the fault."""
    body = protocol.make_error(status, f"fault {fault}, injected on purpose")
    return send_json(body, status, headers={**JSON_BODY, **(headers or {})})


@dataclass(frozen=True)
class Attempt:
    """A request that meets a fault.

    Attributes:
        request: the request.
        number: the number of the attempt of this request, from 1.
        texts: returns the texts of the right answer.
        answered: number of requests that the server has answered.
    """

    request: ChatRequest
    number: int
    texts: Callable[[], Sequence[str]]
    answered: int

    def completion(self) -> Json:
        """Return the right completion."""
        return protocol.make_completion(self.request, self.texts())


@dataclass(frozen=True)
class Fault:
    """A kind of fault: a description for users, and its effect on an attempt."""

    about: str
    effect: Callable[[Attempt], Effect]


def change_completion(
    change: Callable[[Json], object], *, is_answer: bool = False
) -> Callable[[Attempt], Effect]:
    """Return the effect of a fault that sends the right completion after a change."""

    def effect(attempt: Attempt) -> Effect:
        completion = attempt.completion()
        change(completion)
        return send_completion(attempt.request, completion, is_answer=is_answer)

    return effect


def each_choice(change: Callable[[Json], object]) -> Callable[[Json], None]:
    """Return a change of a completion that changes each of its choices."""

    def change_each(completion: Json) -> None:
        for choice in completion["choices"]:
            change(choice)

    return change_each


def replace_message(choice: Json, **message: object) -> None:
    """Replace a choice's message by one with these fields only, without text and tokens."""
    choice["message"] = {"role": "assistant", "content": None, **message}
    choice["logprobs"] = None
    choice.pop("token_ids", None)


def _cut_choice(choice: Json, reason: str) -> None:
    """Keep half the text, with another finish reason."""
    text = choice["message"]["content"]
    half = text[: len(text) // 2]
    choice["message"]["content"] = half
    choice["finish_reason"] = reason
    count = len(protocol.make_completion_ids(half, stopped=False))
    if "token_ids" in choice:
        choice["token_ids"] = choice["token_ids"][:count]
    if choice["logprobs"] is not None:
        choice["logprobs"]["content"] = choice["logprobs"]["content"][:count]


def _send_slowly(attempt: Attempt) -> Effect:
    effect = send_completion(attempt.request, attempt.completion(), is_answer=True)
    size = -(-len(effect.body) // _SLOW_PIECES)
    pieces = [effect.body[start : start + size] for start in range(0, len(effect.body), size)]
    headers = dict(effect.headers)
    if not attempt.request.stream:
        headers["Content-Length"] = str(len(effect.body))
    return replace(effect, pieces=pieces, headers=headers, is_slow=True)


def _send_noise(attempt: Attempt) -> Effect:
    request = attempt.request
    texts = [write_noise(request, index) for index in range(request.n)]
    return send_completion(request, protocol.make_completion(request, texts))


FAULTS: Mapping[str, Fault] = {
    "drop": Fault("the connection is closed without a response", lambda attempt: Effect("close")),
    "reset": Fault("the connection is reset", lambda attempt: Effect("reset")),
    "timeout": Fault("no response, until the client leaves", lambda attempt: Effect("hang")),
    "slow": Fault("the right response, in small pieces over --slow_ms", _send_slowly),
    "malformed": Fault(
        "JSON that is cut off", lambda attempt: send_json(orjson.dumps(attempt.completion())[:-20])
    ),
    "html": Fault(
        "a page of a proxy, with status 200",
        lambda attempt: send_json(HTML_PAGE, headers=HTML_BODY),
    ),
    "missing_usage": Fault(
        "the right response, without token counts",
        change_completion(lambda completion: completion.pop("usage"), is_answer=True),
    ),
    "empty": Fault(
        "no text",
        change_completion(each_choice(lambda choice: replace_message(choice, content=""))),
    ),
    "garbage": Fault("noise for text", _send_noise),
    "refusal": Fault(
        "a refusal in a field of its own",
        change_completion(
            each_choice(lambda choice: replace_message(choice, refusal="I cannot help with that."))
        ),
    ),
    "content_filter": Fault(
        'finish reason "content_filter", after half a text',
        change_completion(each_choice(lambda choice: _cut_choice(choice, "content_filter"))),
    ),
    "length": Fault(
        'finish reason "length", after half a text',
        change_completion(each_choice(lambda choice: _cut_choice(choice, "length"))),
    ),
}
"""Faults other than a bare HTTP status, by name."""


@dataclass(frozen=True)
class Faults:
    """Rates by fault: an HTTP status from "400" to "599", or a name of `kinds`.

    Every rate is a number from 0 to 1 and their sum is at most 1; anything else raises a
    `ValueError` of one line that names the fault and the value.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, Fault] = field(default_factory=lambda: FAULTS)

    def __post_init__(self) -> None:
        """Check the rates."""
        for name, rate in self.rates.items():
            if name not in self.kinds and not (
                isinstance(name, str) and re.fullmatch("[45][0-9]{2}", name)
            ):
                kinds = ", ".join(self.kinds)
                raise ValueError(f"unknown kind of fault {name!r}: known are 400 to 599, {kinds}")
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise ValueError(
                    f"the rate of fault {name!r} must be a number from 0 to 1, not {rate!r}"
                )
        total = math.fsum(self.rates.values())
        if total > 1 + 1e-9:  # tolerance for rounding
            rates = dict(self.rates)
            raise ValueError(
                f"the rates of the faults must add up to at most 1, not {total:g} ({rates})"
            )

    @classmethod
    def parse(cls, text: str) -> Faults:
        """Parse a JSON object such as `{"429": 0.1, "drop": 0.02}`.

        Raise `ValueError` with one line.
        """
        rates: Any = wire.loads_or_none(text)
        if not isinstance(rates, dict):
            raise ValueError(
                f'faults must be a JSON object such as {{"429": 0.1}}, not {text[:80]!r}'
            )
        return cls(rates)

    def draw(self, digest: str, attempt: int) -> str | None:
        """Return the name of the fault that this attempt of this request meets, or `None`.

        A function of the rates (not of their order), the digest and the attempt: attempts are
        independent draws.
        """
        remaining = make_generator(attempt, digest, "fault").random()
        for name, rate in sorted(self.rates.items()):
            if remaining < rate:
                return name
            remaining -= rate
        return None

    def effect(self, name: str, attempt: Attempt) -> Effect:
        """Return the effect of this fault on an attempt."""
        if name in self.kinds:
            return self.kinds[name].effect(attempt)
        return send_error(int(name), name)


@dataclass(frozen=True)
class Outage:
    """Time without a listener: it starts when the request with this number arrives.

    All connections are reset at its beginning. An invalid number or time raises a `ValueError` of
    one line.
    """

    request: int
    seconds: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.request < 1 or not 0 < self.seconds < math.inf:
            raise ValueError(
                f"away is a request from 1 and seconds above 0, not {self.request}:{self.seconds:g}"
            )

    @classmethod
    def parse(cls, text: str) -> Outage:
        """Parse `REQUEST:SECONDS`; raise `ValueError` with one line."""
        request, _, seconds = text.partition(":")
        try:
            numbers = int(request), float(seconds)
        except ValueError:
            raise ValueError(f"away is REQUEST:SECONDS such as 100:60, not {text[:80]!r}") from None
        return cls(*numbers)
