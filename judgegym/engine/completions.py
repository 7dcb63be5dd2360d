"""The policy and its completions, and the chat clients of a command.

Evaluations and data sets use `Policy`; training samples rollouts with tokens
(`judgegym.environments.rollouts`).

`Clients` opens the chat clients of one command: its judges, and the policy in evaluations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import aiohttp
from pydantic import ConfigDict, Field

from judgegym.engine.runs.ledger import RunUsage
from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.env import CompletionSettings
from judgegym.judges import prompts
from judgegym.judges.conversations.turns import Turn, render_transcript, text_turn
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.judges.core.tasks import ONLY_THINKING
from judgegym.judges.parsing import thinking
from judgegym.judges.parsing.thinking import ThinkingFault
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.llm.at_once import gather_results
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import component
from judgegym.llm.refusals.request_fields import FIELDS
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import Prices, Usage
from judgegym.llm.wire import CUT_OFF, REFUSALS, Choice, Message, is_blank

Conversation: TypeAlias = Sequence[Message]
TaskT = TypeVar("TaskT")
DetailT = TypeVar("DetailT")

_NAME = "policy"


_LIMITS = "eval_max_tokens (in training train_max_tokens)"


@dataclass(frozen=True, slots=True)
class Completion:
    """A policy's completion, and whether its format is valid.

    Attributes:
        answer: the text to judge: the part after the thinking, or the whole text.
        written: the whole text, if thinking was removed from it (`judged_thinking`); otherwise
            empty.
        thinking: the thinking, from the text or from a separate field; empty if there is none.
        thinking_fault: what is wrong with the thinking; `None` if it is valid or was not requested.
        finish_reason: why it ended, such as `stop`, `length` (cut off) or `refusal`; `None` for a
            completion from a file.
        short: the text is shorter than `min_response_length`, after all retries.
        follow_up: the user's message before this turn of a conversation; empty for the first turn.
        turns: number of turns of an agent's trace in the text; 0 for a single turn.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True)

    answer: Annotated[str, Field(validation_alias="model_answer")]
    thinking: str = ""
    thinking_fault: ThinkingFault | None = None
    finish_reason: str | None = None
    short: Annotated[bool, Field(validation_alias="short_response")] = False
    follow_up: str = ""
    turns: int = 0
    written: str = ""

    @property
    def valid(self) -> bool:
        """Whether the thinking is valid."""
        return self.thinking_fault is None

    @property
    def refused(self) -> bool:
        """Whether the policy, or its endpoint's filter, refused to answer."""
        return self.finish_reason in REFUSALS

    @property
    def unjudgeable(self) -> str | None:
        """Why no judge is asked: a refusal, malformed thinking, or an empty text; else `None`."""
        if self.finish_reason in REFUSALS:
            return "the policy refused to answer"
        if self.finish_reason == CUT_OFF and is_blank(self.answer) and not self.thinking_fault:
            return f"the answer is empty: thinking used up its completion limit; raise {_LIMITS}"
        if self.thinking_fault is None and is_blank(self.answer):
            if self.written:
                return ONLY_THINKING
            return "the answer is empty: there is nothing to judge"
        return self.thinking_fault

    @property
    def unreadable(self) -> str | None:
        """Why no verdict is read in the completion, or `None`.

        The reasons are malformed thinking, a refusal, no text, and a cut-off text, which may end
        with a quoted verdict.
        """
        if self.finish_reason == CUT_OFF:
            return "cut off"
        return self.unjudgeable


def make_completion_turns(completions: Sequence[Completion]) -> tuple[Turn, ...]:
    """Return the turns of a conversation's completions, with the follow-ups between them."""
    turns: list[Turn] = []
    for completion in completions:
        turns += [text_turn("user", completion.follow_up)] if completion.follow_up else []
        turns.append(
            Turn("assistant", completion.answer, completion.answer, reasoning=completion.thinking)
        )
    return tuple(turns)


def continue_conversation(
    conversation: Conversation, completions: Sequence[Completion]
) -> list[Message]:
    """Return a conversation continued by its completions and the follow-ups between them.

    Completions are included without their thinking, as chats send earlier turns. Thinking that the
    endpoint has left in the text stays: chat templates handle their own, and token ids continue
    where they ended.
    """
    written = [
        replace(completion, answer=completion.written or completion.answer)
        for completion in completions
    ]
    turns = [(turn.role == "user", turn.text) for turn in make_completion_turns(written)]
    messages = [
        Message(role="user" if is_users else "assistant", content=text) for is_users, text in turns
    ]
    return [*conversation, *messages]


