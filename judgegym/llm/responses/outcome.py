"""Classify an HTTP response, for judge and policy alike: usable, retryable or final.

Guarantees: whatever an endpoint sends, an attempt ends as `ChatSuccess`, with the usable choices,
or as `AttemptFailure`, with a `FailureKind`; nothing is raised. Impossible counts, pauses and texts
are dropped or unusable.

A usable choice is whole, cut off by the length limit or refused (`Choice.state`). All others are
unusable: those with an error, broken off, with an unknown finish reason, without one although the
endpoint usually sends it (or has hardly answered yet), with tool calls of a judge, or without text
(empty, only tool calls, only reasoning). A response without usable choices is a failed attempt. If
an endpoint ends all its responses with one unknown word, the failure is final.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, cast

import aiohttp

from judgegym.llm import wire
from judgegym.llm.errors import FailureKind
from judgegym.llm.responses.choices import (
    KEPT_TOKENS,
    LONGEST_REASON,
    NotACompletion,
    choice_from_json,
    parse_token_ids,
)
from judgegym.llm.responses.finish_reasons import DEFAULT_RULES, FinishRules, normalize_reason
from judgegym.llm.retries.limits import lacks_credit, parse_wait
from judgegym.llm.retries.retry import retry_after_seconds
from judgegym.llm.usage import Usage
from judgegym.llm.wire import CUT_OFF, JSON, Choice, is_blank, mapping_or_empty

logger = logging.getLogger(__name__)

LONGEST_TEXT = 8_000_000
"""The longest usable text or reasoning, in characters. A model writes at most a million tokens."""
_MOST_TOKENS = 10**9

_ANSWERS_IN_DOUBT = 2
"""Retries while an endpoint's first responses have no finish reason; then it is taken to give none.

At the start of a run, a response that broke off would otherwise be believed.
"""

_UNKNOWN_IN_A_ROW = 3
"""Consecutive responses with one unknown word, none known, that show an endpoint's habit."""
_MOST_REASONS = 100
"""The most finish reasons of an endpoint that are counted by name."""
_NO_REASON = "(none)"
_LONGEST_NAME = 300

_GAPS = (
    "returns no ids for some tokens, such as those of a character made of several: of such a "
    "response, only the tokens before the first missing one are known and trained on"
)

_BUSY = frozenset({429, 503, 529})  # 529: Anthropic's "overloaded"
_RETRYABLE = frozenset({408, 409, 425, 499})
"""Too early, and nginx's "client closed request" from a proxy, pass like a timeout."""
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|UNKNOWN_PROTOCOL")
_API_PATH = re.compile(r"/chat/completions/?$")
_UNREACHABLE_ERRNOS = frozenset(
    {
        errno.ECONNREFUSED,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.ENETDOWN,
        errno.ETIMEDOUT,
    }
)


class RawResponse(NamedTuple):
    """A raw response: status, body, and the headers `Retry-After` and `Location`."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str | None = None


class ChatSuccess(NamedTuple):
    """A response with at least one usable choice.

    Attributes:
        choices: the usable choices, in order.
        received: the number of choices, including unusable ones.
        tokens: the usage without a price; 0 where the endpoint's count is missing or impossible.
        prompt_token_ids: the prompt's tokens, if requested and returned.
        served: the model named in the response, with its fingerprint in brackets.
    """

    choices: tuple[Choice, ...]
    received: int
    tokens: Usage = Usage()
    prompt_token_ids: tuple[int, ...] | None = None
    served: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """A failed attempt.

    Attributes:
        kind: the kind of failure, which says whether another attempt may succeed.
        answer: the endpoint's message, or what was wrong with the response; it may contain the API
            key.
        status: the HTTP status, if there was a response.
        retry_after: the seconds that the endpoint asked to wait.
        tokens: the usage, which is paid for; `None` without a chat completion.
        is_account: whether the endpoint refuses the account or the API, and so every request.
    """

    kind: FailureKind
    answer: str
    status: int | None = None
    retry_after: float | None = None
    tokens: Usage | None = None
    is_account: bool = False


class PlainResponse(NamedTuple):
    """A response outside the chat API (`ChatClient.request_json`)."""

    text: str
    tokens: None = None


Outcome: TypeAlias = ChatSuccess | PlainResponse | AttemptFailure
ReadItems: TypeAlias = Callable[[JSON], "tuple[Sequence[str], JSON]"]
"""Reads a response that is no completion: the text of each item, and its `usage`.

