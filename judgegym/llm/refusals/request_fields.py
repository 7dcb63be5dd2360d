"""Request fields that an endpoint may refuse, and how each is replaced; learned once per model.

OpenAI names the refused field in `error.param`, gateways and other servers only in the message. A
field with its default value would be refused, too, so it is left out rather than changed. The keys
of ledger, cache and batches are computed from the unmodified request; it is changed only when it is
sent.

Guarantees: a request is sent again without a refused field, once for each field. What is learned
applies to all clients of the model in this process, and is logged once. If the endpoint has
accepted a field before, a refusal of it changes only the refused request. Field names in quotations
of the request's messages are ignored. If the same message comes again without a field, the field
was not the reason, and later requests have it again.

The first request to a model is sent ahead of the others, so that each refused field costs only one
request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judgegym.llm import wire
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.refusals.response_format import RESPONSE_FORMAT, FormatHabits
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.llm.ledger import RequestRecord
    from judgegym.llm.types import Endpoint

logger = logging.getLogger(__name__)

HEAD_START_S = 10.0
"""The longest head start of a model's first request, in seconds."""
_LONGEST_MESSAGE = 200
"""The longest message of an endpoint in a log, in characters."""

_NAMING = frozenset({200, 400, 422})
"""Statuses of errors that may name a field; some servers send errors with status 200."""
_REFUSING = _NAMING | {403, 404, 501}
"""Statuses of errors that refuse the field they name."""
_REFUSES = re.compile(
    r"unsupported|not (?:currently |yet "
    r")?(?:support|permit|allow|enable|available|valid|accept|compatible)"
    r"|(?:n't|cannot|can not|can't) (?:both )?(?:be "
    r")?(?:support|accept|allow|take|specif|set|used)|incompatible"
    r"|unrecogni[sz]ed|unknown|unexpected|extra[_ ](?:forbidden|input|field)|deprecated|only the "
    r"default"
    r"|only [\w.=()]+ (?:value )?is (?:allowed|supported|accepted)|no longer|max_completion_tokens"
    r"|must be (?:1\b|unset|none|null|omitted|left out)"
    r"|不支[持援]|サポートされて|nicht unterstützt|pas (?:pris en charge|support)"
    r"|no (?:es )?(?:compatible|admite|soporta)|não (?:é )?(?:suport|compat)|не поддержив",
    re.IGNORECASE,
)
"""Words of refusal, such as "top_k is not supported", "unknown field", "only the default (1)"."""
_OF_VALUE = re.compile(
    r"must be (?:<|>|in\b|at (?:least|most)|between|non-?negative|positive|greater|less|an? "
    r")|\bbetween\b|out of range"
    r"|too (?:large|high|small|low|long|many)|at most|maximum|minimum|exceed|context length",
    re.IGNORECASE,
)
"""Words about a value, such as "must be less than 2"; the endpoint accepts the field itself."""
_PARAM = re.compile(r"^param ([^:]+): ")
"""The prefix that `wire.error_text` adds."""
_NOT_BOTH = re.compile(r"\bboth\b|only one", re.IGNORECASE)
"""Words about two fields of which one may be sent: "temperature and top_p cannot both be set"."""
_STREAM_ONLY = re.compile(
    r"only supports? stream|must be (?:called |used )?(?:in |with )?stream|stream\W+(?:must|has "
    r"to|needs to|should) be"
    r"|non-?stream\w*[^.]*(?:not|n't|un)[ -]?(?:support|allow|available|permit)|(?:enable|set) "
    r"(?:the )?\W?stream"
    r"|stream(?:ing)? (?:is required|only)|requires? stream|^param stream: ",
    re.IGNORECASE,
)
"""Words of an endpoint that requires streaming, such as "this model only supports streaming"."""

_LISTED = re.compile(
    r"(?:expected|must be|should be) one of|(?:allowed|valid|supported) \w+ are", re.IGNORECASE
)
"""Words that introduce a list of the accepted fields."""
_QUOTED_WORDS = 4
"""This many consecutive words that also stand in the request are a quotation of it."""

SYSTEM = "system"
Body = dict[str, JSON]


def _has_system(body: Mapping[str, JSON]) -> bool:
    messages = body.get("messages")
    return isinstance(messages, Sequence) and any(
        wire.mapping_or_empty(message).get("role") == SYSTEM for message in messages
    )