def render_for_judge(completions: Sequence[Completion]) -> str:
    """Return a rollout as text for judges: its only completion, or all turns with roles."""
    if len(completions) == 1:
        return completions[0].answer
    return render_transcript(make_completion_turns(completions))


def system_text(
    config: CompletionSettings, built_in: Literal["thinking_assistant", "thinking_judge"]
) -> str:
    """Return the thinking prompt (custom or built in) followed by the custom system prompt.

    Empty if there is neither.
    """
    parts: list[str] = []
    if config.thinking_mode:
        parts.append(config.custom_thinking_prompt or prompts.load(built_in))
    if config.custom_system_prompt:
        parts.append(config.custom_system_prompt)
    return "\n\n".join(parts)


def system_messages(config: CompletionSettings) -> list[Message]:
    """Return the system prompt of an answering policy as a message; none if it is empty."""
    text = system_text(config, "thinking_assistant")
    if text:
        return [Message(role="system", content=text)]
    return []


def read_completion(choice: Choice, config: CompletionSettings) -> Completion:
    """Split a choice into thinking and text.

    The text of a refusal without content is the refusal. Reasoning in a separate field is valid
    thinking. Without thinking mode, which has its own rule, thinking at the text's start is removed
    (`ThinkingSettings.hide_thinking`).
    """
    text = choice.text or choice.refusal or ""
    answer, thought, fault, written = (
        text.strip() if config.thinking_mode else text,
        choice.reasoning or "",
        None,
        "",
    )
    if config.thinking_mode and choice.reasoning is None:
        parts = thinking.split(text, opened_by_template=config.thinking_opened_by_template)
        answer, thought, fault = parts.answer, parts.thinking, parts.reason
    else:
        answer, within, written = config.hide_thinking(answer)
        thought = "\n\n".join(filter(None, (thought, within)))
        fault = None
        if config.thinking_mode and not answer:
            fault = "empty_answer"
    short = len(answer.strip()) < config.min_response_length
    return Completion(answer, thought, fault, choice.finish_reason, short, written=written)


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """One of several completions of a prompt.

    Attributes:
        completion: the completion; `None` if the policy never answered.
        error: why it never answered.
        run: its cost; `None` if it came with an earlier completion, which carries the cost of both.
    """

    completion: Completion | None
    error: EndpointError | None = None
    run: CallRun | None = None


class Policy:
    """Samples the policy in evaluations, and for the responses of a data set."""

    def __init__(self, client: ChatClient, config: CompletionSettings) -> None:
        """Sample through `client` with the settings in `config`."""
        self.client = client
        self.config = config
        limits = {"temperature": config.eval_temperature, "max_tokens": config.eval_max_tokens}
        self._request: Mapping[str, Any] = {**limits, "name": _NAME}
        """The arguments of all requests."""

    async def complete(
        self, conversation: Conversation, verdict_at: Callable[[str], Place | None] | None = None
    ) -> tuple[Completion, CallRun]:
        """Ask for one completion; up to `short_answer_retries` times again if it is too short.

        A short completion is kept if asking again fails. A cut-off or refused completion is not
        requested again.

        Args:
            conversation: the policy's prompt.
            verdict_at: returns the verdict's span in the text of a judging policy, for the ledger
                of calls.

        Raises:
            EndpointError: the policy never answered.
        """
        return await self._retry_short(
            conversation, await self._ask(conversation, verdict_at), verdict_at
        )

    async def sample(self, conversation: Conversation, n: int) -> list[SampledCompletion]:
        """Ask for `n` completions at once. Each counts separately; retries are as in `complete`."""
        answers = await self.client.chat_separately(conversation, n, **self._request)
        return await gather_results(
            self._finish_sample(conversation, answers, number) for number in range(len(answers))
        )

    async def _finish_sample(
        self,
        conversation: Conversation,
        answers: Sequence[ChatResponse | EndpointError],
        number: int,
    ) -> SampledCompletion:
        answer = answers[number]
        if isinstance(answer, EndpointError):
            is_first = not any(earlier is answer for earlier in answers[:number])
            return SampledCompletion(
                None,
                answer,
                CallRun(attempts=answer.attempts, usage=answer.usage) if is_first else None,
            )
        with component(f"response_{number}"):  # each asks the same again
            completion, run = await self._retry_short(conversation, answer)
        return SampledCompletion(completion, None, run if run.attempts or run.cached else None)

    async def _retry_short(
        self,
        conversation: Conversation,
        answer: ChatResponse,
        verdict_at: Callable[[str], Place | None] | None = None,
    ) -> tuple[Completion, CallRun]:
        """Return the completion, after retries if it is too short, and what it has cost."""
        config, runs = self.config, list[CallRun]()
        while True:
            runs.append(CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage))
            completion = read_completion(answer.choices[0], config)
            # An answer that was cut off or refused would be so again.
            if (
                not completion.short
                or len(runs) > config.short_answer_retries
                or completion.finish_reason in {CUT_OFF, *REFUSALS}
            ):
                break
            try:
                answer = await self._ask(conversation, verdict_at)
            except EndpointError as error:
                runs.append(CallRun(attempts=error.attempts, usage=error.usage))
                break
        if len(runs) == 1:
            return completion, runs[0]
        usage = sum((run.usage for run in runs), Usage())
        return completion, CallRun(
            sum(run.latency_s for run in runs), sum(run.attempts for run in runs), False, usage
        )

    async def _ask(
        self, conversation: Conversation, verdict_at: Callable[[str], Place | None] | None
    ) -> ChatResponse:
        find = None
        if verdict_at is not None:
            find = partial(_locate_verdict, config=self.config, find=verdict_at)
        # Every answer is a new sample, also from a client that judges with a cache.
        return await self.client.chat(conversation, fresh=True, verdict_at=find, **self._request)


