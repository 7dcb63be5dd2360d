"""The faults that a stand-in shows on purpose: their kinds, and which request meets which.

Each kind is what some endpoint, router or network has been seen to do. `judgegym.offline.faults` has how each
looks on the wire.

How each kind of fault looks on the wire.

Where a stream is asked for, an answer that is a completion, whole or broken, is one; any other fault comes before the
stream, and looks as without one.
The text of an answer that only looks whole begins with `BROKEN_OFF`: a test finds out who took it for an answer.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from judgegym.judges.core.seeding import generator
from judgegym.llm import wire
from judgegym.offline import request as protocol
from judgegym.offline.answers import noise
from judgegym.offline.request import ChatRequest, Json, events

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
    def parse(cls, text: str) -> Faults:
        """Read a JSON object such as `{"429": 0.1, "drop": 0.02}`; raises `ValueError` with one line."""
        rates: Any = wire.as_json(text)
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
    def parse(cls, text: str) -> Outage:
        """Read `REQUEST:SECONDS`; raises `ValueError` with one line."""
        request, _, seconds = text.partition(":")
        try:
            numbers = int(request), float(seconds)
        except ValueError:
            raise ValueError(f"away is REQUEST:SECONDS such as 100:60, not {text[:80]!r}") from None
        return cls(*numbers)


BROKEN_OFF = "BROKEN OFF."
HUGE = 256 * 1024 * 1024
_DEEP = 100_000
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>\n<h1>Bad Gateway</h1>\n</body></html>"
_JSON = {"Content-Type": "application/json"}
_HTML = {"Content-Type": "text/html"}
_EVENTS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
_NUMBER = b'"@"'  # no text has it: within one, a quotation mark is escaped
_ABSURD_PAUSES = ("soon", "-1", "nan", "inf", "31536000", "9" * 400, "Mon, 99 Foo 2026 00:00:00 GMT")
_ABSURD_COUNTS = ("9" * 4000, "9223372036854775807", "18446744073709551616", "-5", "1e400", "true", '"12"')

End = Literal["response", "events", "pieces", "endless", "close", "reset", "hang"]


@dataclass(frozen=True)
class Effect:
    """What is done with a request.

    Attributes:
        end: `response` sends the response; `events` sends a stream, event by event; `pieces` sends either slowly and in
            pieces; `endless` goes on with the body's first byte up to `HUGE`; `close` and `reset` send `body` as it is,
            without headers, and end the connection; `hang` does nothing.
        body: of the response.
        status: of the response.
        headers: of the response.
    """

    end: End = "response"
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _JSON)


def whole(request: ChatRequest, completion: Json) -> Effect:
    """A completion as it was asked for: as one body, or as a stream."""
    if request.stream:
        sent = events(completion, include_usage=bool(request.stream_options.include_usage))
        return Effect("events", b"".join(sent), headers=_EVENTS)
    return Effect(body=orjson.dumps(completion))


def effect(kind: str, request: ChatRequest, answers: Callable[[], Sequence[str]], attempt: int) -> Effect:
    """What a kind of fault does to this attempt of a request; `answers` gives the texts of the right answer."""
    if kind in _OF_BODY:
        return _OF_BODY[kind](orjson.dumps(protocol.completion(request, answers())))
    if kind in _OF_CHOICES:
        data = protocol.completion(request, answers())
        _OF_CHOICES[kind](data)
        return Effect(body=orjson.dumps(data)) if kind in NO_COMPLETION else whole(request, data)
    match kind:
        case "slow":
            return replace(whole(request, protocol.completion(request, answers())), end="pieces")
        case "garbage":
            return whole(request, protocol.completion(request, [noise(request, index) for index in range(request.n)]))
        case "more_choices":
            return whole(request, protocol.completion(request, [*answers(), noise(request)]))
        case "wrong_type":
            data = protocol.completion(request, answers())
            _WRONG_TYPES[attempt % len(_WRONG_TYPES)](data)
            return Effect(body=orjson.dumps(data))
        case "absurd_usage":
            number = _ABSURD_COUNTS[attempt % len(_ABSURD_COUNTS)].encode()
            usage = {"prompt_tokens": "@", "completion_tokens": "@"}
            done = whole(request, {**protocol.completion(request, answers()), "usage": usage})
            return replace(done, body=done.body.replace(_NUMBER, number))
        case "retry_after_date":
            return _status(429, kind, email.utils.formatdate(time.time() + 1, usegmt=True))
        case "retry_after_absurd":
            return _status(429, kind, _ABSURD_PAUSES[attempt % len(_ABSURD_PAUSES)])
    return _status(int(kind), kind)


def _status(status: int, kind: str, retry_after: str | None = None) -> Effect:
    headers = _JSON if retry_after is None else {**_JSON, "Retry-After": retry_after}
    return Effect(body=protocol.error(status, f"fault {kind}, injected on purpose"), status=status, headers=headers)


def _by_hand(headers: bytes, body: bytes) -> Effect:
    """A response with headers that are wrong for its body; the connection ends with it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return Effect("close", head + headers + b"\r\n\r\n" + body)


