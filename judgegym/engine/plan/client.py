"""A client that sends nothing: it counts requests, and replies like the offline stand-in.

Guarantees: the requests are those of the run, since its own judge and policy make them; no endpoint
and no ledger is used, and a judgment cache is only read.

A judge's verdicts affect the number of its calls: votes may end early, critique ends when a verdict
stays, and a cascade escalates if its cheap judge is unsure. Different `Opinion`s replace the
stand-in's, to find the fewest and the most calls.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judgegym.engine.plan.tally import Load, Tally, add_load, classify_role, price_request
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm import wire
from judgegym.llm.at_once import bind_context
from judgegym.llm.cache import CacheRow, JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.budget import Budget
from judgegym.llm.cost.images import count_image_tokens
from judgegym.llm.errors import SettingsError
from judgegym.llm.ledger import RequestRecord, current_component
from judgegym.llm.providers.decisions import QUESTIONS, undecided_answer
from judgegym.llm.responses.choices import choice_from_json
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import count_once
from judgegym.llm.wire import JSON, Choice, Message
from judgegym.offline.answers import BUILT_IN, Opinion, make_answers
from judgegym.offline.request import ChatRequest, make_completion
from judgegym.offline.rewards import make_reward_response

_BEST = 0.999
"""The highest merit; some judges round a higher one beyond their scale."""
_CLASSES = (1, 2, 8, 64, 1024)
"""Possible numbers of classes of a reward model."""
_LONG = 20
"""Replies of at least this many characters are recognized in later prompts."""


_CRITIQUE, _NUMBER = re.compile(r"critique_(\d+)_?"), re.compile(r"\d+\Z")
"""The beginning of a self-critique call's name; and the number at the end of a name."""
_TURN: ContextVar[int] = ContextVar("turn", default=0)
"""The number of the vote, game or order, plus the round of critique; it varies equal calls."""
_SHOWN: ContextVar[dict[str, float]] = ContextVar("replies shown")
"""The replies to a row's calls, with the tokens by which the assumed length exceeds theirs."""


def prefer_first(titles: Sequence[str]) -> Mapping[str, float]:
    """Rate the first text best, in every vote and round."""
    return {title: _BEST - index / len(titles) for index, title in enumerate(titles)}


def prefer_last(titles: Sequence[str]) -> Mapping[str, float]:
    """Rate the first text worst, in every vote and round."""
    return {title: 1.0 - merit for title, merit in prefer_first(titles).items()}


def alternate(titles: Sequence[str]) -> Mapping[str, float]:
    """Rate the first text best in every second vote and round, otherwise worst.

    Every second judge does the opposite.
    """
    is_odd = (_TURN.get() + sum(current_component().encode())) % 2
    if is_odd:
        return prefer_last(titles)
    return prefer_first(titles)


def prefer_none(titles: Sequence[str]) -> Mapping[str, float]:
    """Rate no text as good or bad."""
    return dict.fromkeys(titles, 0.5)


OPINIONS: Sequence[Opinion] = (prefer_first, prefer_last, alternate, prefer_none)
"""Judges with these opinions make the fewest and the most calls."""


