"""What an endpoint's answer is worth: the one place that decides, for judge and policy alike.

An attempt ends `ChatSuccess`, with the choices that may be used, or `AttemptFailure`, with a `FailureKind`. A choice
that may be used is whole, cut off by the length limit or refused (`Choice.state`); `judgegym.llm.completion` has the
words for that. All others are unusable: those that carry an error, broke off, end with a word that nobody knows, have
no finish reason though the endpoint otherwise gives one (or has hardly answered yet), end in tool calls that a judge
makes, or hold no text (empty, tool calls alone, reasoning alone). An answer of nothing but unusable choices is a failed
attempt; of an endpoint that ends all its answers with one unknown word it is the last one.

Guarantees: whatever an endpoint sends, one of the two comes out and nothing is raised; counts, pauses and texts that no
endpoint can mean are absent or unusable.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, cast

import aiohttp

from judgegym.llm import completion, wire
from judgegym.llm.completion import KNOWN_WORDS_ALONE, FinishRules, NotACompletion, normalized
from judgegym.llm.errors import FailureKind
from judgegym.llm.retry import retry_after_seconds
from judgegym.llm.wire import CUT_OFF, JSON, Choice, is_blank

logger = logging.getLogger(__name__)

LONGEST_TEXT = 8_000_000
"""Characters of a choice's text or reasoning; a longer one is unusable. A model writes a million tokens at most."""
_MOST_TOKENS = 10**9

_ANSWERS_IN_DOUBT = 2
"""An endpoint whose first answers have no finish reason is asked again so often; then it is taken to give none at all.
At the start of a run, an answer that broke off would otherwise be believed."""

_UNKNOWN_IN_A_ROW = 3
"""An endpoint that ends so many answers with the same unknown word, and none with a known one, ends all with it."""
_MOST_REASONS = 100
"""Different finish reasons of an endpoint that are counted by name."""
_NO_REASON = "(none)"

_GAPS = (
    "gives no ids of some tokens, such as those within a character that takes several: of such an answer, the tokens "
    "up to the first that may be missing are known and trained on"
)

_BUSY = frozenset({429, 503, 529})  # 529: Anthropic's "overloaded"
_RETRYABLE = frozenset({408, 409, 425, 499})
"""Too early, and nginx's "client closed request" of a proxy in between, pass as a time-out does."""
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|UNKNOWN_PROTOCOL")
_API_PATH = re.compile(r"/chat/completions/?$")
_NOBODY_THERE = frozenset(
    {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT}
)