Raises `NotACompletion` for another format.
"""


@dataclass(slots=True)
class Habits:
    """What an endpoint usually does, learned from its responses.

    Attributes:
        name: the endpoint, for messages.
        rules: the finish reasons of whole responses.
        gives_reasons: whether it has sent a finish reason, so that a choice without one broke off.
        without_reason: the number of responses so far without any finish reason.
        gives_known: whether it has sent a known finish reason.
        unknown: the unknown finish reason of its last response, normalized.
        unknown_in_a_row: the number of consecutive responses with that reason.
        reasons: the number of choices by finish reason, normalized; `(none)` without one.
        served: the number of responses by the model they name, with its fingerprint in brackets.
    """

    name: str
    rules: FinishRules = DEFAULT_RULES
    gives_reasons: bool = False
    without_reason: int = 0
    gives_known: bool = False
    unknown: str = ""
    unknown_in_a_row: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    _logged_topics: set[str] = field(default_factory=set)

    @property
    def refusal(self) -> AttemptFailure | None:
        """Why no response of the endpoint is usable, if all end with one unknown word."""
        if self.gives_known or self.unknown_in_a_row < _UNKNOWN_IN_A_ROW:
            return None
        return AttemptFailure(
            FailureKind.REJECTED,
            f"its responses end with the finish_reason {self.unknown!r}, which is not known to "
            "mean a complete response; if it does, accept it with "
            f"--{self.rules.setting}={self.unknown}",
            200,
        )

    def learn(self, sent: Sequence[JSON]) -> None:
        """Note the finish reasons of a response's choices."""
        reasons = [raw.get("finish_reason") for raw in sent if isinstance(raw, dict)]
        words = [
            normalize_reason(reason[:LONGEST_REASON])
            for reason in reasons
            if isinstance(reason, str)
        ]
        present = list(filter(None, words))
        for word in (*present, *[_NO_REASON] * (len(sent) - len(present))):
            self.reasons[
                word if word in self.reasons or len(self.reasons) < _MOST_REASONS else "others"
            ] += 1
        if not self.gives_reasons and not present:
            self.without_reason += 1
        elif not self.gives_reasons:
            self.gives_reasons = True
            if (taken := self.without_reason - _ANSWERS_IN_DOUBT) > 0:
                self.log_once(
                    "late",
                    f"now gives a finish_reason; {taken} responses without one were taken to be "
                    "complete",
                )
        if self.gives_known or not present:
            return
        self.gives_known = any(self.rules.state(word) != "unknown" for word in present)
        self.unknown_in_a_row = self.unknown_in_a_row + 1 if {self.unknown} == set(present) else 1
        self.unknown = present[0]

    def note_served(self, body: Mapping[str, JSON]) -> str | None:
        """Note which model served a response, if it says so; log a change and return the name."""
        model, fingerprint = body.get("model"), body.get("system_fingerprint")
        if not isinstance(model, str) or not model:
            return None
        model_name = (
            f"{model} ({fingerprint})" if isinstance(fingerprint, str) and fingerprint else model
        )[:_LONGEST_NAME]
        if model_name not in self.served:
            if self.served and len(self.served) < _MOST_REASONS:
                logger.warning(
                    "%s now names the model %s in its responses, before %s",
                    self.name,
                    model_name,
                    next(reversed(self.served)),
                )
            model_name = model_name if len(self.served) < _MOST_REASONS else "others"
        self.served[model_name] += 1
        return model_name

    def log_once(self, topic: str, message: str) -> None:
        """Log a peculiarity of the endpoint once."""
        if topic not in self._logged_topics:
            self._logged_topics.add(topic)
            logger.warning("%s %s", self.name, message)


