"""Faults that some endpoint, router or network has been seen to show, beside those of the package.

The text of a completion that only looks whole begins with `BROKEN_OFF`: a test finds out who took
it for an answer.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import orjson

from judgegym.offline import request as protocol
from judgegym.offline.answers import write_noise
from judgegym.offline.faults import (
    FAULTS,
    HTML_BODY,
    HTML_PAGE,
    Attempt,
    Effect,
    Fault,
    Faults,
    change_completion,
    each_choice,
    replace_message,
    send_completion,
    send_error,
    send_json,
)
from judgegym.offline.request import Json

BROKEN_OFF = "BROKEN OFF."
DEEP = b"[" * 100_000 + b"]" * 100_000
HUGE = [b" " * (1 << 16)] * (1 << 12)
_NUMBER = b'"@"'  # no text has it: within one, a quotation mark is escaped
_ABSURD_PAUSES = (
    "soon",
    "-1",
    "nan",
    "inf",
    "31536000",
    "9" * 400,
    "Mon, 99 Foo 2026 00:00:00 GMT",
)
_ABSURD_COUNTS = (
    "9" * 4000,
    "9223372036854775807",
    "18446744073709551616",
    "-5",
    "1e400",
    "true",
    '"12"',
)
_TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}


def send_wrong(
    headers: Callable[[bytes], bytes], body: Callable[[bytes], bytes]
) -> Callable[[Attempt], Effect]:
    """The right answer's bytes under headers that are wrong for them; the connection ends with it."""

    def effect(attempt: Attempt) -> Effect:
        right = orjson.dumps(attempt.completion())
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        return Effect("close", (head + headers(right) + b"\r\n\r\n" + body(right),))

    return effect


def send_changed(change: Callable[[bytes], bytes], **headers: str) -> Callable[[Attempt], Effect]:
    """The right answer's bytes, changed."""
    return lambda attempt: Effect(
        pieces=(change(orjson.dumps(attempt.completion())),),
        headers={"Content-Type": "application/json", **headers},
    )


def change_body(change: Callable[[Json], object]) -> Callable[[Attempt], Effect]:
    """A body that is no completion, also where a stream is asked for."""

    def effect(attempt: Attempt) -> Effect:
        completion = attempt.completion()
        change(completion)
        return send_json(orjson.dumps(completion))

    return effect


_WRONG_TYPES: Sequence[Callable[[Json], object]] = (
    lambda data: data.update(choices="none"),
    lambda data: data.update(choices={"0": data["choices"][0]}),
    lambda data: data.update(choices=[None] * len(data["choices"])),
    each_choice(lambda choice: choice.update(message="fine")),
    each_choice(lambda choice: choice["message"].update(content=5)),
    each_choice(lambda choice: choice["message"].update(content={"text": "fine"})),
)


def mark(**fields: object) -> Callable[[Attempt], Effect]:
    """The text looks whole, and these fields of its choice say that it is not."""

    def change(choice: Json) -> None:
        choice["message"]["content"] = f"{BROKEN_OFF} {choice['message']['content']}"
        choice |= fields

    return change_completion(each_choice(change))


def replace_messages(**message: object) -> Callable[[Attempt], Effect]:
    return change_completion(each_choice(lambda choice: replace_message(choice, **message)))


def no_finish(attempt: Attempt) -> Effect:
    """An endpoint that has given no reason yet may be one that never does: its first answer has one."""
    if attempt.answered:
        return mark(finish_reason=None)(attempt)
    return send_completion(attempt.request, attempt.completion(), is_answer=True)


def call_tool(choice: Json) -> None:
    replace_message(choice, tool_calls=[_TOOL_CALL])
    choice["finish_reason"] = "tool_calls"


def reason_only(choice: Json) -> None:
    replace_message(choice, reasoning_content=choice["message"]["content"])


