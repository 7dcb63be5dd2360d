"""`--plan` of `evaluate`, `process` and `serve`: what a run would ask, and what that would cost. Nobody is asked.

The run's own code goes through a sample of the rows, with clients that count the requests and answer as the offline
stand-in does. So calls and prompts are those of the run, but for what depends on answers: a judge's prompt is counted
with a completion of the assumed length in the place of each that it shows, and a judge that is not sure asks as often
as the stand-in makes it ask. The cost is told with answers of the assumed length, and with the longest ones.

Of a run that a plan is to resume, files are only read. Answers of the judgment cache are taken off where the prompt is
known: with answers of a file, of a run or of the data set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import aiohttp
from pydantic import BaseModel

from judgegym.data.task_list import select
from judgegym.engine import terminal
from judgegym.engine.anchors import looks_ahead
from judgegym.engine.completions import Clients, read_completion
from judgegym.engine.estimates import BATCH, Range, cost_of, enough, plan_line
from judgegym.engine.runs.directory import SAMPLES, run_directory_of
from judgegym.engine.runs.lines import whole_lines
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.engine.settings import EnvSettings
from judgegym.engine.terminal.output import UNKNOWN, dollars
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.offline import STAND_IN_URL, stand_ins
from judgegym.environments.evaluate.evaluation import Evaluation
from judgegym.environments.rollouts.judging import judge_completions_of
from judgegym.judges.config.budgets import BudgetSettings
from judgegym.judges.config.judge import NO_ENDPOINT, STAND_IN_IDENTITY
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.seeding import generator
from judgegym.judges.core.tasks import judge_responses
from judgegym.judges.scorers.registry import ScorerSettings, part_settings
from judgegym.llm.cache import JudgmentCache, request_key, vote_of_repeat
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import CallKey, RequestRecord, component, current_component
from judgegym.llm.transport import open_session
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.urls import split_urls
from judgegym.llm.usage import Prices, Usage, count_tokens, how_counted
from judgegym.llm.wire import JSON, Choice, Message
from judgegym.offline.answers import BUILT_IN, answers, load_prompt
from judgegym.offline.request import ChatRequest

_ROWS = 200
"""The most rows that are gone through; the others have as many calls and tokens on average."""
_ANCHORS = "anchors"
_tokens = lru_cache(maxsize=256)(count_tokens)
ModelT = TypeVar("ModelT", bound=BaseModel)
Step: TypeAlias = Callable[[Any], Awaitable[object]]
"""Asks what a row takes."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a run that is resumed has; of a new run, nothing.

    Attributes:
        finished: the rows that are not run again.
        held: how many answers to calls of the others it has, of policies (`True`) and of judges.
        answer_tokens: of an answer in the mean, of each; the setting without any.
        cached_share: the share of all prompts' tokens that endpoints had in their prefix caches.
    """

    finished: frozenset[str]
    held: Mapping[bool, int]
    answer_tokens: Mapping[bool, float]
    cached_share: float

    @classmethod
    def of(cls, run: Path | None, usual: int, *, keeps_rows: bool) -> Earlier:
        """Read a run's files; `usual` is the length of an answer where it has none."""
        lines = whole_lines(run / SAMPLES) if run is not None and keeps_rows else ()
        finished, held = frozenset(str(line.fields()["uid"]) for line in lines), Counter[bool]()
        usages = {True: Usage(), False: Usage()}
        answered = Counter[bool]()
        for call in read_calls(run) if run is not None else ():
            held[call.is_of_policy] += call.row not in finished
            if call.answer.attempts:
                answered[call.is_of_policy] += len(call.answer.choices)
                usages[call.is_of_policy] += call.answer.usage
        means = {of: usages[of].completion_tokens / answered[of] if answered[of] else usual for of in usages}
        whole = usages[True] + usages[False]
        return cls(finished, held, means, whole.cached_prompt_tokens / max(1, whole.prompt_tokens))


