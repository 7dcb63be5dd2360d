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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from judgegym.data.task_list import select
from judgegym.engine import terminal
from judgegym.engine.anchors import plan_anchors
from judgegym.engine.completions import Clients, Conversation, read_completion
from judgegym.engine.estimates import EarlierCalls, ModelPlan, Range, enough, plan_line
from judgegym.engine.records import read_sample
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import SAMPLES, run_directory_of
from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.engine.terminal.output import UNKNOWN, dollars
from judgegym.environments.command_line.arguments import EnvType
from judgegym.environments.command_line.offline import STAND_IN_URL, stand_ins
from judgegym.environments.evaluate.evaluation import Evaluation
from judgegym.environments.rollouts.groups import Rollout, TokenSequence
from judgegym.environments.rollouts.sampling import roll_out
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.seeding import generator
from judgegym.judges.core.tasks import judge_responses
from judgegym.judges.scorers.registry import ScorerSettings, part_settings
from judgegym.llm.cache import CacheRow, JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.images import tokens_of_images
from judgegym.llm.http.exchange import open_session
from judgegym.llm.ledger import RequestRecord, component, current_component
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.usage import Prices, count_once, how_counted
from judgegym.llm.wire import JSON, Choice, Message
from judgegym.offline.answers import BUILT_IN, answers, load_prompt
from judgegym.offline.request import ChatRequest
from judgegym.statistics import percent

_ROWS = 200
"""The most rows that are gone through; the others have as many calls and tokens on average."""
_ANCHORS = "anchors"


@dataclass(slots=True)
class CountedPart:
    """What one model is asked for one part of a run, on the rows that were gone through.

    Attributes:
        prices: of the model.
        of_policy: its answers are completions, and not verdicts.
        of_judge: it may be asked in batches.
        calls: requests.
        prompts: tokens of the prompts, from completions of the assumed length in those that show some to the longest.
        answers: tokens of the answers, from those of the assumed length to the longest.
    """

    prices: Prices
    of_policy: bool
    of_judge: bool
    calls: int = 0
    prompts: Range = Range(0.0, 0.0)
    answers: Range = Range(0.0, 0.0)


