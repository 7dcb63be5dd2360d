"""The contract of an environment.

A new environment answers five questions: which rows are there (`tasks`), what is the policy asked (`conversations`),
what does the judge say of its completions (`judge`), what is that worth (`reward`), and what is counted
(`record_metrics`). What an evaluation does with a row and what training does with a group is the business of
`environments.evaluate` and `environments.rollouts`.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin

from environments.clients import Clients
from environments.completions import Completion, Conversation, system_messages
from environments.data.rows import Split, TaskT
from environments.metrics import MetricAggregator
from environments.records import Sample
from environments.settings import ConfigT, EnvConfig, EnvSettings
from environments.settings.verbs import Verb
from judges.core.judgment import Judgment
from judges.core.prompt_format import PromptFormat

if TYPE_CHECKING:
    from environments.evaluate.row import RowRunner

DetailT = TypeVar("DetailT")


class JudgedEnv(ABC, Generic[ConfigT, TaskT, DetailT]):
    """An environment whose reward is a judge: `class MyEnv(JudgedEnv[MyConfig, MyTask, MyDetail])`.

    Class attributes:
        name: in paths and metric tables.
        headline: the metric (and its words) that the progress display and the training log show.
        training_headline: the metric that the training log shows of groups, if it has another name there.
        offline_samples: its settings that name the bundled samples.
        offline_prompts: the prompts of a judge of its own, for `--offline`; references are `path/to/file.py:NAME`.
        invalid_completion_score: score in evaluation of a completion in the wrong format: an answer, and a wrong one.
        config_type: the settings, read from the class's type parameters.
        detail_type: the dataclass of its judgments' detail, read from the class's type parameters.

    Attributes:
        settings: the command's.
        config: the environment's own, those under `env`.
        clients: the clients of judge and policy.
        verb: what the environment is for.
        policy_is_judge: the policy judges, and no other judge is called.
        system_messages: the system prompt of a policy that answers, if there is any.
    """

    name: ClassVar[str]
    headline: ClassVar[tuple[str, str]]
    training_headline: ClassVar[str | None] = None
    offline_samples: ClassVar[Mapping[str, str]] = {}
    offline_prompts: ClassVar[Sequence[str | PromptFormat]] = ()
    config_type: ClassVar[type[EnvConfig]]
    detail_type: ClassVar[type[Any]]

    def __init_subclass__(cls, **options: object) -> None:
        """Read the types from the type parameters, and check the class attributes.

        Raises:
            TypeError: an attribute is missing, or a type parameter is not a type of its kind.
        """
        super().__init_subclass__(**options)
        config_type, _, detail_type = _type_arguments(cls)
        if isinstance(config_type, type):
            cls.config_type = config_type
        if isinstance(detail_type, type):
            cls.detail_type = detail_type
        problem = None if inspect.isabstract(cls) else _problem(cls)
        if problem is not None:
            raise TypeError(f"the environment {cls.__qualname__}: {problem}")

    def __init__(self, settings: EnvSettings[ConfigT], clients: Clients, *, verb: Verb) -> None:
        """Make the judges.

        Args:
            settings: validated; the endpoints in it are there.
            clients: the clients of judge and policy.
            verb: what the environment is for; with `serve`, an evaluation is one of the policy in training.

        Raises:
            SettingsError: the judge's API key is missing.
        """
        self.settings = settings
        self.config: ConfigT = settings.env
        self.clients = clients
        self.verb: Verb = verb
        self.policy_is_judge = self.config.policy_is_judge
        self.system_messages = system_messages(self.config)
        if not self.policy_is_judge:
            self.open_judges()

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[TaskT]:
        """The rows, in the dataset's order.

        Raises:
            DataError: they cannot be loaded.
        """

    @abstractmethod
    def conversations(self, task: TaskT) -> list[Conversation]:
        """What the policy is asked: one conversation, or several that run at once. Training takes the first."""

    @abstractmethod
    async def judge(self, task: TaskT, completions: Sequence[Completion]) -> Judgment[DetailT]:
        """What the judge says of the completions, one for each conversation. A judge's failure is a judgment too.

        Called by way of `completions.judge_completions`, which keeps away what must not be judged.
        """

    @abstractmethod
    def record_metrics(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Count one finished row, or one rollout of a group (`metrics.prefix` is `eval` or `train`)."""

    async def judge_again(
        self, task: TaskT, completions: Sequence[Completion], earlier: Judgment[DetailT]
    ) -> Judgment[DetailT]:
        """In training, ask once more for what a judgment lacks: for all of it, where the judge failed."""
        return await self.judge(task, completions) if earlier.status.is_failure else earlier

    def reward(self, judgment: Judgment[DetailT]) -> float:
        """What a judgment with a score is worth in training, a finite number: the score, unless it is overridden."""
        assert judgment.score is not None  # only judgments with a score get here
        return judgment.score

    def rewards(self, judgments: Sequence[Judgment[DetailT]]) -> Sequence[float | None]:
        """What the judgments with a score of one group are worth beside one another; `None`: cannot be compared."""
        return [self.reward(judgment) for judgment in judgments]

    @property
    def invalid_completion_score(self) -> float:
        """See the class."""
        return 0.0

    def drop_reason(self, judgments: Sequence[Judgment[DetailT]]) -> str | None:
        """Why a scored group is of no use in training, in one word; such groups are counted, and not sent."""
        return None

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> None:
        """Add what can only be computed from all finished rows; nothing by default."""

    def record_failure(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Count one row that is not in the mean; the failures that all environments share are counted elsewhere."""

    def dataset_answer(self, task: TaskT) -> str | None:
        """The row's own answer, where evaluation is to judge that in place of the policy's; none by default."""
        return None

    def open_judges(self) -> None:
        """Make the judges, so that what is wrong with their settings is said before the first call.

        Not called where the policy is the judge.
        """
        _ = self.clients.judge

    def row_runner(self) -> RowRunner[TaskT, DetailT] | None:
        """What evaluates a row, where that is not to ask the policy and to judge its completions."""
        return None

    @classmethod
    def cli(cls) -> None:
        """The command line: `serve`, `process`, `evaluate`; leaves with the command's exit code."""
        from environments.cli import main  # late: cli knows the contract

        raise SystemExit(main(cls))


def _type_arguments(cls: type[Any]) -> tuple[Any, Any, Any]:
    """The three type parameters as a class or its bases give them; type variables where they are still open."""
    arguments: tuple[Any, ...] = (ConfigT, TaskT, DetailT)
    for base in reversed(cls.__mro__):
        for alias in base.__dict__.get("__orig_bases__", ()):
            origin = get_origin(alias)
            if isinstance(origin, type) and issubclass(origin, JudgedEnv):
                given = dict(zip(getattr(origin, "__parameters__", ()), get_args(alias), strict=False))
                arguments = tuple(given.get(argument, argument) for argument in arguments)
    return arguments[0], arguments[1], arguments[2]


def _problem(cls: type[JudgedEnv[Any, Any, Any]]) -> str | None:
    """What is wrong with a class, if anything is."""
    config_type, _, detail_type = _type_arguments(cls)
    if not (isinstance(config_type, type) and issubclass(config_type, EnvConfig)):
        return f"its first type parameter must be a subclass of EnvConfig, found {config_type!r}"
    if not (isinstance(detail_type, type) and dataclasses.is_dataclass(detail_type)):
        return f"its third type parameter must be a dataclass (the judgments' detail), found {detail_type!r}"
    if not isinstance(getattr(cls, "name", None), str):
        return 'the class attribute `name` is missing: name = "my_environment"'
    headline = getattr(cls, "headline", None)
    if not (isinstance(headline, tuple) and len(headline) == 2 and all(isinstance(part, str) for part in headline)):
        return 'the class attribute `headline` is missing: headline = ("mean_reward", "reward")'
    return None
