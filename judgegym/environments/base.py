"""The contract of an environment: a `spec` and nine methods.

An environment has a `spec` and answers five questions: which rows there are (`tasks`), what the
policy is asked (`conversations`), how the judge scores its completions (`judge`), which reward
that is (`reward`), and which metrics are recorded (`record_metrics`). It may also continue a
conversation (`follow_up`), show more of a row (`texts`), and record metrics of all rows
(`summarise`). If its groups may be judged together (`judgegym.engine.settings.group_judge`), it
tells what the completions of a row have in common for a judge that compares them (`group_case`).

A method that few environments have is a protocol in the module that uses it:
`judgegym.environments.evaluate` runs the rows of an evaluation, `judgegym.environments.rollouts`
the groups of training. `judgegym.environments.contract` calls the methods of an environment and
checks what they return.

The types of an environment are read from its type parameters, and its spec is checked, when the
class is created.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import (
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    runtime_checkable,
)

from judgegym.data.rows import Split, TaskT
from judgegym.engine.completions import Clients, Completion, Conversation, system_messages
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import ConfigT, EnvConfig, EnvSettings
from judgegym.engine.settings.group_judge import GroupJudgeSettings, open_group_judge
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.answer_judge import (
    find_spec_problem,
    has_answer_judge,
    open_answer_judge,
)
from judgegym.environments.spec import EnvSpec
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.naming import MetricNames
from judgegym.judges.core.tasks import JudgeTask

DetailT = TypeVar("DetailT")


def type_arguments(cls: type[Any], contract: type[Any]) -> tuple[Any, ...]:
    """Return the contract's type arguments in a class and its bases.

    An unbound one stays a type variable.
    """
    arguments: tuple[Any, ...] = contract.__parameters__
    for base in reversed(cls.__mro__):
        for alias in base.__dict__.get("__orig_bases__", ()):
            origin = get_origin(alias)
            if isinstance(origin, type) and issubclass(origin, contract):
                values = dict(
                    zip(getattr(origin, "__parameters__", ()), get_args(alias), strict=False)
                )
                arguments = tuple(values.get(argument, argument) for argument in arguments)
    return arguments


def find_class_problem(
    cls: type[JudgedEnv[Any, Any, Any]], config_type: Any, detail_type: Any
) -> str | None:
    """Return what is wrong with an environment's class; `None` if nothing is."""
    if isinstance(config_type, TypeVar):
        return "the type parameters are missing: class MyEnv(JudgedEnv[MyConfig, MyTask, MyDetail])"
    if not (isinstance(config_type, type) and issubclass(config_type, EnvConfig)):
        return f"its first type parameter must be a subclass of EnvConfig, found {config_type!r}"
    if not (isinstance(detail_type, type) and dataclasses.is_dataclass(detail_type)):
        return (
            "its third type parameter must be a dataclass (the judgments' detail), found "
            f"{detail_type!r}"
        )
    if not isinstance(getattr(cls, "spec", None), EnvSpec):
        example = 'spec = EnvSpec(name="my_environment", headline=("mean_reward", "reward"))'
        return f"the class attribute `spec` is missing: {example}"
    if issubclass(config_type, GroupJudgeSettings) and cls.group_case is JudgedEnv.group_case:
        return "its settings have group_judge, so that it needs the method `group_case`"
    return find_spec_problem(cls.spec, config_type)


@runtime_checkable
class SpecBySettings(Protocol):
    """An environment whose headline, outcomes or other facts depend on its settings."""

    @classmethod
    def spec_for(cls, config: Any) -> EnvSpec:
        """Return the spec under these settings."""