def parse_response(
    response: RawResponse, habits: Habits, translate: Callable[[JSON], JSON] = lambda body: body
) -> Outcome:
    """Classify an HTTP response.

    Args:
        response: the raw response.
        habits: the endpoint's habits, which are updated.
        translate: translates a body to OpenAI's format, if the API has another one.
    """
    status, data, retry_after, location = response
    if 300 <= status < 400 and location:
        place = location.partition("?")[0]
        base_url = _API_PATH.sub("", place)
        return AttemptFailure(
            FailureKind.REJECTED,
            f"it redirects to {place}; if that is meant, set its URL to {base_url}",
            status,
        )
    if not 200 <= status < 300:
        return _http_failure(status, data, retry_after)
    try:
        body = translate(wire.loads(data, long_integers=True))
    except NotACompletion as error:
        refused = _quote_error(error, data)
        return AttemptFailure(FailureKind.REJECTED, refused, status, is_account=True)
    except ValueError:
        excerpt = wire.excerpt(data)
        return AttemptFailure(FailureKind.BROKEN, f"the body is not JSON ({excerpt})", status)
    return read_plain(body, habits) or read_body(body, response, habits)


_OF_BODY = ("error", "prompt_token_ids")
_OF_CHOICE = ("error", "logprobs", "token_ids", KEPT_TOKENS)
_OF_MESSAGE = ("reasoning_content", "reasoning", "refusal", "tool_calls", "function_call")
_ABSENT = [None] * len((*_OF_BODY, *_OF_CHOICE))


def read_plain(body: JSON, habits: Habits) -> ChatSuccess | None:
    """Read the most common kind of body, in half the time of `read_body`.

    Returns:
        The only choice, if it is a text with the finish reason `stop` and nothing else relevant,
        and the endpoint has sent this reason before; `None` for any other body, from which nothing
        is learned.
    """
    choices = None
    if isinstance(body, dict):
        choices = body.get("choices")
    choice = None
    if isinstance(choices, list) and len(choices) == 1:
        choice = choices[0]
    message = None
    if isinstance(choice, dict):
        message = choice.get("message")
    if not isinstance(body, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    text = message.get("content")
    if (
        not isinstance(text, str)
        or choice.get("finish_reason") != "stop"
        or any(map(message.get, _OF_MESSAGE))
    ):
        return None
    if [*map(body.get, _OF_BODY), *map(choice.get, _OF_CHOICE)] != _ABSENT or len(
        text
    ) > LONGEST_TEXT:
        return None
    if is_blank(text) or not habits.gives_known or "stop" not in habits.reasons:
        return None
    habits.reasons["stop"] += 1
    served = habits.note_served(body)
    return ChatSuccess(
        (Choice(text, None, "stop"),), 1, _token_counts(body.get("usage")), None, served
    )


def read_body(body: JSON, response: RawResponse, habits: Habits) -> Outcome:
    """Read any body; for the arguments see `parse_response`."""
    status, data, retry_after, _ = response
    sent = None
    if isinstance(body, dict):
        sent = body.get("choices")
    if not isinstance(body, dict) or not isinstance(sent, list) or not sent:
        if isinstance(body, dict) and body.get("error"):  # a router's, such as OpenRouter's
            return _body_failure(body["error"], status, retry_after)
        excerpt = wire.excerpt(data)
        return AttemptFailure(FailureKind.BROKEN, f"the body has no choices ({excerpt})", status)
    tokens = _token_counts(body.get("usage"))
    if body.get("error"):
        return replace(_body_failure(body["error"], status), tokens=tokens)
    habits.learn(sent)
    served = habits.note_served(body)
    choices: list[Choice] = []
    faults: list[AttemptFailure] = []
    for raw in sent if len(sent) == 1 else _sort_choices(sent):
        read = _choice(raw, status, habits, tokens.completion_tokens if len(sent) == 1 else 0)
        choices.append(read) if isinstance(read, Choice) else faults.append(read)
    if not choices:
        return replace(habits.refusal or faults[0], tokens=tokens)
    return ChatSuccess(
        tuple(choices), len(sent), tokens, parse_token_ids(body.get("prompt_token_ids")), served
    )


def parse_other_response(response: RawResponse, read: ReadItems | None) -> Outcome:
    """Classify a response outside the chat API: its text, or the choices that `read` finds."""
    status, data, retry_after, _ = response
    if not 200 <= status < 300:
        return _http_failure(status, data, retry_after)
    if read is None:
        return PlainResponse(data.decode("utf-8", "replace"))
    try:
        texts, usage = read(wire.loads(data))
    except NotACompletion as error:
        return AttemptFailure(FailureKind.REJECTED, _quote_error(error, data), status)
    except ValueError:
        excerpt = wire.excerpt(data)
        return AttemptFailure(FailureKind.BROKEN, f"the body is not JSON ({excerpt})", status)
    return ChatSuccess(tuple(map(Choice, texts)), len(texts), _token_counts(usage))


def _quote_error(error: Exception, data: bytes) -> str:
    """Return an error's message with the beginning of the body."""
    quotation = wire.shorten(wire.excerpt(data), 200)
    return f"{error} ({quotation})"


def classify_exception(error: BaseException, timeout_s: float) -> AttemptFailure:
    """Classify an exception of the HTTP client."""
    kind = find_exception_kind(error)
    reason = str(error) or type(error).__name__
    message = f"none ({reason})"
    if isinstance(error, asyncio.TimeoutError) and kind is FailureKind.BROKEN:
        message = f"none within {timeout_s:g} s"
    elif isinstance(error, aiohttp.ClientConnectorSSLError) and _NO_TLS.search(str(error.os_error)):
        message += "; the port answers without TLS: is its URL meant to begin with http://?"
    elif isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror is None:
        name = type(error.os_error).__name__  # a reset within the TLS handshake
        message = f"none ({error}: {name})"
    return AttemptFailure(kind, message)


def find_status_kind(status: int) -> FailureKind:
    """Return the kind of failure of an HTTP status other than 2xx."""
    if status in _BUSY:
        return FailureKind.BUSY
    is_transient = (
        status < 200 or status >= 500 or status in _RETRYABLE
    )  # below 200: an answer that has not come
    if is_transient:
        return FailureKind.BROKEN
    return FailureKind.REJECTED


def find_exception_kind(error: BaseException) -> FailureKind:
    """Return the kind of failure of an exception of the HTTP client.

    Unreachable: nothing accepted the connection. Rejected: an address, a header or a certificate
    for which no retry would help.
    """
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        is_transient = isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if is_transient:
            return FailureKind.BROKEN
        return FailureKind.REJECTED
    if isinstance(error, aiohttp.ConnectionTimeoutError) or isinstance(
        cause, socket.gaierror | ConnectionRefusedError
    ):
        return FailureKind.UNREACHABLE
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, ValueError):
        # The addresses of the host failed for different reasons. A reset, as in a handshake, has no
        # number either.
        several = type(cause) is OSError and cause.errno is None
        if several or error.os_error.errno in _UNREACHABLE_ERRNOS:
            return FailureKind.UNREACHABLE
        return FailureKind.BROKEN
    return FailureKind.REJECTED if isinstance(error, ValueError) else FailureKind.BROKEN  # or a URL


