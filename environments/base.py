"""The contract of an environment, and its wiring.

A new environment answers five questions: which rows are there (`tasks`), what is the policy asked (`conversations`),
what does the judge say of its completions (`judge`), what is that worth (`reward`), and what is counted (`observe`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import aiohttp
from atroposlib.envs.base import BaseEnv

from environments.completions import Completion, Conversation, read_completion
from environments.data import rows as data
from environments.data.rows import Split, TaskT
from environments.evaluate.report import Table
from environments.metrics import MetricAggregator
from environments.policy import Policy, TokenServer
from environments.records import Sample, SampleRun
from environments.rollouts.groups import DropReason, JudgedGroup, judge_group, scored_group
from environments.rollouts.retokenize import Retokenizer
from environments.rollouts.sources import ChatSource, RolloutSource
from environments.settings import ConfigT, EnvConfig, EnvSettings
from environments.training.sampler import EpochSampler
from judges.core.judgment import CallRun, Judgment, Status
from judges.llm.cache import JudgmentCache
from judges.llm.client import ChatClient
from judges.llm.errors import DataError, EndpointError, SettingsError
from judges.llm.urls import split_urls
from judges.llm.wire import JSON, Choice

logger = logging.getLogger(__name__)

DetailT = TypeVar("DetailT")


class JudgedEnv(BaseEnv, Generic[ConfigT, TaskT, DetailT]):
    """An environment whose reward is a judge.

    Class attributes:
        name: in paths and metric tables.
        config_type: its settings.
        detail_type: the dataclass of its judgments' detail.
        headline: the metric (and its words) that the progress display shows.
        offline_samples: its settings that name the bundled samples.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[EnvConfig]]
    detail_type: ClassVar[type[Any]]
    headline: ClassVar[tuple[str, str]]
    offline_samples: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self, settings: EnvSettings[ConfigT], session: aiohttp.ClientSession, *, judge_identity: str = ""
    ) -> None:
        """Wire the clients.

        Atropos' own constructor, which loads a tokenizer and opens servers, is for training; evaluation needs neither.

        Args:
            settings: validated; the endpoints in it are there.
            session: the one HTTP session of the process.
            judge_identity: what stands for the judge's endpoint in the judgment cache, if not its URL.

        Raises:
            SettingsError: the judge's API key is missing, or the judgment cache cannot be opened.
        """
        config = settings.env
        self.settings = settings
        self.config: ConfigT = config
        self.cache = JudgmentCache(config.judge_cache) if config.judge_cache is not None else None
        self.session = session
        self.judge_identity = judge_identity
        self.in_training = False
        """Whether evaluations are of the policy in training, whatever answers the dataset has."""
        if not config.policy_is_judge:
            self.open_judges()
        self.retokenizer = Retokenizer(config.tokenizer_name)
        self._training_client: ChatClient | None = None
        self._answers: Mapping[str, str] = {}
        self._order: EpochSampler[TaskT] | None = None

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[TaskT]:
        """The rows, in the dataset's order.

        Raises:
            DataError: they cannot be loaded.
        """

    @abstractmethod
    def conversations(self, task: TaskT) -> list[Conversation]:
        """What the policy is asked: one conversation, or several that run at once."""

    @abstractmethod
    async def judge(self, task: TaskT, completions: Sequence[Completion]) -> Judgment[DetailT]:
        """What the judge says of the completions, one for each conversation. A judge's failure is a judgment too."""

    @abstractmethod
    def reward(self, judgment: Judgment[DetailT]) -> float:
        """What a judgment with a score is worth in training: a finite number."""

    def drop_reason(self, group: JudgedGroup[DetailT]) -> DropReason | None:
        """Why a scored group is of no use in training, if it is of none; such groups are counted, and not sent."""
        return None

    @abstractmethod
    def observe(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Count one finished row."""

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> None:
        """Add what can only be computed from all finished rows; nothing by default."""

    @property
    def subject(self) -> str:
        """What is evaluated: the policy, a file of answers, or those of the dataset."""
        if self.config.model_answers is not None:
            return self.config.model_answers.stem
        return self.settings.openai.model_name if self.asks_policy else "answers of the dataset"

    @property
    def judge_name(self) -> str:
        """Who judges."""
        return self.subject if self.config.policy_is_judge else self.config.judge_model_name

    def is_complete(self, sample: Sample[DetailT]) -> bool:
        """Whether nothing of a finished row is missing that a resumed run should try again."""
        return True

    def answers_held(self, sample: Sample[DetailT]) -> int:
        """How many answers that were paid for a failed or interrupted row holds."""
        return len(sample.completions)

    @property
    def asks_policy(self) -> bool:
        """Whether an evaluation needs answers of the policy, once its rows are known."""
        return "policy" in self.__dict__

    def observe_failure(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Count one row that is not in the mean; the failures that all environments share are counted elsewhere."""

    def plan(self, tasks: Sequence[TaskT]) -> str | None:
        """What an evaluation of these rows will call and cost, said before its first call; nothing by default."""
        return None

    def write_report(self, path: Path, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> Sequence[Table]:
        """Write files of an environment's own into the run directory; the tables that it returns are shown.

        Args:
            path: the run directory.
            rows: all finished rows.
        """
        return ()

    @property
    def invalid_completion_score(self) -> float:
        """What a completion in the wrong format is worth in evaluation: it is an answer, and a wrong one."""
        return 0.0

    @property
    def counts_policy_failures(self) -> bool:
        """Whether a row whose policy never answered stays in the denominator, as a wrong one: where it is the judge."""
        return self.config.policy_is_judge

    def open_judges(self) -> None:
        """Make the clients of the judges, so that what is wrong with their settings is said before the first call.

        Raises:
            SettingsError: an API key is missing.
        """
        _ = self.judge_client

    @cached_property
    def judge_client(self) -> ChatClient:
        """The client of the one judge that the `judge_*` settings name.

        Raises:
            SettingsError: its API key is missing.
        """
        settings = self.config.chat_settings(retry_delay=self.config.retry_delay, identity=self.judge_identity)
        return ChatClient(settings, cache=self.cache, session=self.session)

    @property
    def judge_clients(self) -> Sequence[ChatClient]:
        """The clients of all judges; none where the policy is the judge."""
        return [] if self.config.policy_is_judge else [self.judge_client]

    @cached_property
    def policy(self) -> Policy:
        """The policy in evaluation.

        Raises:
            SettingsError: an API key is missing.
        """
        openai = self.settings.openai
        settings = openai.chat_settings(self.config, max_concurrency=openai.num_requests_for_eval)
        return Policy(ChatClient(settings, session=self.session), self.config)

    @property
    def judge_cost(self) -> float:
        """US dollars that the judges have cost so far."""
        return sum(client.meter.usage.cost for client in self.judge_clients)

    @property
    def rows_in_flight(self) -> int:
        """Rows that are worth having under way at once: enough to fill both endpoints' limits."""
        return self.config.judge_max_concurrency + self.settings.openai.num_requests_for_eval

    def eval_tasks(self) -> list[TaskT]:
        """The rows of this evaluation: all, or those that `--limit` chooses; and their answers, if they are in a file.

        Raises:
            DataError: they cannot be loaded, or the file lacks an answer.
            SettingsError: the policy is needed, and its API key is missing.
        """
        chosen = self.selected_tasks()
        if self.config.model_answers is not None:
            self._answers = data.load_answers(self.config.model_answers, chosen)
        if any(self.answer_of(task) is None and self.dataset_answer(task) is None for task in chosen):
            _ = self.policy  # what is wrong with it is said before the first call
        return chosen

    def selected_tasks(self) -> list[TaskT]:
        """The rows that `--limit` leaves.

        Raises:
            DataError: they cannot be loaded, or there are none.
        """
        chosen = data.select(self.tasks("eval"), limit=self.settings.limit, seed=self.config.seed)
        if not chosen:
            raise DataError("there is no row to evaluate")
        return chosen

    def answer_of(self, task: TaskT) -> str | None:
        """The answer in the file of answers, which is judged in place of the policy's, if there is one."""
        return self._answers.get(task.uid)

    def dataset_answer(self, task: TaskT) -> str | None:
        """The row's own answer, where evaluation is to judge that as it stands; none by default."""
        return None

    async def finish(
        self,
        task: TaskT,
        earlier: Sample[DetailT] | None = None,
        *,
        answered: Callable[[Sample[DetailT]], None] = lambda sample: None,
    ) -> Sample[DetailT]:
        """Ask the policy and judge what it says.

        Args:
            task: the row.
            earlier: the row as an earlier run left it; completions that are paid for are used again.
            answered: told as soon as new completions are there, so that they outlive whatever comes next.
        """
        started = time.monotonic()
        policy_calls: tuple[CallRun, ...] = ()
        if earlier is not None and earlier.completions:
            completions, policy_calls = earlier.completions, earlier.run.policy_calls
        else:
            try:
                completions, policy_calls = await self._complete(task)
            except EndpointError as error:
                run, said = SampleRun(time.monotonic() - started), f"the policy at {error}"
                return Sample(task.uid, task.category, task.question, (), None, None, run, policy_error=said)
            if policy_calls:
                run = SampleRun(time.monotonic() - started, policy_calls)
                answered(Sample(task.uid, task.category, task.question, completions, None, None, run))
        judgment = await self.judge(task, completions)
        judge_calls = {call.name: call.run for call in judgment.calls}
        return Sample(
            uid=task.uid,
            category=task.category,
            question=task.question,
            completions=completions,
            judgment=judgment,
            score=self.invalid_completion_score if judgment.status is Status.INVALID_COMPLETION else judgment.score,
            run=SampleRun(time.monotonic() - started, policy_calls, judge_calls),
        )

    async def _complete(self, task: TaskT) -> tuple[tuple[Completion, ...], tuple[CallRun, ...]]:
        existing = self.answer_of(task)
        if existing is not None:
            return (read_completion(Choice(existing), self.config),), ()
        own = self.dataset_answer(task)
        if own is not None:
            return (Completion(own),), ()  # nobody asked it for thinking
        asking = (self.policy.complete(each) for each in self.conversations(task))
        asked = await asyncio.gather(*asking, return_exceptions=True)  # all of them: none is left running behind us
        failed = next((each for each in asked if isinstance(each, BaseException)), None)
        if failed is not None:
            raise failed
        answered = [each for each in asked if not isinstance(each, BaseException)]
        return tuple(completion for completion, _ in answered), tuple(run for _, run in answered)

    @property
    def workers(self) -> int:
        """Groups that may be under way at once in training."""
        if self.config.max_num_workers != -1:
            return int(self.config.max_num_workers)
        openai = self.settings.openai
        servers = len(openai.replicas) or len(split_urls(openai.base_url))
        return int(self.config.max_num_workers_per_node) * servers

    @cached_property
    def source(self) -> RolloutSource:
        """Where rollouts come from; opened at the first one.

        Raises:
            SettingsError: an API key is missing, or `token_source` does not fit the server's type.
        """
        config, openai = self.config, self.settings.openai
        is_token_server = openai.server_type != "openai"
        if config.token_source == "token_server" and not is_token_server:
            raise SettingsError("--env.token_source: token_server needs --openai.server_type=vllm, sglang or trl")
        if config.token_source == "token_server" or (config.token_source == "auto" and is_token_server):
            return TokenServer(openai, config, self.retokenizer)
        limit = openai.num_max_requests_at_once
        self._training_client = ChatClient(openai.chat_settings(config, max_concurrency=limit), session=self.session)
        settled = None if config.token_source == "auto" else config.token_source
        return ChatSource(self._training_client, config, self.retokenizer, settled=settled)

    def share_policy(self, weight: float) -> None:
        """Use a share, from 0 to 1, of the policy's concurrency, as the rollout API says."""
        if self._training_client is not None:
            self._training_client.rescale(weight)

    async def roll_out(self, task: TaskT) -> JudgedGroup[DetailT]:
        """One group: `group_size` completions of the task's conversation in one request, judged at once.

        Raises:
            EndpointError: the policy never answered.
            NoTokens: it answered without the tokens that it was asked for.
        """
        conversation = self.conversations(task)[0]
        rollouts, policy_run = await self.source.sample(conversation, self.config.group_size)
        judgments = await judge_group(rollouts, lambda rollout: self.judge(task, [rollout.completion]))
        return JudgedGroup(conversation, tuple(rollouts), tuple(judgments), self.rewards(judgments), policy_run)

    def rewards(self, judgments: Sequence[Judgment[DetailT]]) -> tuple[float | None, ...]:
        """What the judgments of a group are worth, each by itself; `None` where the judge failed."""
        return tuple(self._worth(judgment) for judgment in judgments)

    def _worth(self, judgment: Judgment[DetailT]) -> float | None:
        """A rollout's reward; `None` where the judge failed."""
        if judgment.status is Status.OK:
            return self.reward(judgment)
        return self.config.invalid_thinking_reward if judgment.status is Status.INVALID_COMPLETION else None

    def observer(self, task: TaskT, group: JudgedGroup[DetailT]) -> Callable[[MetricAggregator, int], None]:
        """Counts the rollout of a number among training's metrics."""

        def observe(metrics: MetricAggregator, number: int) -> None:
            judgment = group.judgments[number]
            score = self.invalid_completion_score if judgment.status is Status.INVALID_COMPLETION else judgment.score
            completions = (group.rollouts[number].completion,)
            sample = Sample(task.uid, task.category, task.question, completions, judgment, score, SampleRun(0.0))
            self.observe(metrics, task, sample)

        return observe

    async def close(self) -> None:
        """Close the judgment cache."""
        if self.cache is not None:
            self.cache.close()

    async def collect_trajectories(self, item: TaskT) -> tuple[dict[str, JSON] | None, list[TaskT]]:
        """Atropos' hook for one group: as the rollout API takes it, or `None` if it has no scores."""
        group = await self.roll_out(item)
        scores = group.scores
        if scores is None:
            return None, []
        config = self.config
        data = scored_group(
            group, scores, temperature=config.rollout_temperature, include_messages=config.include_messages
        )
        return data, []

    async def evaluate(self, *args: object, **kwargs: object) -> None:
        """Atropos' hook for an evaluation: into a run directory of its own."""
        from environments.evaluate.command import evaluate  # late: the command knows the environments' base

        await evaluate(self, self.eval_tasks(), standing_in=self.settings.stand_ins)

    async def get_next_item(self) -> TaskT:
        """Atropos' hook for the next row of training."""
        if self._order is None:
            self._order = EpochSampler(self.tasks("train"), self.config.seed)
        return self._order.next()

    @classmethod
    def cli(cls) -> None:
        """The command line: `serve`, `process`, `evaluate`; leaves with the command's exit code."""
        from environments.cli import main  # late: cli knows the environments' base

        raise SystemExit(main(cls))