class JudgedEnv(ABC, Generic[ConfigT, TaskT, DetailT]):
    """An environment whose reward is a judge: `class MyEnv(JudgedEnv[MyConfig, MyTask, MyDetail])`.

    Class attributes:
        spec: the facts about the environment; of an instance, those under its settings
        (`SpecBySettings`).
        config_type: the class of the settings, read from the type parameters.
        detail_type: the dataclass of a judgment's detail, read from the type parameters.

    Attributes:
        settings: all settings of the command.
        config: the settings under `env`.
        clients: the chat clients of judge and policy.
        verb: the command that runs the environment.
        system_messages: the system prompt of a policy that answers; empty without one.
        group_judge: judges the completions of a group together; `None` if each is judged by itself.
        metric_names: the names of the rows' categories and clusters in metrics; aggregators have it
            as `names`.
    """

    spec: EnvSpec
    config_type: ClassVar[type[EnvConfig]]
    detail_type: ClassVar[type[Any]]

    def __init_subclass__(cls, **options: object) -> None:
        """Read the types from the type parameters, and check the spec.

        Raises:
            TypeError: the spec is missing or wrong, or a type parameter is not of the expected
                kind.
        """
        super().__init_subclass__(**options)
        config_type, _, detail_type = type_arguments(cls, JudgedEnv)
        if isinstance(config_type, type):
            cls.config_type = config_type
        if isinstance(detail_type, type):
            cls.detail_type = detail_type
        problem = None
        if not inspect.isabstract(cls):
            problem = find_class_problem(cls, config_type, detail_type)
        if problem is not None:
            raise TypeError(f"the environment {cls.__qualname__}: {problem}")

    def __init__(self, settings: EnvSettings[ConfigT], clients: Clients, *, verb: Verb) -> None:
        """Open the judges, so that an error in their settings is reported before the first call.

        Args:
            settings: validated settings of the command, with the URLs of the stand-ins.
            clients: the chat clients of judge and policy.
            verb: the command; with `serve`, evaluations are of the policy in training.

        Raises:
            SettingsError: the judge's API key is missing, or groups cannot be judged as the
                settings ask for.
        """
        self.settings = settings
        self.config: ConfigT = settings.env
        self.clients = clients
        self.verb: Verb = verb
        if isinstance(self, SpecBySettings):
            self.spec = self.spec_for(self.config)
        self.system_messages = system_messages(self.config)
        self.metric_names = MetricNames()
        self._warned: set[str] = set()
        self.group_judge = open_group_judge(self.config, verb, lambda: clients.judge)
        if has_answer_judge(self.spec, self.config):
            _ = self.answer_judge

    @cached_property
    def answer_judge(self) -> Judge[DetailT]:
        """Judge of single completions, or the jury, named by spec and settings."""
        return open_answer_judge(self.spec, self.config, self.clients.judge)

    def warn_once(self, logger: logging.Logger, message: str) -> None:
        """Log a warning about rows, only once if training and evaluation read the same rows."""
        if message not in self._warned:
            self._warned.add(message)
            logger.warning("%s", message)

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[TaskT]:
        """Load the rows in the dataset's order, as a list or as a lazy `TaskList`.

        Raises:
            DataError: they cannot be loaded.
        """

    @abstractmethod
    def conversations(self, task: TaskT) -> list[Conversation]:
        """Make the conversations that the policy answers at once; training uses the first."""

    async def follow_up(self, task: TaskT, completions: Sequence[Completion]) -> str | None:
        """Return the user's next message in a row's only conversation.

        `None` (the default) ends it.

        Args:
            task: the row.
            completions: the policy's turns so far, at least one, each valid
                (`Completion.unjudgeable` is `None`).

        Raises:
            UserFailure: a simulated user gave no message; an `EndpointError` counts as one, too.
        """
        return None

    @abstractmethod
    async def judge(self, task: TaskT, completions: Sequence[Completion]) -> Judgment[DetailT]:
        """Judge the completions: one per conversation, or one per turn if the row has `follow_up`s.

        Return a judge's failure as a judgment instead of raising.

        `judge_completions` calls this, and holds back completions that must not be judged.
        """

    def group_case(self, task: TaskT) -> JudgeTask:
        """Return the task of a judge that compares a row's completions, without the responses.

        Its rubric holds the criteria; its baseline joins the group as one more member.

        Needed by an environment whose settings are `GroupJudgeSettings`. `judge`, `reward` and
        `record_metrics` are not called for a group that is judged together.
        """
        name = type(self).__qualname__
        raise NotImplementedError(f"{name} has no group_case")

    def reward(self, judgment: Judgment[DetailT]) -> float:
        """Return the reward of a judgment with a score: a finite number, by default the score."""
        assert judgment.score is not None  # only judgments with a score get here
        return judgment.score

    @abstractmethod
    def record_metrics(
        self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]
    ) -> None:
        """Record one finished row (`metrics.prefix` is `eval`) or one rollout (`train`)."""

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[TaskT, Sample[DetailT]]]
    ) -> None:
        """Record metrics that need all finished rows; none by default.

        Each row is read from the run directory when it is accessed: iterate over `rows` once, and
        keep numbers.
        """

    def texts(self, task: TaskT) -> Mapping[str, str]:
        """Return the row's texts beside its question, by title, for readers of its sample.

        None by default.
        """
        return {}

    @classmethod
    def cli(cls) -> None:
        """Run the command line (`serve`, `process`, `evaluate`), and exit with its exit code."""
        from judgegym.environments.command_line.main import main  # late: cli knows the contract

        raise SystemExit(main(cls))