def _locate_verdict(
    choice: Choice, *, config: CompletionSettings, find: Callable[[str], Place | None]
) -> Place | None:
    """Return the span of a verdict in a choice's text, if one may be read in its final text."""
    completion = read_completion(choice, config)
    at = None
    if completion.unreadable is None:
        at = find(completion.answer)
    if at is None:
        return None
    begins = max(
        choice.text.rfind(completion.answer), 0
    )  # it ends the text, but for white space and template tokens
    return at[0] + begins, at[1] + begins


async def judge_completions(
    judge: Callable[[TaskT, Sequence[Completion]], Awaitable[Judgment[DetailT]]],
    task: TaskT,
    completions: Sequence[Completion],
    *,
    policy_is_judge: bool,
) -> Judgment[DetailT]:
    """Judge completions after checking their format (`Completion.unjudgeable`).

    Malformed thinking, a refusal or an empty text makes the completions invalid, without a judge
    call. If the policy is the judge, no verdict is read in such a completion or in a cut-off one:
    `judge` gets it with an empty text.
    """
    if policy_is_judge:
        shown = [replace(text, answer="") if text.unreadable else text for text in completions]
        return await judge(task, shown)
    for completion in completions:
        if (fault := completion.unjudgeable) is not None:
            return Judgment(None, Status.INVALID_COMPLETION, explanation=fault)
    return await judge(task, completions)