class TokenCounts(NamedTuple):
    """Tokens as the endpoint counted them; 0 where it did not, or not with a number that can be meant.

    Attributes:
        prompt: tokens sent.
        completion: tokens received.
        cached: those of `prompt` that were in its prefix cache.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class ChatSuccess(NamedTuple):
    """An answer with at least one choice that may be used.

    Attributes:
        choices: those that may be used, in the order of the answer.
        received: how many choices the answer had, the unusable ones too.
        tokens: what it cost.
        prompt_token_ids: the prompt's tokens, if requested and returned.
    """

    choices: tuple[Choice, ...]
    received: int
    tokens: TokenCounts = TokenCounts()
    prompt_token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """A failed attempt.

    Attributes:
        kind: why; it says whether another attempt may succeed.
        answer: what the endpoint said, or what was wrong with it; it may repeat the API key.
        status: the HTTP status, if there was an answer.
        retry_after: seconds that the endpoint asked to wait.
        tokens: what it cost all the same; `None` if there was no chat completion.
    """

    kind: FailureKind
    answer: str
    status: int | None = None
    retry_after: float | None = None
    tokens: TokenCounts | None = None


class PlainResponse(NamedTuple):
    """An answer that is no chat completion, to a request beside the API (`ChatClient.beside`)."""

    body: JSON
    tokens: None = None


Outcome: TypeAlias = ChatSuccess | PlainResponse | AttemptFailure


@dataclass(slots=True)
class Habits:
    """What an endpoint usually does, learnt from its answers.

    Attributes:
        name: the endpoint, for messages.
        rules: which of its answers are whole.
        gives_reasons: it has given a finish reason, so a choice without one broke off.
        without_reason: its answers so far in which no choice had one.
        gives_known: it has given a finish reason that is known.
        unknown: the unknown one of its last answer, normalized.
        unknown_in_a_row: its last answers that ended with that.
        reasons: how many of its choices ended with each finish reason, normalized; `(none)` without one.
    """

    name: str
    rules: FinishRules = KNOWN_WORDS_ALONE
    gives_reasons: bool = False
    without_reason: int = 0
    gives_known: bool = False
    unknown: str = ""
    unknown_in_a_row: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    _said: set[str] = field(default_factory=set)

    @property
    def may_give_reasons(self) -> bool:
        """Whether it gives reasons, or has answered too seldom to say that it never does."""
        return self.gives_reasons or self.without_reason <= _ANSWERS_IN_DOUBT

    @property
    def refusal(self) -> AttemptFailure | None:
        """Why no answer of the endpoint will be usable, if all end with one unknown word."""
        if self.gives_known or self.unknown_in_a_row < _UNKNOWN_IN_A_ROW:
            return None
        return AttemptFailure(
            FailureKind.REJECTED,
            f"its answers end with the finish_reason {self.unknown!r}, which is not known to mean a whole answer; if "
            f"it does, accept it with --{self.rules.setting}={self.unknown}",
            200,
        )

    def learn(self, sent: Sequence[JSON]) -> None:
        """Note the finish reasons of an answer's choices."""
        given = [raw.get("finish_reason") for raw in sent if isinstance(raw, dict)]
        words = [normalized(reason[: completion.LONGEST_REASON]) for reason in given if isinstance(reason, str)]
        found = list(filter(None, words))
        for word in (*found, *[_NO_REASON] * (len(sent) - len(found))):
            self.reasons[word if word in self.reasons or len(self.reasons) < _MOST_REASONS else "others"] += 1
        if not self.gives_reasons:
            self._learn_whether_given(bool(found))
        if self.gives_known or not found:
            return
        self.gives_known = any(self.rules.state(word) != "unknown" for word in found)
        self.unknown_in_a_row = self.unknown_in_a_row + 1 if {self.unknown} == set(found) else 1
        self.unknown = found[0]

    def _learn_whether_given(self, is_given: bool) -> None:
        if not is_given:
            self.without_reason += 1
            return
        if self.without_reason > _ANSWERS_IN_DOUBT:
            taken = self.without_reason - _ANSWERS_IN_DOUBT
            self.say_once("late", f"gives a finish_reason now; {taken} answers without one were taken to be whole")
        self.gives_reasons = True

    def say_once(self, topic: str, what: str) -> None:
        """Log a peculiarity of the endpoint, the first time that it is met."""
        if topic not in self._said:
            self._said.add(topic)
            logger.warning("%s %s", self.name, what)


def of_answer(
    status: int, data: bytes, retry_after: str | None, habits: Habits, *, location: str | None = None
) -> Outcome:
    """The outcome of an HTTP answer.

    Args:
        status: the HTTP status.
        data: the body.
        retry_after: the header `Retry-After`.
        habits: of the endpoint; updated.
        location: the header `Location`.
    """
    if 300 <= status < 400 and location:
        place = location.partition("?")[0]
        meant = _API_PATH.sub("", place)
        return AttemptFailure(
            FailureKind.REJECTED, f"it redirects to {place}; if that is meant, set its URL to {meant}", status
        )
    if not 200 <= status < 300:
        return AttemptFailure(kind_of_status(status), wire.error_text(data), status, retry_after_seconds(retry_after))
    try:
        body = wire.loads(data, long_integers=True)
    except ValueError:
        return AttemptFailure(FailureKind.BROKEN, f"the body is not JSON ({wire.excerpt(data)})", status)
    sent = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(sent, list) or not sent:
        return _without_choices(body, data, status, retry_after_seconds(retry_after))
    tokens = _token_counts(body.get("usage"))
    if body.get("error"):
        return replace(_reported(body["error"], status), tokens=tokens)
    habits.learn(sent)
    choices: list[Choice] = []
    faults: list[AttemptFailure] = []
    for raw in sent if len(sent) == 1 else _in_order(sent):
        read = _choice(raw, status, habits, tokens.completion if len(sent) == 1 else 0)
        choices.append(read) if isinstance(read, Choice) else faults.append(read)
    if not choices:
        return replace(habits.refusal or faults[0], tokens=tokens)
    prompt_ids = body.get("prompt_token_ids")
    return ChatSuccess(
        tuple(choices), len(sent), tokens, None if prompt_ids is None else completion.token_ids(prompt_ids)
    )