@dataclass(slots=True)
class DryRun:
    """The counts of a dry run's clients, and how they reply.

    Attributes:
        tally: the counts; each pass over the rows has its own.
        stored: the entries that the judgment cache would store in this pass.
        formats: the prompt formats that the stand-in knows.
        parts: the names of the parts of the run's judge.
        reply_tokens: the assumed tokens of a policy's completion (`True`) and of any other reply;
            `None` for the stand-in's.
        cached_share: the share of all prompt tokens in a prefix cache.
        opinion: the judges' opinion; `None` for the stand-in's.
        clients: the settings of all clients that were used.
        watch: called with the messages of each request.
        asks_for_several: whether a request has asked for several completions.
    """

    tally: Tally = field(default_factory=dict)
    stored: dict[str, Choice] = field(default_factory=dict)
    formats: Sequence[PromptFormat] = BUILT_IN
    parts: frozenset[str] = frozenset()
    reply_tokens: Mapping[bool, float | None] = field(
        default_factory=lambda: {True: None, False: None}
    )
    cached_share: float = 0.0
    opinion: Opinion | None = None
    clients: dict[str, ChatSettings] = field(default_factory=dict)
    watch: Callable[[Sequence[Message]], None] = lambda messages: None
    asks_for_several: bool = False

    @contextmanager
    def row(self) -> Iterator[None]:
        """Limit replies to the row: only later prompts in the block quote them."""
        with bind_context(_SHOWN, {}):
            yield

    def begin(self, opinion: Opinion | None) -> None:
        """Start a pass over the rows, with nothing counted."""
        self.tally, self.stored, self.opinion = {}, {}, opinion

    def open(
        self,
        settings: ChatSettings,
        *,
        cache: JudgmentCache | None = None,
        budget: Budget | None = None,
        **_: Any,  # sessions are not needed
    ) -> DryClient:
        """Open a client that counts here; for arguments and errors see `ChatClient`."""
        return DryClient(settings, self, cache=cache, budget=budget)

    def open_cache(self, path: Path) -> JudgmentCache:
        """Open a judgment cache that stores nothing; for errors see `JudgmentCache`."""
        return DryCache(self, path)

    def count(
        self,
        settings: ChatSettings,
        messages: Sequence[Message],
        replies: Sequence[Choice],
        tokens: int,
    ) -> None:
        """Count a request.

        Args:
            settings: the client's settings.
            messages: the prompt.
            replies: the stand-in's replies; none for a model whose replies have no tokens.
            tokens: the tokens of these replies.
        """
        self.watch(messages)
        self.asks_for_several |= len(replies) > 1
        endpoint = settings.endpoints[0]
        self.clients[settings.title] = settings
        role = classify_role(settings, current_component().split("/"), self.parts)
        shown = _SHOWN.get({})
        prompt = float(count_image_tokens(messages, endpoint.api, endpoint.model))
        for message in messages:
            text = message["content"]
            prompt += count_once(text) + sum(
                extra * text.count(reply) for reply, extra in shown.items()
            )
        reply, assumed = float(tokens), self.reply_tokens[role.is_policy]
        if assumed is not None and replies:
            reply_length = min(assumed, settings.max_tokens or assumed)
            reply = reply_length * len(replies)
            for choice in replies:
                text = choice.text.rpartition("</think>")[2].strip()
                if len(text) >= _LONG:
                    shown[text] = reply_length - count_once(text)
        cost = price_request(role.prices, prompt, reply, self.cached_share)
        add_load(self.tally, role, Load(1.0, prompt, reply, cost))