class RunClients:
    """The clients of a run, by role.

    Attributes:
        budget: their common budget; `None` without one.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        """Start without clients."""
        self.budget = budget
        self._clients: dict[str, list[ChatClient]] = {"policy": [], "judge": []}
        """The clients by role; that of a simulated user is there once it is opened."""
        self._served_before: dict[str, Mapping[str, int]] = {}
        self._refused_before: Mapping[str, Mapping[str, Collection[str]]] = {}

    def add(self, role: str, client: ChatClient) -> ChatClient:
        """Add a client of a role; return it."""
        self._clients.setdefault(role, []).append(client)
        self.note_served({})
        return client

    def note_served(self, earlier: Mapping[str, Mapping[str, int]]) -> None:
        """Add the models that served policies and judges in an earlier part of the run."""
        self._served_before |= earlier
        for role, clients in self._clients.items():
            if clients:
                clients[0].note_served(self._served_before.pop(role, {}))

    def begin_after(self, earlier: RunUsage) -> None:
        """Count an earlier part of the run in the budget, at current prices.

        Also notes the request fields that its endpoints refused.
        """
        self._refused_before = earlier.refused
        if self.budget is not None:
            prices: dict[str, Prices] = {}
            families = ((client, *client.siblings) for client in self._all_clients)
            for client in chain.from_iterable(families):  # of equal names the last price counts
                for endpoint in client.settings.endpoints:
                    prices[endpoint.model] = client.settings.prices
            self.budget.begin_after(earlier.price_usage(prices))

    def describe_requests(self, role: str) -> str:
        """Describe how many requests of a role were answered, with their tokens."""
        meters = {id(client.meter): client.meter for client in self._clients.get(role, ())}.values()
        usage = sum((meter.usage for meter in meters), Usage())
        answered = sum(meter.answered for meter in meters)
        return (
            f"{answered:,} requests, {usage.prompt_tokens:,} tokens in, "
            f"{usage.completion_tokens:,} out"
        )

    @property
    def waiting(self) -> str | None:
        """The endpoints that all calls wait for, as in `ChatClient.waiting`; `None` if none."""
        reasons = [client.waiting for client in self._all_clients]
        distinct = dict.fromkeys(reason for reason in reasons if reason is not None)
        return "; ".join(distinct) or None

    @property
    def delay_reason(self) -> str | None:
        """What delays the run: as `waiting`, or endpoints that answer only HTTP 429."""
        throttled = [client.throttle_notice for client in self._all_clients]
        distinct = dict.fromkeys(filter(None, (self.waiting, *throttled)))
        return "; ".join(distinct) or None

    @property
    def _all_clients(self) -> list[ChatClient]:
        return list(chain.from_iterable(self._clients.values()))

    @property
    def finish_reasons(self) -> dict[str, Counter[str]]:
        """Number of choices by role and finish reason."""
        return self._count(lambda client: client.finish_reasons)

    @property
    def served_models(self) -> dict[str, Counter[str]]:
        """Number of responses by role and the model they name."""
        return self._count(lambda client: client.served_models)

    def _count(self, counts: Callable[[ChatClient], Counter[str]]) -> dict[str, Counter[str]]:
        """Add up the counts of the clients of each role."""
        return {
            role: sum(map(counts, clients), Counter[str]())
            for role, clients in self._clients.items()
        }

    @property
    def refused_fields(self) -> dict[str, dict[str, dict[str, str]]]:
        """How refused request fields were replaced, by role, model and field."""
        effects: dict[str, dict[str, dict[str, str]]] = {}
        for role, models in self._refused_before.items():
            for model, names in models.items():
                becomes = {name: FIELDS[name].becomes for name in sorted(names) if name in FIELDS}
                effects.setdefault(role, {}).setdefault(model, {}).update(becomes)
        for role, clients in self._clients.items():
            for client in clients:
                for model, becomes in client.refused_fields.items():
                    effects.setdefault(role, {}).setdefault(model, {}).update(becomes)
        return effects

    @property
    def notices(self) -> list[str]:
        """Sentences that a reader of the numbers must know about how the models were asked."""
        notices = chain.from_iterable(client.notices for client in self._all_clients)
        return list(dict.fromkeys(notices))


class Clients(RunClients):
    """Opens each client at its first use.

    All share one HTTP session; the judges share one judgment cache.
    """

    def __init__(
        self,
        settings: EnvSettings[Any],
        session: aiohttp.ClientSession,
        *,
        judge_identity: str = "",
        make: Callable[..., ChatClient] = ChatClient,
        make_cache: Callable[[Path], JudgmentCache] = JudgmentCache,
    ) -> None:
        """Open the judgment cache, if there is one in the settings, and the shared budget.

        Args:
            settings: validated settings of the command, with the URLs of the stand-ins.
            session: the HTTP session of the process.
            judge_identity: the judge's endpoint in the judgment cache's keys, instead of its URL.
            make: creates a client, like `ChatClient`.
            make_cache: opens the judgment cache.

        Raises:
            SettingsError: the judgment cache cannot be opened.
        """
        super().__init__(settings.env.budget())
        self.session = session
        self._settings, self._judge_identity, self._make = settings, judge_identity, make
        cache = settings.env.judge_cache
        self._cache = make_cache(cache) if cache is not None else None

    @cached_property
    def judge(self) -> ChatClient:
        """The client of the judge that the `judge_*` settings name.

        Raises:
            SettingsError: its API key is missing.
        """
        config = self._settings.env
        return self.open_judge(
            config.chat_settings(retry_delay=config.retry_delay, identity=self._judge_identity)
        )

    @cached_property
    def policy(self) -> Policy:
        """The policy of evaluations.

        Raises:
            SettingsError: its API key is missing.
        """
        config, openai = self._settings.env, self._settings.openai
        chat_settings = openai.chat_settings(config, max_concurrency=openai.num_requests_for_eval)
        return Policy(self.open("policy", chat_settings), config)

    def open_judge(self, chat_settings: ChatSettings) -> ChatClient:
        """Open the client of another judge."""
        if self._settings.verb != "serve":
            chat_settings = self._settings.env.apply_batches(chat_settings)
        return self.open("judge", chat_settings, self._cache)

    def open(
        self, role: str, chat_settings: ChatSettings, cache: JudgmentCache | None = None
    ) -> ChatClient:
        """Open a client of a `policy`, `user` or `judge`; policies and users have no cache."""
        made = self._make(chat_settings, cache=cache, session=self.session, budget=self.budget)
        return self.add(role, made)

    def close(self) -> None:
        """Close the judgment cache."""
        if self._cache is not None:
            self._cache.close()