def of_other_answer(status: int, data: bytes, retry_after: str | None) -> PlainResponse | AttemptFailure:
    """The outcome of an HTTP answer to a request beside the API; one that is not JSON would be so again."""
    if not 200 <= status < 300:
        return AttemptFailure(kind_of_status(status), wire.error_text(data), status, retry_after_seconds(retry_after))
    try:
        return PlainResponse(wire.loads(data))
    except ValueError:
        return AttemptFailure(FailureKind.REJECTED, f"the body is not JSON ({wire.excerpt(data)})", status)


def of_exception(error: BaseException, timeout_s: float) -> AttemptFailure:
    """The outcome of an attempt that the HTTP client gave up with an exception."""
    kind = kind_of_exception(error)
    if isinstance(error, asyncio.TimeoutError) and kind is FailureKind.BROKEN:
        return AttemptFailure(kind, f"none within {timeout_s:g} s")
    if isinstance(error, aiohttp.ClientConnectorSSLError) and _NO_TLS.search(str(error.os_error)):
        return AttemptFailure(
            kind, f"none ({error}); the port answers without TLS: is its URL meant to begin with http://?"
        )
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror is None:
        return AttemptFailure(
            kind, f"none ({error}: {type(error.os_error).__name__})"
        )  # a reset within the TLS handshake
    return AttemptFailure(kind, f"none ({error or type(error).__name__})")


def kind_of_status(status: int) -> FailureKind:
    """The kind of failure of an HTTP status other than 2xx."""
    if status in _BUSY:
        return FailureKind.BUSY
    is_transient = status < 200 or status >= 500 or status in _RETRYABLE  # below 200: an answer that has not come
    return FailureKind.BROKEN if is_transient else FailureKind.REJECTED


def kind_of_exception(error: BaseException) -> FailureKind:
    """The kind of failure of an exception of the HTTP client.

    Away: nobody accepted the connection. Rejected: an address, a header or a certificate that no retry would mend.
    """
    if isinstance(error, aiohttp.InvalidURL | aiohttp.ClientConnectorCertificateError):
        return FailureKind.REJECTED
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        transient = isinstance(error.os_error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        return FailureKind.BROKEN if transient else FailureKind.REJECTED
    if isinstance(error, aiohttp.ConnectionTimeoutError | socket.gaierror):
        return FailureKind.AWAY
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, socket.gaierror):
            return FailureKind.AWAY
        reason = error.os_error.errno
        # The addresses of the host failed for different reasons. A reset, as in a handshake, has no number either.
        several = type(error.os_error) is OSError and reason is None
        return FailureKind.AWAY if several or reason in _NOBODY_THERE else FailureKind.BROKEN
    if isinstance(error, ConnectionRefusedError):
        return FailureKind.AWAY
    return FailureKind.REJECTED if isinstance(error, ValueError) else FailureKind.BROKEN


def is_usable(choice: Choice, rules: FinishRules) -> bool:
    """Whether a choice that was kept from an earlier answer may be used, as if an endpoint had just sent it."""
    return not isinstance(checked(choice, rules), str)


def _in_order(sent: Sequence[JSON]) -> Sequence[JSON]:
    """Several choices in the order of their indices; one that repeats another, index and all, is left out."""
    indexed = [raw for raw in sent if isinstance(raw, Mapping) and type(raw.get("index")) is int]
    if len(indexed) < len(sent):
        return sent
    distinct = [raw for number, raw in enumerate(indexed) if raw not in indexed[:number]]
    return sorted(distinct, key=lambda raw: cast(int, raw["index"]))


def _without_choices(body: JSON, data: bytes, status: int, retry_after: float | None) -> AttemptFailure:
    """HTTP 200 without choices: the error that the body reports, such as a router's, or a body of another shape."""
    if isinstance(body, Mapping) and body.get("error"):
        return replace(_reported(body["error"], status), retry_after=retry_after)
    return AttemptFailure(FailureKind.BROKEN, f"the body has no choices ({wire.excerpt(data)})", status)