def duplicate_choices(attempt: Attempt) -> Effect:
    """A single choice that comes twice is one."""
    completion = attempt.completion()
    completion["choices"][-1] = completion["choices"][0]
    return send_completion(attempt.request, completion, is_answer=attempt.request.n == 1)


def absurd_usage(attempt: Attempt) -> Effect:
    count = _ABSURD_COUNTS[attempt.number % len(_ABSURD_COUNTS)].encode()
    usage = {"prompt_tokens": "@", "completion_tokens": "@"}
    done = send_completion(
        attempt.request, {**attempt.completion(), "usage": usage}, is_answer=True
    )
    return replace(done, pieces=[piece.replace(_NUMBER, count) for piece in done.pieces])


def split_text(choice: Json) -> None:
    text = choice["message"]["content"]
    half = len(text) // 2
    choice["message"]["content"] = [
        {"type": "text", "text": part} for part in (text[:half], text[half:])
    ]


def add_fields(completion: Json) -> None:
    completion |= {
        "system_fingerprint": None,
        "service_tier": ["none"],
        "error": None,
        "provider": {"name": "?"},
    }
    for choice in completion["choices"]:
        choice |= {"native_finish_reason": "STOP", "stop_reason": None, "error": None}
        choice["message"] |= {"refusal": None, "tool_calls": [], "annotations": [], "audio": None}


def more_choices(attempt: Attempt) -> Effect:
    texts = [*attempt.texts(), write_noise(attempt.request)]
    return send_completion(
        attempt.request, protocol.make_completion(attempt.request, texts), is_answer=True
    )


def retry_after_date(attempt: Attempt) -> Effect:
    soon = email.utils.formatdate(time.time() + 1, usegmt=True)
    return send_error(429, "retry_after_date", {"Retry-After": soon})


def retry_after_absurd(attempt: Attempt) -> Effect:
    pause = _ABSURD_PAUSES[attempt.number % len(_ABSURD_PAUSES)]
    return send_error(429, "retry_after_absurd", {"Retry-After": pause})


def of_package(*names: str) -> dict[str, Fault]:
    return {name: FAULTS[name] for name in names}


def close(body: bytes) -> Callable[[Attempt], Effect]:
    return lambda attempt: Effect("close", (body,))


NO_ANSWER: Mapping[str, Fault] = {
    **of_package("drop", "reset", "timeout"),
    "half_header": Fault(
        "the connection is closed within the headers", close(b"HTTP/1.1 200 OK\r\nContent-Ty")
    ),
    "no_http": Fault("what comes is not HTTP", close(b"\x16\x03\x01 this is no HTTP\r\n\r\n")),
    "short_body": Fault(
        "the connection is closed before the body has its Content-Length",
        send_wrong(lambda right: b"Content-Length: %d" % len(right), lambda right: right[:-9]),
    ),
    "short_chunks": Fault(
        "the connection is closed before the last chunk",
        send_wrong(
            lambda right: b"Transfer-Encoding: chunked",
            lambda right: b"%x\r\n%b\r\n" % (len(right), right),
        ),
    ),
}
"""Faults that end without a whole HTTP answer."""

