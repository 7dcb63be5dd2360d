"""The contract of an environment, and its wiring.

A new environment answers five questions: which rows are there (`tasks`), what is the policy asked (`conversations`),
what does the judge say of its completions (`judge`), what is that worth (`reward`), and what is counted (`observe`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import aiohttp
from atroposlib.envs.base import BaseEnv

from environments import tasks as data
from environments.metrics import MetricAggregator
from environments.policy import Completion, Conversation, Policy, read_completion
from environments.records import Sample, SampleRun
from environments.settings import ConfigT, EnvConfig, EnvSettings
from environments.tasks import Split, TaskT
from judges.cache import JudgmentCache
from judges.client import ChatClient
from judges.errors import EndpointError
from judges.judgment import CallRun, Judgment, Status
from judges.wire import Choice

logger = logging.getLogger(__name__)

DetailT = TypeVar("DetailT")


class JudgedEnv(BaseEnv, Generic[ConfigT, TaskT, DetailT]):
    """An environment whose reward is a judge.

    Class attributes:
        name: in paths and metric tables.
        config_type: its settings.
        detail_type: the dataclass of its judgments' detail.
        headline: the metric (and its words) that the progress display shows.
        worst_score: what a completion in the wrong format is worth in evaluation: it is an answer, and a wrong one.
        offline_samples: its settings that name the bundled samples.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[EnvConfig]]
    detail_type: ClassVar[type[Any]]
    headline: ClassVar[tuple[str, str]]
    worst_score: ClassVar[float]
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
            SettingsError: an API key is missing, or the judgment cache cannot be opened.
        """
        config = settings.env
        self.settings = settings
        self.config: ConfigT = config
        self.cache = JudgmentCache(config.judge_cache) if config.judge_cache is not None else None
        judge_settings = config.chat_settings(retry_delay=config.retry_delay, identity=judge_identity)
        self.judge_client = ChatClient(judge_settings, cache=self.cache, session=session)
        self.policy: Policy | None = None
        if config.model_answers is None:
            limit = settings.openai.num_requests_for_eval
            policy_settings = settings.openai.chat_settings(config, max_concurrency=limit)
            self.policy = Policy(ChatClient(policy_settings, session=session), config)
        self._answers: Mapping[str, str] = {}
        self._upcoming: list[TaskT] = []
        self._epoch = 0

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
        """What a judgment with a score, or an invalid completion, is worth in training: a finite number."""

    @abstractmethod
    def observe(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Count one finished row."""

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> None:
        """Add what can only be computed from all finished rows; nothing by default."""

    @property
    def rows_in_flight(self) -> int:
        """Rows that are worth having under way at once: enough to fill both endpoints' limits."""
        return self.config.judge_max_concurrency + self.settings.openai.num_requests_for_eval

    def eval_tasks(self) -> list[TaskT]:
        """The rows of this evaluation: all, or those that `--limit` chooses; and their answers, if they are in a file.

        Raises:
            DataError: they cannot be loaded, or the file lacks an answer.
        """
        chosen = data.select(self.tasks("eval"), limit=self.settings.limit, seed=self.config.seed)
        if self.config.model_answers is not None:
            self._answers = data.load_answers(self.config.model_answers, chosen)
        return chosen

    async def finish(self, task: TaskT, earlier: Sample[DetailT] | None = None) -> Sample[DetailT]:
        """Ask the policy and judge what it says; completions that an earlier run paid for are used again."""
        started = time.monotonic()
        policy_calls: tuple[CallRun, ...] = ()
        if earlier is not None and earlier.completions:
            completions, policy_calls = earlier.completions, earlier.run.policy_calls
        else:
            try:
                completions, policy_calls = await self._complete(task)
            except EndpointError as error:
                run = SampleRun(time.monotonic() - started)
                return Sample(task.uid, task.category, task.question, (), None, None, run, policy_error=str(error))
        judgment = await self.judge(task, completions)
        judge_calls = {call.purpose: call.run for call in judgment.calls}
        return Sample(
            uid=task.uid,
            category=task.category,
            question=task.question,
            completions=completions,
            judgment=judgment,
            score=self.worst_score if judgment.status is Status.INVALID_COMPLETION else judgment.score,
            run=SampleRun(time.monotonic() - started, policy_calls, judge_calls),
        )

    async def _complete(self, task: TaskT) -> tuple[tuple[Completion, ...], tuple[CallRun, ...]]:
        if self.policy is None:
            return (read_completion(Choice(self._answers[task.uid]), self.config),), ()
        asked = await asyncio.gather(*(self.policy.complete(each) for each in self.conversations(task)))
        return tuple(completion for completion, _ in asked), tuple(run for _, run in asked)

    async def close(self) -> None:
        """Close the judgment cache."""
        if self.cache is not None:
            self.cache.close()

    async def evaluate(self, *args: object, **kwargs: object) -> None:
        """Evaluate into a run directory of its own; Atropos calls this during training."""
        from environments.evaluate_command import evaluate  # late: the command knows the environments' base

        await evaluate(self, self.eval_tasks(), standing_in=())

    async def get_next_item(self) -> TaskT:
        """The next row of training: each epoch has an order of its own, a function of the seed."""
        while not self._upcoming:
            self._upcoming = data.epoch_order(self.tasks("train"), seed=self.config.seed, epoch=self._epoch)
            self._epoch += 1
        return self._upcoming.pop(0)

    @classmethod
    def cli(cls) -> None:
        """The command line: `evaluate`; leaves with the command's exit code."""
        from environments.cli import main  # late: cli knows the environments' base

        raise SystemExit(main(cls))