@dataclass(slots=True)
class PartPlan:
    """What one model is asked for one part of a run, on the rows that were gone through.

    Attributes:
        prices: of the model.
        is_of_policy: its answers are completions, and not verdicts.
        calls: requests.
        cached: questions that the judgment cache answers.
        prompts: tokens of the prompts, with completions of the assumed length in those that show some.
        more: the most further tokens of the prompts, with the longest completions; `None` without a limit.
        answers: how many are asked for.
        longest: tokens of all of them, if they are as long as they may be; `None` without a limit.
    """

    prices: Prices
    is_of_policy: bool
    calls: int = 0
    cached: int = 0
    prompts: float = 0.0
    more: float | None = 0.0
    answers: int = 0
    longest: float | None = 0.0

    def times(self, factor: float, earlier: Earlier) -> tuple[Range, Range, Range | None]:
        """Tokens of prompts and of answers, and US dollars, of `factor` times as much: as so far, and at most."""
        most = None if self.more is None else self.prompts + self.more
        prompts = Range(self.prompts, most).times(factor)
        answers = Range(self.answers * earlier.answer_tokens[self.is_of_policy], self.longest).times(factor)
        low = self.prices.usage(round(prompts.low), round(answers.low), round(prompts.low * earlier.cached_share)).cost
        cost = cost_of(replace(self.prices, cached_input=None), prompts, answers)
        return prompts, answers, None if cost is None or low is None else Range(low, cost.high)


class RunPlan:
    """Counts what a run asks.

    Attributes:
        parts: by model and part of the run.
        shown: the completions for the row that is gone through, with the most tokens that they may have (0: any).
    """

    def __init__(self, env_type: type[JudgedEnv[Any, Any, Any]], settings: EnvSettings[Any], typical: float) -> None:
        """Count nothing yet; a completion is assumed to have `typical` tokens."""
        config, formats, self._typical = settings.env, env_type.offline_prompts, typical
        own = [each if isinstance(each, PromptFormat) else load_prompt(each) for each in formats]
        self._formats = (*BUILT_IN, *own)
        self._names = {part.name for part in part_settings(config)} if isinstance(config, ScorerSettings) else set()
        self.parts: dict[str, PartPlan] = {}
        self.shown: dict[str, int] = {}

    def part(self, settings: ChatSettings) -> PartPlan:
        """The part that a call which is made here belongs to."""
        own = next((each for each in current_component().split("/") if each in (*self._names, _ANCHORS)), None)
        model, is_of_policy = settings.title.removeprefix("the "), settings.title != "the judge"
        return self.parts.setdefault(f"{model} {own}" if own else model, PartPlan(settings.prices, is_of_policy))

    def count(self, settings: ChatSettings, messages: Sequence[Message], n: int, longest: int) -> PartPlan:
        """Count a request for `n` answers of at most so many tokens; 0 for no limit."""
        part = self.part(settings)
        part.calls += 1
        part.answers += n
        part.longest = None if part.longest is None or not longest else part.longest + n * longest
        for text in (message["content"] for message in messages):
            part.prompts += _tokens(text)
            for completion, most in self.shown.items():
                times = text.count(completion)
                part.prompts += times * (self._typical - _tokens(completion))
                if times:
                    part.more = None if part.more is None or not most else part.more + times * (most - self._typical)
        return part

    def answer(self, settings: ChatSettings, messages: Sequence[Message], body: Mapping[str, JSON]) -> ChatResponse:
        """Count a request, and answer as the stand-in does."""
        request: dict[str, Any] = {"model": settings.endpoints[0].model, "messages": [*messages], **body}
        asked = ChatRequest.model_validate(request)
        asked._data = request
        longest = asked.max_tokens or 0
        texts = answers(asked, self._formats)
        if self.count(settings, messages, asked.n, longest).is_of_policy:
            self.shown |= {text.rpartition("</think>")[2].strip(): longest for text in texts}
        return ChatResponse(tuple(map(Choice, texts)))