NO_COMPLETION: Mapping[str, Fault] = {
    **of_package("malformed", "html"),
    "no_body": Fault("an empty body", lambda attempt: Effect()),
    "no_content": Fault("status 204", lambda attempt: Effect(status=204)),
    "redirect": Fault(
        "status 302 to a page", lambda attempt: Effect(status=302, headers={"Location": "/login"})
    ),
    "error_page": Fault(
        "a page of a proxy, with status 502",
        lambda attempt: send_json(HTML_PAGE, 502, headers=HTML_BODY),
    ),
    "body_error": Fault(
        "an error object, with status 200",
        lambda attempt: replace(send_error(502, "body_error"), status=200),
    ),
    "event_stream": Fault(
        "a stream of events that nobody asked for",
        send_changed(
            lambda right: b"data: " + right + b"\n\ndata: [DONE]\n\n",
            **{"Content-Type": "text/event-stream", "Cache-Control": "no-cache"},
        ),
    ),
    "no_choices": Fault("a list of no choices", change_body(lambda data: data.update(choices=[]))),
    "no_message": Fault(
        "choices without a message", change_body(each_choice(lambda choice: choice.pop("message")))
    ),
    "wrong_type": Fault(
        "a value of another type: choices, a choice, a message or its content",
        lambda attempt: change_body(_WRONG_TYPES[attempt.number % len(_WRONG_TYPES)])(attempt),
    ),
    "bad_encoding": Fault(
        "JSON that is not UTF-8",
        send_changed(lambda right: right.replace(b'"assistant"', b'"assist\xe4nt"')),
    ),
    "bad_gzip": Fault(
        "a body that is said to be compressed, and is not",
        send_wrong(
            lambda right: b"Content-Encoding: gzip\r\nContent-Length: %d" % len(right),
            lambda right: right,
        ),
    ),
    "deep_body": Fault("brackets nested 100,000 deep", lambda attempt: send_json(DEEP)),
    "huge_body": Fault("a body of 256 MiB", lambda attempt: Effect(pieces=HUGE)),
}
"""Faults whose HTTP answer holds no completion."""

BROKEN: Mapping[str, Fault] = {
    "finish_error": Fault(
        'finish reason "error", after a text that looks whole', mark(finish_reason="error")
    ),
    "finish_abort": Fault('finish reason "abort", likewise', mark(finish_reason="abort")),
    "choice_error": Fault(
        "an error object in the choice, likewise",
        mark(error={"code": 502, "message": "injected on purpose"}),
    ),
    "no_finish": Fault("no finish reason, likewise; not before an answer that has one", no_finish),
    **of_package("empty"),
    "blank": Fault("white space", replace_messages(content=" \n\t\n")),
    "null_content": Fault("null for text", replace_messages()),
    "tool_calls": Fault("tool calls and no text", change_completion(each_choice(call_tool))),
    "reasoning_only": Fault("reasoning and no text", change_completion(each_choice(reason_only))),
    "fewer_choices": Fault(
        "one choice less than asked for", change_completion(lambda data: data["choices"].pop())
    ),
    "duplicate_choices": Fault(
        "the first choice in place of the last, with its index", duplicate_choices
    ),
}
"""Faults whose completion is not whole."""

LAST_WORD: Mapping[str, Fault] = of_package("garbage", "refusal", "content_filter", "length")
"""Faults whose completion is the model's last word, and not what was wanted."""

HARMLESS: Mapping[str, Fault] = {
    **of_package("slow", "missing_usage"),
    "absurd_usage": Fault("the right answer, with token counts that nobody has", absurd_usage),
    "text_parts": Fault(
        "the right answer, its text as a list of parts",
        change_completion(each_choice(split_text), is_answer=True),
    ),
    "extra_fields": Fault(
        "the right answer, among fields that nobody knows",
        change_completion(add_fields, is_answer=True),
    ),
    "more_choices": Fault("the right answer, with one choice more than asked for", more_choices),
    "shuffled_choices": Fault(
        "the right answer, its choices from the last to the first",
        change_completion(lambda data: data["choices"].reverse(), is_answer=True),
    ),
}
"""Faults whose answer is the right one in another form."""

BUSY: Mapping[str, Fault] = {
    "retry_after_date": Fault(
        "status 429 with the date of the next second in Retry-After", retry_after_date
    ),
    "retry_after_absurd": Fault(
        "status 429 with a Retry-After that is no time, or a year", retry_after_absurd
    ),
}
"""Faults that say when to come again, beside the statuses 429 and 503 with --retry_after."""

KNOWN: Mapping[str, Fault] = {
    **NO_ANSWER,
    **NO_COMPLETION,
    **BROKEN,
    **LAST_WORD,
    **HARMLESS,
    **BUSY,
}


def faults(rates: Mapping[str, float]) -> Faults:
    """Rates of the package's faults and of these."""
    return Faults(rates, KNOWN)