def _http_failure(status: int, data: bytes, retry_after: str | None) -> AttemptFailure:
    """Return the failure of an HTTP error. An account without credit is always rejected."""
    wait_s = retry_after_seconds(retry_after)
    if wait_s is None and status == 429:
        wait_s = parse_wait(data)
    answer = wire.error_text(data)
    if lacks_credit(status, data, wait_s):
        return AttemptFailure(FailureKind.REJECTED, answer, status, is_account=True)
    return AttemptFailure(find_status_kind(status), answer, status, wait_s)


def _sort_choices(sent: Sequence[JSON]) -> Sequence[JSON]:
    """Return choices in the order of their indices, without exact repetitions."""
    mappings = [raw for raw in sent if isinstance(raw, Mapping)]
    indexed = [raw for raw in mappings if type(raw.get("index")) is int]
    if len(indexed) < len(sent):
        return sent
    distinct = [raw for number, raw in enumerate(indexed) if raw not in indexed[:number]]
    return sorted(distinct, key=lambda raw: cast(int, raw["index"]))


def _body_failure(error: JSON, status: int, retry_after: str | None = None) -> AttemptFailure:
    """Return the failure of an error in a body with HTTP 200.

    Its code, if it is an HTTP status, determines the kind.
    """
    fields = mapping_or_empty(error)
    code, message = fields.get("code"), fields.get("message", error)
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    if not isinstance(message, str) or not message:
        message = wire.shorten(str(error))
    description = f"it reports an error: {message}"
    is_status = type(code) is int and 400 <= code < 600
    status_of_error = code if type(code) is int and is_status else 429
    refused = _http_failure(status_of_error, wire.dumps({"error": error}), retry_after)
    if not is_status and not refused.is_account:
        return AttemptFailure(
            FailureKind.BROKEN, description, status, retry_after_seconds(retry_after)
        )
    return replace(
        refused, answer=description, status=status, is_account=refused.is_account or code == 402
    )