def _join_system(body: Body) -> None:
    """Put the texts of system messages before the first message of the user."""
    messages = body["messages"]
    assert isinstance(messages, list)
    parts = [wire.mapping_or_empty(message) for message in messages]
    texts = [str(part["content"]) for part in parts if part["role"] == SYSTEM]
    others = [turn for turn in parts if turn["role"] != SYSTEM]
    index = next((number for number, entry in enumerate(others) if entry["role"] == "user"), None)
    if index is None:
        body["messages"] = [{"role": "user", "content": "\n\n".join(texts)}, *others]
        return
    content = others[index]["content"]
    if isinstance(content, list):
        joined: JSON = [{"type": "text", "text": "\n\n".join([*texts, ""])}, *content]
    else:
        joined = "\n\n".join([*texts, str(content)])
    others[index] = {**others[index], "content": joined}
    body["messages"] = [*others]


def _rename_limit(body: Body) -> None:
    body.setdefault("max_completion_tokens", body.pop("max_tokens"))


@dataclass(frozen=True, slots=True)
class RequestField:
    """A field that an endpoint may refuse.

    Attributes:
        name: its name in the request; `system` for the system message.
        becomes: how it is replaced, for messages and `metrics.json`.
        change: changes a request with the field; `None` if the caller of the client must do so, or
            end the run.
        words: matches its name in a message.
        says_refused: whether these words alone mean a refusal.
        may_be_guessed: whether a message that names it may be a refusal without any word of
            refusal.
    """

    name: str
    becomes: str
    change: Callable[[Body], object] | None
    words: re.Pattern[str]
    says_refused: bool = False
    may_be_guessed: bool = False

    def is_in(self, body: Mapping[str, JSON]) -> bool:
        """Return whether a request has the field."""
        if self.name == SYSTEM:
            return _has_system(body)
        return self.name in body

    def is_param(self, param: str) -> bool:
        """Return whether `error.param` names the field."""
        last = re.split(r"[.\[\]'\" ]+", param.strip("[]'\" "))[-1]
        if self.name == SYSTEM:
            return last == "role"
        return _name_pattern(self.name).fullmatch(last) is not None


def _name_pattern(name: str) -> re.Pattern[str]:
    spelled = name.replace("_", "_?")  # also `topP`, as some gateways have it
    return re.compile(rf"\b{spelled}\b", re.IGNORECASE)


def _omitted_field(name: str) -> RequestField:
    return RequestField(
        name, "left out", lambda body: body.pop(name), _name_pattern(name), may_be_guessed=True
    )


_OMITTED = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed")
FIELDS: Mapping[str, RequestField] = {
    request_field.name: request_field
    for request_field in (
        *map(_omitted_field, _OMITTED),
        RequestField(
            "max_tokens",
            "sent as max_completion_tokens",
            _rename_limit,
            _name_pattern("max_tokens"),
        ),
        RequestField(
            SYSTEM,
            "put before the first message of the user",
            _join_system,
            re.compile(
                r"system[\s_-]*(?:role|message|prompt|instruction)s?\W.*?(?:not|n't|un|disabled)"
                r"|only user\W.*roles|(?:support|支持)\W+(?:a )?system|developer instruction"
                r"|roles must alternate|'system' (?:is|role)",
                re.IGNORECASE | re.DOTALL,
            ),
            says_refused=True,
        ),
        RequestField(
            "n",
            "split into single requests",
            None,
            re.compile(r"['\"`]n['\"`]|\bn (?:>|!=|=|is|must)"),
        ),
        RequestField(
            RESPONSE_FORMAT, "replaced by a form in words", None, _name_pattern("response_format")
        ),
        RequestField(
            "logprobs", "needed, so the run ends", None, _name_pattern("(?:top_)?logprobs")
        ),
        # Left out by the rollouts, which then take their tokens from elsewhere.
        RequestField("return_token_ids", "left out", None, _name_pattern("return_token_ids")),
    )
}
"""The fields by name. If a message names two of which only one is allowed, the later is refused."""