class PlanClient(ChatClient):
    """A client that sends nothing."""

    def __init__(self, settings: ChatSettings, plan: RunPlan, cache: JudgmentCache | None = None) -> None:
        """Count in `plan` what is asked; `cache` is only read."""
        super().__init__(settings, cache=cache)
        self._plan = plan

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Count for another model, too."""
        return PlanClient(settings, self._plan, self._cache)

    async def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        """Count a request."""
        return self._plan.answer(self.settings, messages, parameters)

    async def call_beside(
        self, send: object, messages: Sequence[Message], parameters: object, **how: Any
    ) -> ChatResponse:
        """Count a call of a reward model, whose answer has no tokens."""
        self._plan.count(self.settings, messages, 0, 1)
        return ChatResponse((Choice("[0.0]"),))

    async def _one(
        self,
        send: Callable[[RequestRecord], Awaitable[ChatResponse]],
        asked: CallKey,
        cache: JudgmentCache | None,
        keep: Callable[[Choice], bool] | None,
        is_greedy: bool,
        record: RequestRecord,
    ) -> ChatResponse:
        if cache is not None:
            key = request_key(self._identity, asked.messages, asked.parameters, vote_of_repeat(asked.vote))
            found = (await cache.get(key)).choice
            if found is not None and (keep is None or keep(found)):
                self._plan.part(self.settings).cached += 1
                return ChatResponse((found,), cached=True)
        return await send(record)


class PlanClients(Clients):
    """The clients of a plan."""

    def __init__(
        self, settings: EnvSettings[Any], session: aiohttp.ClientSession, plan: RunPlan, identity: str
    ) -> None:
        """Count in `plan`; see `Clients`."""
        super().__init__(settings, session, judge_identity=identity)
        self._plan = plan

    def open_judge(self, chat_settings: ChatSettings) -> ChatClient:
        """See `Clients`."""
        return PlanClient(chat_settings, self._plan, self._cache)

    def open_policy(self, chat_settings: ChatSettings) -> ChatClient:
        """See `Clients`."""
        return PlanClient(chat_settings, self._plan)


def _without_endpoints(settings: EnvSettings[Any]) -> EnvSettings[Any]:
    """The settings with their prices, and with endpoints that need no key."""
    env, openai, nowhere = (
        settings.env,
        settings.openai,
        {"base_url": NO_ENDPOINT, "api_key": None, "extra_headers": {}},
    )

    def changed(model: ModelT, prices: Prices, prefix: str, **more: object) -> ModelT:
        priced = {f"price_{name}": value for name, value in asdict(prices).items()}
        update = {f"{prefix}{name}": value for name, value in {**nowhere, **priced, **more}.items()}
        return model.model_copy(update={name: update[name] for name in update if name in type(model).model_fields})

    has_cache = env.judge_cache is not None and env.judge_cache.exists()
    bare_env = changed(env, env.prices, "judge_", cache=env.judge_cache if has_cache else None)
    return settings.standing_in(
        stand_ins(settings), env=bare_env, openai=changed(openai, openai.prices, "", replicas=[])
    )


def _run_of(settings: EnvSettings[Any]) -> Path | None:
    """The directory of the run that is resumed; `None` for a new one."""
    place = settings.env.data_dir_to_save_evals
    if settings.verb != "evaluate":
        place = settings.env.data_path_to_save_groups
    if not settings.resume or place is None:
        return None
    path = Path(place).expanduser()
    return path if settings.verb == "evaluate" else run_directory_of(path)


async def show_plan(env_type: type[JudgedEnv[Any, Any, Any]], settings: EnvSettings[Any]) -> None:
    """Print the plan of a run.

    Raises:
        UserError: the run would not begin either: the data or the settings are wrong, or the run cannot be read.
    """
    config, verb, run = settings.env, settings.verb, _run_of(settings)
    identity = STAND_IN_IDENTITY if config.judge_base_url == STAND_IN_URL else split_urls(config.judge_base_url)[0]
    earlier, bare = Earlier.of(run, settings.plan_tokens, keeps_rows=verb == "evaluate"), _without_endpoints(settings)
    plan, looks = RunPlan(env_type, bare, earlier.answer_tokens[True]), 0
    step: Step
    async with open_session() as session:
        with closing(PlanClients(bare, session, plan, identity)) as clients:
            env = env_type.kind_for(bare)(bare, clients, verb=verb)
            if verb == "evaluate":
                evaluation = Evaluation(env)
                if evaluation.anchor_judge is not None and settings.anchors is not None:
                    anchors, looks, _ = looks_ahead(settings.anchors, evaluation.anchor_judge, run)
                    with component(_ANCHORS):
                        for anchor in anchors:
                            await judge_responses(evaluation.anchor_judge.judge, anchor.task)
                tasks, step = evaluation.tasks, evaluation.runner.finish
                numbers = [place for place, task in enumerate(tasks) if task.uid not in earlier.finished]
                wanted, what = len(numbers), "rows"
            else:
                tasks = select(env.load_tasks("train"), limit=settings.limit, seed=config.seed)
                client = clients.open_policy(bare.openai.chat_settings(bare.env, max_concurrency=1))
                numbers, step = [*range(len(tasks))], partial(_roll_out, env, client)
                wanted, what = (config.total_steps, "groups") if verb == "process" else (1, "group (serve makes many)")
            size = min(len(numbers), _ROWS)
            for number in sorted(generator(config.seed, "plan", "rows").sample(numbers, size)):
                plan.shown.clear()
                await step(tasks[number])
    for label, words in _words(plan, earlier, wanted / max(1, size), looks, config):
        for line in plan_line(label, words):
            terminal.say(line)
    terminal.say(f"\n{wanted:,} {what}, counted on {size:,} rows. Nobody was asked.")


async def _roll_out(env: JudgedEnv[Any, Any, Any], client: ChatClient, task: Any) -> None:
    """Ask what a group of a row takes."""
    config, conversation = env.config, env.checked_conversations(task)[0]
    limits = {"temperature": config.rollout_temperature, "max_tokens": config.train_max_tokens}
    answer = await client.chat(conversation, n=config.group_size, name="policy", **limits)
    await judge_completions_of(env, task, [read_completion(each, config) for each in answer.choices])


def _words(
    plan: RunPlan, earlier: Earlier, factor: float, looks: int, budget: BudgetSettings
) -> Iterator[tuple[str, str]]:
    """The lines of the plan."""
    total, calls = cast("Range | None", Range(0.0, 0.0)), 0
    of_role = {
        role: sum(part.calls * factor for part in plan.parts.values() if part.is_of_policy is role)
        for role in (True, False)
    }
    for name, part in plan.parts.items():
        role = part.is_of_policy
        left = (
            looks
            if name.endswith(_ANCHORS)
            else factor * (1.0 - min(1.0, earlier.held[role] / max(1.0, of_role[role])))
        )
        prompts, answers, cost = part.times(left, earlier)
        total = None if total is None or cost is None else total + cost
        calls += round(part.calls * left)
        held = f"; {earlier.held[role]:,} answers are in the ledger" if earlier.held[role] else ""
        cached = f"; {round(part.cached * left):,} more are in the judgment cache" if part.cached else ""
        yield f"{name} calls", f"{part.calls * left:,.0f}{held}{cached}"
        yield "  prompt tokens", _about(prompts, "{:,.0f}".format)
        yield "  answer tokens", _about(answers, "{:,.0f}".format)
        yield "  cost", _about(cost, dollars)
    yield "cost", _about(total, dollars)
    yield "in a batch", _about(None if total is None else total.times(BATCH), dollars)
    lengths = " and ".join(
        f"{earlier.answer_tokens[role]:,.0f} tokens in an answer of the {of}"
        for role, of in ((True, "policy"), (False, "judge"))
    )
    yield "assumed", f"{lengths} (--plan_tokens; with --resume, as so far); at most, the limits of max_tokens"
    share = (
        f"{earlier.cached_share:.0%} of the prompts' tokens, as so far"
        if earlier.cached_share
        else "not known, and none assumed"
    )
    yield "in prefix caches", share
    yield (
        "counted as",
        f"{how_counted()}. Requests that fail, and answers without a verdict, are asked for again, on top",
    )
    if budget.budget_calls is not None:
        yield "budget", f"{budget.budget_calls:,} calls {enough(Range(calls, calls), budget.budget_calls)}"
    if budget.budget_usd is not None and total is not None:
        yield "budget", f"{dollars(budget.budget_usd)} {enough(total, budget.budget_usd)}"


def _about(numbers: Range | None, shown: Callable[[float], str]) -> str:
    if numbers is None:
        return f"{UNKNOWN}; set its prices (price_input, price_output)"
    if numbers.is_exact:
        return shown(numbers.low)
    return f"about {shown(numbers.low)}, " + (
        "without a limit" if numbers.high is None else f"at most {shown(numbers.high)}"
    )