def _reported(error: JSON, status: int) -> AttemptFailure:
    """An error in a body with HTTP 200. Its code, if it is an HTTP status, says of which kind it is."""
    code = error.get("code") if isinstance(error, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    number = int(code) if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3 else code
    is_status = isinstance(number, int) and not isinstance(number, bool) and 400 <= number < 600
    kind = kind_of_status(number) if is_status and isinstance(number, int) else FailureKind.BROKEN
    said = message if isinstance(message, str) and message else wire.shorten(str(error))
    return AttemptFailure(kind, f"it reports an error: {said}", status)


def _choice(raw: JSON, status: int, habits: Habits, token_count: int) -> Choice | AttemptFailure:
    """One choice of an answer, if it may be used; `token_count` is how many tokens it has, or 0 if that is unknown."""
    try:
        read = completion.choice_from_json(raw, token_count=token_count)
    except NotACompletion as error:
        return AttemptFailure(FailureKind.BROKEN, str(error), status)
    assert isinstance(raw, dict)  # or it had not been read
    if raw.get("error"):
        reported = _reported(raw["error"], status)  # the request was accepted: a retry may mend whatever came then
        return replace(reported, kind=FailureKind.BUSY if reported.kind is FailureKind.BUSY else FailureKind.BROKEN)
    if read.finish_reason is None:
        if habits.may_give_reasons:
            return AttemptFailure(FailureKind.BROKEN, "the answer broke off: it has no finish_reason", status)
        habits.say_once("none", "gives no finish_reason: its answers are taken to be whole")
    message = raw.get("message")
    calls_tools = isinstance(message, dict) and bool(message.get("tool_calls") or message.get("function_call"))
    usable = checked(read, habits.rules, calls_tools=calls_tools)
    if isinstance(usable, str):
        return AttemptFailure(FailureKind.BROKEN, usable, status)
    if usable.state == "whole" and (calls_tools or habits.rules.is_tool_call(usable.finish_reason)):
        habits.say_once("tools", "calls tools, which nobody runs here: of such an answer the text is taken")
    if usable.token_ids is not None and len(usable.token_ids) < token_count and "token_ids" not in raw:
        habits.say_once("gaps", _GAPS)
    return usable


def checked(choice: Choice, rules: FinishRules, *, calls_tools: bool = False) -> Choice | str:
    """The choice with its finish reason in the words of `Choice.state`, or why it may not be used."""
    state = "whole" if choice.finish_reason is None else rules.state(choice.finish_reason)
    if max(len(choice.text), len(choice.reasoning or ""), len(choice.refusal or "")) > LONGEST_TEXT:
        return f"a text of more than {LONGEST_TEXT} characters"
    if state == "broken_off":
        return f"the answer broke off: finish_reason {choice.finish_reason!r}"
    if state == "unknown":
        return (
            f"the answer ends with the finish_reason {choice.finish_reason!r}, which is not known to mean a whole "
            f"answer (--{rules.setting} accepts it)"
        )
    if choice.refusal is not None:
        return replace(choice, finish_reason="refusal")
    if state == "refused":
        word = normalized(choice.finish_reason or "")
        return replace(choice, finish_reason="refusal" if word == "refusal" else "content_filter")
    if state == "cut_off":  # also without text: the reasoning, shown or not, took all the tokens
        return replace(choice, finish_reason=CUT_OFF)
    calls_tools = calls_tools or state == "tool_calls"
    if not is_blank(choice.text):
        return choice if rules.takes_tool_calls or not calls_tools else "the answer ends in tool calls, not in a text"
    if calls_tools:
        return "no text, only tool calls"
    return "no text, only reasoning" if choice.reasoning else "empty content"


def _token_counts(usage: JSON) -> TokenCounts:
    if not isinstance(usage, dict):
        return TokenCounts()
    prompt, details = _count(usage.get("prompt_tokens")), usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    return TokenCounts(prompt, _count(usage.get("completion_tokens")), min(prompt, _count(cached)))


def _count(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS else 0