def find_refused_fields(
    status: int | None, message: str, names: Collection[str]
) -> tuple[Sequence[RequestField], bool]:
    """Return the fields that an error refuses.

    Args:
        status: the error's HTTP status.
        message: the error's message.
        names: the fields of `FIELDS` in the request.

    Returns:
        The fields, and whether the message says that they are refused; otherwise it only names
        them.
    """
    sent = [FIELDS[name] for name in FIELDS if name in names]
    is_refusal = _REFUSES.search(message) is not None
    is_value = _OF_VALUE.search(message) is not None
    if status not in _REFUSING or (status not in _NAMING and not is_refusal):
        return (), False
    if (match := _PARAM.search(message)) is not None:
        by_param = [request_field for request_field in sent if request_field.is_param(match[1])]
        if by_param:
            if is_refusal or not is_value:
                return (by_param, True)
            return ((), False)
    named = [request_field for request_field in sent if request_field.words.search(message)]
    refused = named
    if not is_refusal:
        refused = [request_field for request_field in named if request_field.says_refused]
    is_sure = bool(refused)
    if not refused and not is_value:
        refused = [request_field for request_field in named if request_field.may_be_guessed]
    if _NOT_BOTH.search(message):
        return refused[-1:], is_sure
    return refused, is_sure


def strip_quotations(message: str, body: Mapping[str, JSON]) -> str:
    """Remove quotations of the request from an error's message.

    A list of allowed values is removed, too, with everything after it.
    """
    message = _LISTED.split(message)[0]
    request_words = [
        word.lower() for word in re.findall(r"\w+", wire.dumps(body.get("messages")).decode())
    ]
    request_runs = set(
        zip(*(request_words[place:] for place in range(_QUOTED_WORDS)), strict=False)
    )
    words = list(re.finditer(r"\w+", message))
    quoted = set[int]()
    for first in range(len(words) - _QUOTED_WORDS + 1):
        run = range(first, first + _QUOTED_WORDS)
        if tuple(words[place][0].lower() for place in run) in request_runs:
            quoted.update(run)
    for place in sorted(quoted, reverse=True):
        message = message[: words[place].start()] + message[words[place].end() :]
    return message


def refuses(error: EndpointError, name: str) -> bool:
    """Return whether an error refuses this field of the request."""
    return error.kind is FailureKind.REJECTED and bool(
        find_refused_fields(error.status, error.answer, (name,))[0]
    )


def only_streams(error: EndpointError) -> bool:
    """Return whether an error says that the endpoint answers only with streaming."""
    return (
        error.kind is FailureKind.REJECTED
        and error.status in _NAMING
        and bool(_STREAM_ONLY.search(error.answer))
    )


class HeadStart:
    """Sends a model's first request ahead; the others wait for its response or `HEAD_START_S`.

    If it fails, the next request goes ahead. The waiting requests may be on several event loops.

    Attributes:
        is_over: whether requests no longer wait.
    """

    def __init__(self) -> None:
        """Start without requests."""
        self.is_over = False
        self._until: float | None = None
        self._is_taken = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._lock = threading.Lock()

    async def begin(self) -> bool:
        """Wait, unless this is the first request; return whether to go ahead (then call `end`)."""
        loop = asyncio.get_running_loop()
        while not self.is_over:
            with self._lock:
                now = time.monotonic()
                if self._until is None:
                    self._until = now + HEAD_START_S
                left = self._until - now
                if left <= 0:
                    break
                if not self._is_taken:
                    self._is_taken = True
                    return True
                turn = loop.create_future()
                self._waiting.append((loop, turn))
            await asyncio.wait((turn,), timeout=left)
        self.is_over = True
        return False

    def end(self, *, is_over: bool) -> None:
        """Let the next request go ahead, or all of them."""
        with self._lock:
            self._is_taken = False
            self.is_over |= is_over
            waiting, self._waiting = self._waiting, []
        for loop, turn in waiting:
            with suppress(RuntimeError):  # its event loop has been closed
                loop.call_soon_threadsafe(_resolve, turn)