_OF_BODY: Mapping[str, Callable[[bytes], Effect]] = {
    "drop": lambda body: Effect("close"),
    "reset": lambda body: Effect("reset"),
    "timeout": lambda body: Effect("hang"),
    "half_header": lambda body: Effect("close", b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "no_http": lambda body: Effect("close", b"\x16\x03\x01 this is no HTTP\r\n\r\n"),
    "short_body": lambda body: _by_hand(b"Content-Length: %d" % len(body), body[:-9]),
    "short_chunks": lambda body: _by_hand(b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n" % (len(body), body)),
    "malformed": lambda body: Effect(body=body[:-20]),
    "html": lambda body: Effect(body=_PAGE, headers=_HTML),
    "no_body": lambda body: Effect(),
    "no_content": lambda body: Effect(status=204),
    "redirect": lambda body: Effect(status=302, headers={"Location": "/login"}),
    "error_page": lambda body: Effect(body=_PAGE, status=502, headers=_HTML),
    "body_error": lambda body: Effect(body=protocol.error(502, "fault body_error, injected on purpose")),
    "event_stream": lambda body: Effect(body=b"data: " + body + b"\n\ndata: [DONE]\n\n", headers=_EVENTS),
    "bad_encoding": lambda body: Effect(body=body.replace(b'"assistant"', b'"assist\xe4nt"')),
    "bad_gzip": lambda body: _by_hand(b"Content-Encoding: gzip\r\nContent-Length: %d" % len(body), body),
    "deep_body": lambda body: Effect(body=b"[" * _DEEP + b"]" * _DEEP),
    "huge_body": lambda body: Effect("endless", b" "),
}


def _each(change: Callable[..., None], *args: object, **fields: object) -> Callable[[Json], None]:
    def apply(data: Json) -> None:
        for choice in data["choices"]:
            change(choice, *args, **fields)

    return apply


def _mark(choice: Json, **fields: object) -> None:
    """Its text looks whole, and these fields say that it is not."""
    choice["message"]["content"] = f"{BROKEN_OFF} {choice['message']['content']}"
    choice |= fields


def _cut(choice: Json, reason: str) -> None:
    """Half the text is missing."""
    text = choice["message"]["content"]
    half = text[: len(text) // 2]
    choice["message"]["content"] = half
    choice["finish_reason"] = reason
    count = len(protocol.completion_ids(half, stopped=False))
    if "token_ids" in choice:
        choice["token_ids"] = choice["token_ids"][:count]
    if choice["logprobs"] is not None:
        choice["logprobs"]["content"] = choice["logprobs"]["content"][:count]


def _say(choice: Json, **message: object) -> None:
    """Another message, and without tokens."""
    choice["message"] = {"role": "assistant", **message}
    choice["logprobs"] = None
    choice.pop("token_ids", None)
    if message.get("tool_calls"):
        choice["finish_reason"] = "tool_calls"


def _repeat_the_first(data: Json) -> None:
    data["choices"][-1] = data["choices"][0]


def _in_parts(choice: Json) -> None:
    text = choice["message"]["content"]
    half = len(text) // 2
    choice["message"]["content"] = [{"type": "text", "text": part} for part in (text[:half], text[half:])]


def _with_more_fields(data: Json) -> None:
    data |= {"system_fingerprint": None, "service_tier": ["none"], "error": None, "provider": {"name": "?"}}
    for choice in data["choices"]:
        choice |= {"native_finish_reason": "STOP", "stop_reason": None, "error": None}
        choice["message"] |= {"refusal": None, "tool_calls": [], "annotations": [], "audio": None}


_TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}

_OF_CHOICES: Mapping[str, Callable[[Json], None]] = {
    "finish_error": _each(_mark, finish_reason="error"),
    "finish_abort": _each(_mark, finish_reason="abort"),
    "no_finish": _each(_mark, finish_reason=None),
    "choice_error": _each(_mark, error={"code": 502, "message": "fault choice_error, injected on purpose"}),
    "empty": _each(_say, content=""),
    "blank": _each(_say, content=" \n\t\n"),
    "null_content": _each(_say, content=None),
    "tool_calls": _each(_say, content=None, tool_calls=[_TOOL_CALL]),
    "reasoning_only": _each(lambda choice: _say(choice, content=None, reasoning_content=choice["message"]["content"])),
    "refusal": _each(_say, content=None, refusal="I cannot help with that."),
    "content_filter": _each(_cut, "content_filter"),
    "length": _each(_cut, "length"),
    "no_choices": lambda data: data.update(choices=[]),
    "no_message": _each(lambda choice: choice.pop("message")),
    "fewer_choices": lambda data: data["choices"].pop(),
    "duplicate_choices": _repeat_the_first,
    "shuffled_choices": lambda data: data["choices"].reverse(),
    "missing_usage": lambda data: data.pop("usage"),
    "text_parts": _each(_in_parts),
    "extra_fields": _with_more_fields,
}

_WRONG_TYPES: Sequence[Callable[[Json], None]] = (
    lambda data: data.update(choices="none"),
    lambda data: data.update(choices={"0": data["choices"][0]}),
    lambda data: data.update(choices=[None] * len(data["choices"])),
    _each(lambda choice: choice.update(message="fine")),
    _each(lambda choice: choice["message"].update(content=5)),
    _each(lambda choice: choice["message"].update(content={"text": "fine"})),
)