def _choice(raw: JSON, status: int, habits: Habits, token_count: int) -> Choice | AttemptFailure:
    """Parse one choice, if it is usable.

    `token_count` is its number of tokens, or 0 if that is unknown.
    """
    try:
        read = choice_from_json(raw, token_count=token_count)
    except NotACompletion as error:
        return AttemptFailure(FailureKind.BROKEN, str(error), status)
    assert isinstance(raw, dict)  # or it had not been read
    if raw.get("error"):
        reported = _body_failure(
            raw["error"], status
        )  # the request was accepted: a retry may mend whatever came then
        return replace(
            reported,
            kind=FailureKind.BUSY if reported.kind is FailureKind.BUSY else FailureKind.BROKEN,
        )
    if read.finish_reason is None:
        if (
            habits.gives_reasons or habits.without_reason <= _ANSWERS_IN_DOUBT
        ):  # it may give reasons
            return AttemptFailure(
                FailureKind.BROKEN, "the answer broke off: it has no finish_reason", status
            )
        habits.log_once("none", "gives no finish_reason: its answers are taken to be whole")
    message = raw.get("message")
    calls_tools = isinstance(message, dict) and bool(
        message.get("tool_calls") or message.get("function_call")
    )
    usable = check_choice(read, habits.rules, calls_tools=calls_tools)
    if isinstance(usable, str):
        return AttemptFailure(FailureKind.BROKEN, usable, status)
    if usable.state == "whole" and (
        calls_tools or habits.rules.state(usable.finish_reason or "") == "tool_calls"
    ):
        habits.log_once(
            "tools", "calls tools, which nobody runs here: of such an answer the text is taken"
        )
    if (
        usable.token_ids is not None
        and len(usable.token_ids) < token_count
        and "token_ids" not in raw
    ):
        habits.log_once("gaps", _GAPS)
    return usable


def check_choice(choice: Choice, rules: FinishRules, *, calls_tools: bool = False) -> Choice | str:
    """Return the choice with a normalized finish reason, or why it is unusable."""
    state = "whole"
    if choice.finish_reason is not None:
        state = rules.state(choice.finish_reason)
    if max(len(choice.text), len(choice.reasoning or ""), len(choice.refusal or "")) > LONGEST_TEXT:
        return f"a text of more than {LONGEST_TEXT} characters"
    if state == "broken_off":
        return f"the response broke off: finish_reason {choice.finish_reason!r}"
    if state == "unknown":
        return (
            f"the response ends with the finish_reason {choice.finish_reason!r}, which is not "
            f"known to mean a complete response (--{rules.setting} accepts it)"
        )
    if choice.refusal is not None:
        return replace(choice, finish_reason="refusal")
    if state == "refused":
        word = normalize_reason(choice.finish_reason or "")
        return replace(choice, finish_reason="refusal" if word == "refusal" else "content_filter")
    if state == "cut_off":  # also without text: the reasoning, shown or not, took all the tokens
        return replace(choice, finish_reason=CUT_OFF)
    calls_tools = calls_tools or state == "tool_calls"
    if not is_blank(choice.text):
        if rules.takes_tool_calls or not calls_tools:
            return choice
        return "the answer ends in tool calls, not in a text"
    if calls_tools:
        return "no text, only tool calls"
    if choice.reasoning:
        return "no text, only reasoning"
    return "empty content"


def _token_counts(value: JSON) -> Usage:
    usage = mapping_or_empty(value)
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    details = mapping_or_empty(usage.get("prompt_tokens_details"))
    cached = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    written = details.get("cache_write_tokens") or details.get(
        "cache_creation_tokens"
    )  # by OpenRouter; by litellm
    read = min(prompt, _count(cached))
    return Usage(prompt, completion, 0.0, read, min(prompt - read, _count(written)))


def _count(value: JSON) -> int:
    """Return a number of tokens; 0 for impossible values."""
    if type(value) is int and 0 < value <= _MOST_TOKENS:
        return value
    return 0