def _resolve(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


@dataclass(slots=True)
class FieldRefusal:
    """A refused field.

    Attributes:
        error: the refusal.
        is_sure: whether its message says so.
        is_confirmed: whether a request without the field was answered.
    """

    error: EndpointError
    is_sure: bool
    is_confirmed: bool = False


@dataclass(slots=True)
class FieldHabits:
    """The fields that a model's endpoint accepts, as far as is known.

    Attributes:
        accepted: the fields of answered requests.
        refused: the refused fields, by name.
        formats: what is known about response formats.
        head_start: the head start of the first request.
    """

    accepted: set[str] = field(default_factory=set)
    refused: dict[str, FieldRefusal] = field(default_factory=dict)
    formats: FormatHabits = field(default_factory=FormatHabits)
    head_start: HeadStart = field(default_factory=HeadStart)

    def adapt_body(self, body: Body, call: RequestRecord) -> Body:
        """Return the body without refused fields; the call notes what was changed."""
        names = [*self.refused, *(name for name in call.dropped if name not in self.refused)]
        present = [FIELDS[name] for name in names if FIELDS[name].is_in(body)]
        changes = [request_field for request_field in present if request_field.change is not None]
        call.changed = tuple(request_field.name for request_field in changes)
        if not changes:
            return body
        sent = {**body}
        for request_field in changes:
            assert request_field.change is not None
            request_field.change(sent)
        return sent

    def earlier_refusal(self, body: Mapping[str, JSON]) -> EndpointError | None:
        """Return an earlier refusal of a field that the caller itself must leave out."""
        for name, refusal in self.refused.items():
            if FIELDS[name].change is None and name in body:
                return refusal.error.make_shared_error()
        return None

    def learn(self, error: EndpointError, call: RequestRecord) -> bool:
        """Learn from a rejected request; return whether to retry without the refused fields."""
        body = call.body or {}
        unchanged = [name for name in FIELDS if name not in call.changed]
        names = [name for name in unchanged if FIELDS[name].is_in(body)]
        refused_fields, is_sure = find_refused_fields(
            error.status, strip_quotations(error.answer, body), names
        )
        for request_field in refused_fields:
            if request_field.name not in self.accepted:
                self.note(request_field.name, error, is_sure=is_sure)
        mended = {
            request_field.name
            for request_field in refused_fields
            if request_field.change is not None
        }
        call.dropped.update(dict.fromkeys(mended, error.make_shared_error()))
        if not refused_fields:
            self.forget(call.dropped, error.answer)
        return bool(mended)

    def note(self, name: str, error: EndpointError, *, is_sure: bool) -> None:
        """Note that a field was refused."""
        self.refused.setdefault(name, FieldRefusal(error.make_shared_error(), is_sure))

    def forget(self, names: Collection[str], message: str = "") -> None:
        """Send fields again whose removal did not change the rejection."""
        for name in names:
            refusal = self.refused.get(name)
            if refusal is None or refusal.is_confirmed:
                continue
            if not refusal.is_sure or refusal.error.answer == message:
                del self.refused[name]

    def note_response(self, call: RequestRecord, endpoint: Endpoint) -> None:
        """Note a response to a request; log newly confirmed refusals."""
        if not self.head_start.is_over:
            self.head_start.end(is_over=True)
        body = call.body or {}
        untried = [name for name in FIELDS if name not in {*self.accepted, *call.changed}]
        self.accepted.update(name for name in untried if FIELDS[name].is_in(body))
        for name in call.changed:
            self.confirm(name, call.dropped.get(name), endpoint.redacted_url)

    def confirm(self, name: str, error: EndpointError | None, url: str) -> None:
        """Note that a request without the field was answered; log it, if it is new."""
        if name not in self.refused and error is not None:
            self.note(name, error, is_sure=True)
        refusal = self.refused.get(name)
        if refusal is None or refusal.is_confirmed:
            return
        refusal.is_confirmed = True
        logger.warning("%s", _describe_refusal(name, refusal, url))

    def describe_refusals(self, names: Collection[str], url: str) -> list[str]:
        """Describe how refused fields were replaced in requests to the endpoint at this URL."""
        return [
            _describe_refusal(name, self.refused[name], url)
            for name in sorted(names)
            if name in self.refused
        ]


def _describe_refusal(name: str, refusal: FieldRefusal, url: str) -> str:
    status = ""
    if refusal.error.status is not None:
        status = f"HTTP {refusal.error.status}: "
    message = wire.shorten(refusal.error.answer, _LONGEST_MESSAGE)
    noun = "system message" if name == SYSTEM else name
    return f"{url} takes no {noun}: it is {FIELDS[name].becomes} ({status}{message})"


_HABITS: dict[tuple[object, ...], FieldHabits] = {}
_LOCK = threading.Lock()


def get_habits(endpoints: Sequence[Endpoint]) -> FieldHabits:
    """Return what is known of a model at its endpoints; all clients of the process share it."""
    key = tuple((endpoint.api, endpoint.base_url, endpoint.model) for endpoint in endpoints)
    with _LOCK:
        return _HABITS.setdefault(key, FieldHabits())


def forget_all() -> None:
    """Forget everything about all endpoints, as in a new process."""
    with _LOCK:
        _HABITS.clear()