class RunPlan:
    """What a run asks, and what an earlier part of it has.

    Attributes:
        parts: what is asked, by model and part of the run.
        shown: the completions for the row that is gone through, with the most tokens that they may have (0: any).
        finished: the rows that are not run again.
        held: how many answers to calls of the others the ledger has, of policies (`True`) and of judges.
        typical: tokens of an answer, of each: the mean so far, or the setting.
        cached_share: the share of all prompts' tokens so far that endpoints had in their prefix caches.
    """

    def __init__(self, settings: EnvSettings[Any], prompts: Sequence[str | PromptFormat], run: Path | None) -> None:
        """Read the files of a run that is resumed; `prompts` are those of the environment's own judge."""
        own = (each if isinstance(each, PromptFormat) else load_prompt(each) for each in prompts)
        self._formats = (*BUILT_IN, *own)
        parts = part_settings(settings.env) if isinstance(settings.env, ScorerSettings) else ()
        self._names = {_ANCHORS, *(part.name for part in parts)}
        self._batch_share = settings.env.batch_share
        self._limits = settings.env.budget_calls, settings.env.budget_usd
        self.parts, self.shown = dict[str, CountedPart](), dict[str, int]()
        lines = read_lines(run / SAMPLES, read_sample) if run is not None and settings.verb == "evaluate" else ()
        self.finished = frozenset(sample.uid for _, sample in lines)
        earlier, usual = EarlierCalls(), settings.plan or 0
        if run is not None:
            earlier = EarlierCalls.of_run(run, lambda row: row not in self.finished)
        self.held, choices, tokens = earlier.held, earlier.choices, earlier.tokens
        self.typical = {of: tokens[of] / choices[of] if choices[of] else usual for of in (True, False)}
        self.cached_share = earlier.usage.cached_prompt_tokens / max(1, earlier.usage.prompt_tokens)

    def count(self, settings: ChatSettings, messages: Sequence[Message], n: int, longest: int) -> CountedPart:
        """Count a request for `n` answers of at most so many tokens; 0 for no limit."""
        own = next((f" {each}" for each in current_component().split("/") if each in self._names), "")
        name = settings.title.removeprefix("the ") + own
        title = settings.title
        fresh = CountedPart(settings.prices, title not in ("the judge", "the user"), title == "the judge")
        part = self.parts.setdefault(name, fresh)
        part.calls += 1
        part.answers += Range(n * self.typical[part.of_policy], n * longest if longest else None)
        images = tokens_of_images(messages, settings.endpoints[0].api, settings.endpoints[0].model)
        part.prompts += Range(images, images)
        for text in (message["content"] for message in messages):
            part.prompts += Range(count_once(text), count_once(text))
            for completion, most in self.shown.items():
                if times := text.count(completion):
                    length = count_once(completion)
                    part.prompts += Range(self.typical[True] - length, most - length if most else None).times(times)
        return part

    def answer(self, settings: ChatSettings, messages: Sequence[Message], body: Mapping[str, JSON]) -> ChatResponse:
        """Count a request, and answer as the stand-in does."""
        request: dict[str, Any] = {"model": settings.endpoints[0].model, "messages": [*messages], **body}
        asked = ChatRequest.model_validate(request)
        asked._data = request
        longest, texts = asked.max_tokens or 0, answers(asked, self._formats)
        if self.count(settings, messages, asked.n, longest).of_policy:
            self.shown |= {text.rpartition("</think>")[2].strip(): longest for text in texts}
        return ChatResponse(tuple(map(Choice, texts)))

    def times(self, part: CountedPart, factor: float) -> ModelPlan:
        """The plan of a part, `factor` times: as assumed, and at most."""
        calls, prompts = Range(part.calls, part.calls).times(factor), part.prompts.times(factor)
        plan = ModelPlan.of(replace(part.prices, cached_input=None), calls, prompts, part.answers.times(factor))
        if plan.cost is not None and part.prices.cached_input is not None and part.prices.input is not None:
            saved = prompts.low * self.cached_share * (part.prices.input - part.prices.cached_input) / 1e6
            plan = replace(plan, cost=Range(plan.cost.low - saved, plan.cost.high))
        return plan

    def lines(self, factor: float, looks: int) -> Iterator[tuple[str, str]]:
        """The lines of the plan: so many times what was counted, and anchors that are judged so often."""
        asked, whole = Counter[bool](), ModelPlan(*[Range(0.0, 0.0)] * 4)
        in_batches = Range(0.0, 0.0)
        for part in self.parts.values():
            asked[part.of_policy] += part.calls
        for name, part in self.parts.items():
            held = self.held[part.of_policy]
            left = 1.0 - min(1.0, held / max(1.0, factor * asked[part.of_policy]))
            plan = self.times(part, looks if name.endswith(_ANCHORS) else factor * left)
            whole += plan
            if plan.cost is not None:
                in_batches += plan.cost.times(self._batch_share if part.of_judge else 1.0)
            yield f"{name} calls", f"{plan.calls.low:,.0f}" + (f"; {held:,} answers are in the ledger" if held else "")
            yield "  prompt tokens", _about(plan.prompt_tokens, "{:,.0f}".format)
            yield "  answer tokens", _about(plan.completion_tokens, "{:,.0f}".format)
            yield "  cost", _about(plan.cost, dollars)
        yield "cost", _about(whole.cost, dollars)
        yield "in a batch", _about(None if whole.cost is None else in_batches, dollars)
        policy, judge = (f"{self.typical[of]:,.0f}" for of in (True, False))
        yield "assumed", f"a completion of {policy} tokens, a judge's answer of {judge} (--plan=TOKENS, or as so far)"
        yield (
            "in prefix caches",
            f"{percent(self.cached_share, 0)} of prompts, as so far"
            if self.cached_share
            else "not known: none assumed",
        )
        yield "counted as", f"{how_counted()}; what fails, and answers without a verdict, are asked for again, on top"
        budgets = (("{:,} calls", self._limits[0], whole.calls), ("${:g}", self._limits[1], whole.cost))
        for words, limit, needed in budgets:
            if limit is not None and needed is not None:
                yield "budget", f"{words.format(limit)} {enough(needed, limit)}"


def _about(numbers: Range | None, shown: Callable[[float], str]) -> str:
    if numbers is None or numbers.is_exact:
        return f"{UNKNOWN}; set its price" if numbers is None else shown(numbers.low)
    return f"about {shown(numbers.low)}, " + ("no limit" if numbers.high is None else f"at most {shown(numbers.high)}")