class DryClient(ChatClient):
    """Counts requests, and replies like the stand-in."""

    def __init__(
        self,
        settings: ChatSettings,
        dry: DryRun,
        *,
        cache: JudgmentCache | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Count in `dry`; for the other arguments and the errors see `ChatClient`."""
        super().__init__(settings, cache=cache, budget=budget)
        self._dry = dry

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Open a client of another model that counts in the same place."""
        return DryClient(settings, self._dry, cache=self._cache, budget=self._budget)

    async def chat(
        self, messages: Sequence[Message], **how: Any
    ) -> ChatResponse:  # of `ChatClient.chat`
        """Note the number of the vote, game or round, and ask."""
        with bind_context(_TURN, _parse_turn(how.get("name", ""))):
            return await super().chat(messages, **how)

    async def call_other_api(
        self,
        send: Callable[[RequestRecord], Awaitable[ChatResponse]],
        *arguments: Any,
        keep: Callable[[Choice], bool],
        **how: Any,  # of `ChatClient.call_beside`
    ) -> ChatResponse:
        """Ask a reward model with as many classes as its judge expects."""

        async def ask(record: RequestRecord) -> ChatResponse:
            answer = await send(record)
            return replace(
                answer, choices=tuple(_expand_classes(choice, keep) for choice in answer.choices)
            )

        return await super().call_other_api(ask, *arguments, keep=keep, **how)

    async def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        """Count a request."""
        settings, dry = self.settings, self._dry
        record.received = 1
        if record.read is not None and record.path is not None:
            body = wire.loads(
                make_reward_response(record.path, wire.dumps({**parameters}), dry.opinion)
            )
            texts, _ = record.read(body)
            dry.count(settings, messages, (), 0)
            return ChatResponse(tuple(map(Choice, texts)))
        if self.api.name == "decisions":
            return self._decide(messages, parameters[QUESTIONS])
        fields: dict[str, Any] = {**parameters, "messages": wire.messages_json(messages)}
        if record.part:  # of several completions that are asked for one by one, each is another
            fields.setdefault("seed", record.part)
        request = ChatRequest.model_validate({"model": settings.endpoints[0].model, **fields})
        request._data = {"model": settings.endpoints[0].model, **fields}
        reply = make_completion(request, make_answers(request, dry.formats, opinion=dry.opinion))
        if dry.opinion is prefer_none:
            _equalize(reply)
        choices = tuple(map(choice_from_json, reply["choices"]))
        record.received = len(choices)
        dry.count(settings, messages, choices, reply["usage"]["completion_tokens"])
        return ChatResponse(choices)

    def _decide(self, messages: Sequence[Message], questions: JSON) -> ChatResponse:
        """Count a request to a decision model, whose answers have no tokens of their own."""
        by_name = wire.mapping_or_empty(questions)
        shown = Message(role="user", content=wire.dumps(questions).decode())
        self._dry.count(self.settings, [*messages, shown], (), 0)
        answers = {name: undecided_answer(question) for name, question in by_name.items()}
        return ChatResponse((Choice(wire.dumps(answers).decode(), None, "stop"),))


def _parse_turn(name: str) -> int:
    """Return the number at the end of a call's name plus the round of critique."""
    critique = _CRITIQUE.match(name)
    number = _NUMBER.search(name if critique is None else name[critique.end() :])
    return (int(number[0]) if number is not None else 0) + (
        int(critique[1]) if critique is not None else 0
    )


def _equalize(reply: Mapping[str, Any]) -> None:
    """Make all alternatives of a token equally likely."""
    for choice in reply["choices"]:
        for token in (choice["logprobs"] or {}).get("content", ()):
            for alternative in token.get("top_logprobs", ()):
                alternative["logprob"] = -math.log(len(token["top_logprobs"]))


def _expand_classes(choice: Choice, keep: Callable[[Choice], bool]) -> Choice:
    """Repeat a reward model's number for each class that its judge expects."""
    item = wire.loads(choice.text)
    numbers = item if isinstance(item, list) else [item]
    if isinstance(item, dict):
        numbers = item["probs"]
    for count in _CLASSES:
        several = replace(choice, text=wire.dumps(numbers * count).decode())
        try:
            keep(several)
            return several
        except SettingsError:  # there are too few
            continue
    return choice


class DryCache(JudgmentCache):
    """A judgment cache that reads its file, if it exists, and stores replies in memory."""

    def __init__(self, dry: DryRun, path: Path) -> None:
        """Open the file.

        Raises:
            SettingsError: it cannot be opened, or is not a cache.
        """
        self._dry, self._has_file = dry, path.exists()
        if self._has_file:
            super().__init__(path)

    async def get(self, key: str) -> CacheRow:
        """Return the entry of this pass, or that of the file."""
        if key in self._dry.stored:
            return CacheRow(self._dry.stored[key])
        if self._has_file:
            return await super().get(key)
        return CacheRow()

    async def put(self, key: str, choice: Choice, *, previous: CacheRow) -> Choice:
        """Store a reply for this pass."""
        return self._dry.stored.setdefault(key, choice)

    def close(self) -> None:
        """Close the file."""
        if self._has_file:
            super().close()