class PlanClient(ChatClient):
    """A client that sends nothing."""

    def __init__(self, plan: RunPlan, settings: ChatSettings, *, cache: JudgmentCache | None = None, **_: Any) -> None:
        """Count in `plan` what is asked and not in the cache."""
        super().__init__(settings, cache=cache)
        self._plan = plan

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Count for another model, too."""
        return PlanClient(self._plan, settings, cache=self._cache)

    async def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        """Count a request."""
        return self._plan.answer(self.settings, messages, parameters)

    async def call_beside(
        self, send: object, messages: Sequence[Message], parameters: object, **_: Any
    ) -> ChatResponse:
        """Count a call of a reward model, whose answer has no tokens."""
        self._plan.count(self.settings, messages, 0, 1)
        return ChatResponse((Choice("[0.0]"),))


class _ReadCache(JudgmentCache):
    """A judgment cache that stores nothing."""

    async def put(self, key: str, choice: Choice, *, instead_of: CacheRow) -> Choice:
        return choice


def _with_keys(settings: EnvSettings[Any]) -> EnvSettings[Any]:
    """The settings with keys, which are never sent; without batches, and without a judgment cache that is not there."""
    env, openai, key, update = settings.env, settings.openai, SecretStr("-"), dict[str, object](judge_batch=None)
    if env.judge_cache is not None and not env.judge_cache.exists():
        update["judge_cache"] = None
    for role in ("judge", "user"):
        if not getattr(env, f"{role}_extra_headers", True):
            update[f"{role}_api_key"] = getattr(env, f"{role}_api_key") or key
    keyed = openai if openai.extra_headers else openai.model_copy(update={"api_key": openai.api_key or key})
    return settings.standing_in(stand_ins(settings), env=env.model_copy(update=update), openai=keyed)


def _run_of(settings: EnvSettings[Any]) -> Path | None:
    """The directory of the run that is resumed; `None` for a new one."""
    is_of_groups = settings.verb != "evaluate"
    place = settings.env.data_path_to_save_groups if is_of_groups else settings.env.data_dir_to_save_evals
    path = Path(place).expanduser() if settings.resume and place is not None else None
    return run_directory_of(path) if path is not None and is_of_groups else path


async def _sample(
    client: ChatClient, config: EnvConfig, conversation: Conversation, n: int
) -> tuple[list[Rollout], CallRun]:
    """Sample rollouts without tokens."""
    limits: Any = {"temperature": config.rollout_temperature, "max_tokens": config.train_max_tokens}
    answer = await client.chat(conversation, n=n, name="policy", **limits)
    none = TokenSequence((), (), None)
    return [Rollout(read_completion(each, config), none, each.text) for each in answer.choices], CallRun()


async def show_plan(env_type: EnvType, settings: EnvSettings[Any]) -> None:
    """Print the plan of a run.

    Raises:
        UserError: the run would not begin either: the data or the settings are wrong, or the run cannot be read.
    """
    config, verb, run, looks = settings.env, settings.verb, _run_of(settings), 0
    plan, keyed = RunPlan(settings, env_type.offline_prompts, run), _with_keys(settings)
    identity = STAND_IN_IDENTITY if config.judge_base_url == STAND_IN_URL else ""
    async with open_session() as session:
        make = partial(PlanClient, plan)
        with closing(Clients(keyed, session, judge_identity=identity, make=make, make_cache=_ReadCache)) as clients:
            env = env_type.kind_for(keyed)(keyed, clients, verb=verb)
            if verb == "evaluate":
                evaluation = Evaluation(env)
                judge, tasks = evaluation.anchor_judge, evaluation.tasks
                if judge is not None:
                    anchors, looks, _ = plan_anchors(judge, run)
                    with component(_ANCHORS):
                        for anchor in anchors:
                            await judge_responses(judge.judge, anchor.task)
                step: Callable[[Any], Any] = evaluation.runner.finish
                numbers = [place for place, task in enumerate(tasks) if task.uid not in plan.finished]
                wanted, what = len(numbers), "rows"
            else:
                tasks = select(env.load_tasks("train"), limit=settings.limit, seed=config.seed)
                client = clients.open("policy", keyed.openai.chat_settings(keyed.env, max_concurrency=1))
                numbers, step = [*range(len(tasks))], partial(roll_out, env, partial(_sample, client, config))
                wanted, what = (config.total_steps, "groups") if verb == "process" else (1, "group (serve makes many)")
            chosen = generator(config.seed, "plan", "rows").sample(numbers, min(len(numbers), _ROWS))
            for number in sorted(chosen):
                plan.shown.clear()
                await step(tasks[number])
    for label, words in plan.lines(wanted / max(1, len(chosen)), looks):
        for line in plan_line(label, words):
            terminal.say(line)
    terminal.say(f"\n{wanted:,} {what}, counted on {len(chosen):,} rows. Nobody was asked.")
