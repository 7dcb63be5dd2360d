"""The contract of an environment.

A new environment answers five questions: which rows there are (`tasks`), what the policy is asked (`conversations`),
what the judge says of its completions (`judge`), which reward that is (`reward`), and which metrics are recorded
(`record_metrics`). `judgegym.environments.evaluate` runs the rows of an evaluation, `judgegym.environments.rollouts`
the groups of training. One whose groups may be judged together (`judgegym.engine.settings.group_judge`) answers a
sixth: what the completions of a row have in common for a judge that compares them (`group_case`).

Read the types of an environment from its type parameters, and check its class attributes, when the class is made.

Guarantee: a method of an environment that returns something else than the contract says ends the command with one line
that names class and method, what came and what was expected.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, get_args, get_origin

from judgegym.data.rows import Split, TaskT
from judgegym.data.task_list import names_of
from judgegym.engine.completions import Clients, Completion, Conversation, system_messages
from judgegym.engine.metrics import GoldLabel, MetricAggregator, record_parts
from judgegym.engine.records import Sample
from judgegym.engine.settings import ConfigT, EnvConfig, EnvSettings
from judgegym.engine.settings.group_judge import GroupJudgeSettings, open_group_judge
from judgegym.engine.settings.verbs import Verb
from judgegym.engine.terminal.summary import Outcome
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.judges.core.naming import MetricNames
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.scorers.registry import ScorerSettings
from judgegym.llm.errors import DataError, UserError

if TYPE_CHECKING:
    from judgegym.environments.evaluate.row import RowRunner


def type_arguments(cls: type[Any], contract: type[Any]) -> tuple[Any, ...]:
    """Return the type arguments that a class and its bases give the contract; a type variable where one is open."""
    arguments: tuple[Any, ...] = contract.__parameters__
    for base in reversed(cls.__mro__):
        for alias in base.__dict__.get("__orig_bases__", ()):
            origin = get_origin(alias)
            if isinstance(origin, type) and issubclass(origin, contract):
                given = dict(zip(getattr(origin, "__parameters__", ()), get_args(alias), strict=False))
                arguments = tuple(given.get(argument, argument) for argument in arguments)
    return arguments


def problem_of(cls: type[Any], config_type: Any, detail_type: Any, *, has_case: bool) -> str | None:
    """Return what is wrong with an environment's class, or `None`; `has_case`: it has a `group_case` of its own."""
    if isinstance(config_type, TypeVar):
        return "the type parameters are missing: class MyEnv(JudgedEnv[MyConfig, MyTask, MyDetail])"
    if not (isinstance(config_type, type) and issubclass(config_type, EnvConfig)):
        return f"its first type parameter must be a subclass of EnvConfig, found {config_type!r}"
    if not (isinstance(detail_type, type) and dataclasses.is_dataclass(detail_type)):
        return f"its third type parameter must be a dataclass (the judgments' detail), found {detail_type!r}"
    if not isinstance(getattr(cls, "name", None), str):
        return 'the class attribute `name` is missing: name = "my_environment"'
    headline = getattr(cls, "headline", None)
    if not (isinstance(headline, tuple) and len(headline) == 2 and all(isinstance(part, str) for part in headline)):
        return 'the class attribute `headline` is missing: headline = ("mean_reward", "reward")'
    if issubclass(config_type, GroupJudgeSettings) and not has_case:
        return "its settings have group_judge, so that it needs the method `group_case`"
    return None


class ContractError(UserError):
    """The code of an environment breaks the contract."""


def _breach(env: object, name: str, problem: str) -> ContractError:
    """Return the error of a method that returned something else than the contract says; it names the class."""
    owner = next(cls for cls in type(env).__mro__ if name in vars(cls))
    return ContractError(f"{owner.__qualname__}.{name} {problem}")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


DetailT = TypeVar("DetailT")


class JudgedEnv(ABC, Generic[ConfigT, TaskT, DetailT]):
    """An environment whose reward is a judge: `class MyEnv(JudgedEnv[MyConfig, MyTask, MyDetail])`.

    Class attributes:
        name: the environment's name in paths and metric tables.
        headline: the metric, and its label, that the progress display and the training log show; a ratio, mean or rate
            that `record_metrics` adds to, so that each row's share of it is known. `open_judges` may set another one,
            where that depends on the settings.
        training_headline: the name of that metric in training, if it is another one.
        reward_range: the lowest and the highest reward of a judged completion, from which monitors of training make a
            score from 0 to 1, as a gold judge gives it.
        metric_notes: what a metric means whose name may mislead, for the table of an evaluation.
        offline_samples: the settings that name the bundled samples, for `--offline`.
        offline_prompts: the prompts of a judge of its own, for `--offline`; references are `path/to/file.py:NAME`.
        anchor_judge: the kind of judge that judges anchors (`judgegym score --judge`), where its settings are this
            environment's; `None` if anchors cannot be judged.
        invalid_completion_score: the score in evaluations of a completion in the wrong format, which counts as a wrong
            answer.
        config_type: the class of the settings, read from the type parameters.
        detail_type: the dataclass of a judgment's detail, read from the type parameters.

    Attributes:
        settings: all settings of the command.
        config: the settings under `env`.
        made_of: the same, if they may name several judges whose scores make one; else `None`.
        clients: the chat clients of judge and policy.
        verb: the command that runs the environment.
        policy_is_judge: the policy judges, and no other judge is called.
        group_judge: judges the completions of a group together; `None` if each is judged by itself.
        system_messages: the system prompt of a policy that answers; empty without one.
        metric_names: the names of the rows' categories and clusters in metrics; aggregators have it as `names`.
    """

    name: ClassVar[str]
    headline: tuple[str, str]
    training_headline: ClassVar[str | None] = None
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    metric_notes: ClassVar[Mapping[str, str]] = {}
    offline_samples: ClassVar[Mapping[str, str]] = {}
    offline_prompts: ClassVar[Sequence[str | PromptFormat]] = ()
    anchor_judge: ClassVar[str | None] = None
    config_type: ClassVar[type[EnvConfig]]
    detail_type: ClassVar[type[Any]]

    def __init_subclass__(cls, **options: object) -> None:
        """Read the types from the type parameters, and check the class attributes.

        Raises:
            TypeError: an attribute is missing, or a type parameter is not of the expected kind.
        """
        super().__init_subclass__(**options)
        config_type, _, detail_type = type_arguments(cls, JudgedEnv)
        if isinstance(config_type, type):
            cls.config_type = config_type
        if isinstance(detail_type, type):
            cls.detail_type = detail_type
        has_case = cls.group_case is not JudgedEnv.group_case
        problem = None if inspect.isabstract(cls) else problem_of(cls, config_type, detail_type, has_case=has_case)
        if problem is not None:
            raise TypeError(f"the environment {cls.__qualname__}: {problem}")

    def __init__(self, settings: EnvSettings[ConfigT], clients: Clients, *, verb: Verb) -> None:
        """Make the judges.

        Args:
            settings: validated settings of the command, with the URLs of the stand-ins.
            clients: the chat clients of judge and policy.
            verb: the command; with `serve`, evaluations are of the policy in training.

        Raises:
            SettingsError: the judge's API key is missing, or groups cannot be judged as the settings ask for.
        """
        self.settings = settings
        self.config: ConfigT = settings.env
        self.made_of = settings.env if isinstance(settings.env, JurySettings) else None
        self.clients = clients
        self.verb: Verb = verb
        self.policy_is_judge = self.config.policy_is_judge
        self.system_messages = system_messages(self.config)
        self._warned: set[str] = set()
        self.metric_names = MetricNames()
        self.group_judge = open_group_judge(self.config, verb, lambda: clients.judge)
        if not self.policy_is_judge:
            self.open_judges()

    def warn_once(self, logger: logging.Logger, message: str) -> None:
        """Log a warning about rows; once, where the rows of training and of the evaluations beside it are the same."""
        if message not in self._warned:
            self._warned.add(message)
            logger.warning("%s", message)

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[TaskT]:
        """Load the rows, in the order of the dataset: as a `TaskList`, which builds tasks when needed, or as a list.

        Raises:
            DataError: they cannot be loaded.
        """

    def load_tasks(self, split: Split) -> Sequence[TaskT]:
        """Return `tasks(split)`, and know their categories and clusters, so that the metrics of each have a name.

        Raises:
            DataError: they cannot be loaded.
            ContractError: they are no list of tasks.
        """
        tasks = self.tasks(split)
        if not _is_list(tasks):
            raise _breach(self, "tasks", f"returned {_kind(tasks)}; expected a list of tasks, or a TaskList")
        lacking = [name for name in ("uid", "question", "category") if tasks and not hasattr(tasks[0], name)]
        if lacking:
            problem = f"returned tasks without {' and '.join(lacking)}: the first one is {_kind(tasks[0])}"
            raise _breach(self, "tasks", problem)
        self.metric_names.add(names_of(tasks))
        return tasks

    @abstractmethod
    def conversations(self, task: TaskT) -> list[Conversation]:
        """Make the conversations that the policy is asked, at once; training takes the first of them."""

    def checked_conversations(self, task: TaskT, *, trains: bool = False) -> list[Conversation]:
        """Return `conversations(task)`; those of a training are texts.

        Raises:
            ContractError: they are no list of conversations.
            DataError: one has images, and `trains`.
        """
        conversations: Any = self.conversations(task)
        wrong = _kind(conversations) if not _is_list(conversations) else None if conversations else "no conversation"
        for conversation in () if wrong else conversations:
            if not _is_list(conversation) or not conversation:
                wrong = f"{_kind(conversation)} as a conversation"
            for message in () if wrong else conversation:
                if not isinstance(message, Mapping) or "role" not in message or "content" not in message:
                    wrong = f"{_kind(message)} as a message"
        if wrong:
            expected = 'expected a list of conversations, each a list of messages: [[Message(role="user", content=…)]]'
            raise _breach(self, "conversations", f"returned {wrong}; {expected}")
        if trains and any(message.get("images") for conversation in conversations for message in conversation):
            raise DataError(f"{self.name}: the row {task.uid!r} has images, and trainers are given texts")
        return cast("list[Conversation]", conversations)

    async def follow_up(self, task: TaskT, completions: Sequence[Completion]) -> str | None:
        """Return what the user says next in a row's only conversation; `None` ends it, as by default after one turn.

        Args:
            task: the row.
            completions: the policy's turns so far, at least one, each valid (`Completion.unjudgeable` is `None`).

        Raises:
            UserFailure: a simulated user gave no message; an `EndpointError` counts as this, too.
        """
        return None

    def has_follow_ups(self, task: TaskT) -> bool:
        """Return whether `follow_up` may go on after the first turn of a row; by default, if the environment has one.

        Nobody is asked: trainers that sample one turn refuse such a row.
        """
        return type(self).follow_up is not JudgedEnv.follow_up

    async def checked_judge(
        self, task: TaskT, completions: Sequence[Completion], earlier: Judgment[DetailT] | None = None
    ) -> Judgment[DetailT]:
        """Return what `judge` says, or `judge_again` of an earlier judgment; they need not be coroutines.

        Raises:
            ContractError: it is no judgment.
        """
        judgment: object = (
            self.judge(task, completions) if earlier is None else self.judge_again(task, completions, earlier)
        )
        if isawaitable(judgment):
            judgment = await judgment
        if not isinstance(judgment, Judgment):
            name = "judge" if earlier is None else "judge_again"
            raise _breach(self, name, f"returned {_kind(judgment)}; expected a Judgment")
        return judgment

    @abstractmethod
    async def judge(self, task: TaskT, completions: Sequence[Completion]) -> Judgment[DetailT]:
        """Judge the completions, one for each conversation, or for each turn of a conversation that has `follow_up`s.

        Return a judge's failure as a judgment, too.

        `judge_completions` calls this, and holds back completions that must not be judged.
        """

    @abstractmethod
    def record_metrics(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Record one finished row (`metrics.prefix` is `eval`) or one rollout of a group (`train`)."""

    def record_sample(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Record one row or rollout by `record_metrics`, and the scores of the judges that its score is made of."""
        self.record_metrics(metrics, task, sample)
        judgment = sample.judgment
        if self.made_of is not None and judgment is not None and judgment.score is not None:
            detail, jury = judgment.detail, self.unit(judgment) if self.made_of.is_jury else None
            numbers = detail.parts if isinstance(detail, ScoreParts) else judgment.members
            record_parts(metrics, self.made_of.part_names, numbers, jury)

    async def judge_again(
        self, task: TaskT, completions: Sequence[Completion], earlier: Judgment[DetailT]
    ) -> Judgment[DetailT]:
        """In training, ask once more for what a judgment lacks: for all of it, where the judge failed."""
        return await self.judge(task, completions) if earlier.status.is_failure else earlier

    async def level(
        self, task: TaskT, rollouts: Sequence[Sequence[Completion]], judgments: Sequence[Judgment[DetailT]]
    ) -> Sequence[Judgment[DetailT]]:
        """Return the judgments of a group such that all scores are on one scale; by default as they are.

        Called in training, where rollouts are judged each by itself, with the completions of each, one a turn; of equal
        rollouts there is one.
        """
        return judgments

    @property
    def depends_on_group(self) -> bool:
        """Return whether a reward depends on the other rollouts of its group, though each is judged by itself.

        Trainers whose samples come one by one then wait for the group. By default, if `level` or `rewards` are its own.
        """
        own = type(self)
        return own.level is not JudgedEnv.level or own.rewards is not JudgedEnv.rewards

    def group_case(self, task: TaskT) -> JudgeTask:
        """Return what a judge of groups is shown of a row beside the completions, which it compares: no responses yet.

        Its rubric is the criteria; its baseline is one more member of the group, with which the others are compared.

        Needed by an environment whose settings are `GroupJudgeSettings`. `judge`, `reward`, `drop_reason` and
        `record_metrics` are not called for a group that is judged so.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no group_case")

    def reward(self, judgment: Judgment[DetailT]) -> float:
        """Return the reward of a judgment with a score, a finite number; by default the score."""
        assert judgment.score is not None  # only judgments with a score get here
        return judgment.score

    def rewards(self, judgments: Sequence[Judgment[DetailT]]) -> Sequence[float | None]:
        """Return the rewards of the judgments of a group that have a score; `None` for one that cannot be compared."""
        rewards: list[float] = [self.reward(judgment) for judgment in judgments]
        for reward in rewards:
            try:
                wrong = None if isinstance(reward, Real) and math.isfinite(reward) else _kind(reward)  # also numpy's
            except OverflowError:
                wrong = "an integer beyond the range of floats"
            if wrong is not None:
                shown = repr(reward) if isinstance(reward, float) else wrong
                raise _breach(self, "reward", f"returned {shown}; expected a finite number")
        return rewards

    @property
    def judge_kind(self) -> str | None:
        """Return the kind of judge that judges anchors, as `judgegym score --judge` names it; `None` without one."""
        if isinstance(self.config, ScorerSettings):
            return self.config.judge
        return None if self.made_of is not None and self.made_of.is_jury else self.anchor_judge

    @property
    def invalid_completion_score(self) -> float:
        """Return the score of a completion in the wrong format."""
        return 0.0

    def unit(self, judgment: Judgment[DetailT]) -> float:
        """Return the reward of a judgment with a score as a number from 0 to 1: the scale of every gold judge."""
        low, high = self.reward_range
        return min(1.0, max(0.0, (self.reward(judgment) - low) / (high - low)))

    def drop_reason(self, judgments: Sequence[Judgment[DetailT]]) -> str | None:
        """Return why a scored group must not be sent, as one word for `train/groups_dropped_{word}`, or `None`."""
        return None

    def outcomes(self) -> Sequence[Outcome]:
        """Name the metrics that the printed table shows beside the headline; by default none."""
        return ()

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[TaskT]) -> None:
        """Name (`metrics.expect`) the documented metrics of these rows, with the reason why one may have no value."""

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> None:
        """Record metrics that need all finished rows; none by default.

        Each row is read from the run directory when it is asked for: go through `rows`, and keep numbers of them.
        """

    def record_failure(self, metrics: MetricAggregator, task: TaskT, sample: Sample[DetailT]) -> None:
        """Record one failed row; the counts that all environments share are recorded elsewhere."""

    def texts(self, task: TaskT) -> Mapping[str, str]:
        """Return the row's texts beside its question, by title, for those who read its sample; by default none."""
        return {}

    def orders(self, judgment: Judgment[DetailT]) -> Mapping[str, float]:
        """Return the points (0 to 1) of the judged answer in each order in which answers were compared.

        By default none: there is no comparison, or one order.
        """
        return {}

    def gold(self, task: TaskT, sample: Sample[DetailT]) -> Sequence[GoldLabel]:
        """Return the row's gold labels, each beside what the judge said of it; by default none."""
        return ()

    def verdict_at(self, task: TaskT, answer: str) -> Place | None:
        """Return from where to where in its answer a policy that judges has its verdict, for the ledger of calls.

        By default it is not known.
        """
        return None

    def dataset_answer(self, task: TaskT) -> str | None:
        """Return the row's own answer, if an evaluation is to judge that instead of the policy's; by default none."""
        return None

    def open_judges(self) -> None:
        """Make the judges, so that an error in their settings is reported before the first call.

        Not called if the policy is the judge.
        """
        _ = self.clients.judge

    def row_runner(self) -> RowRunner[TaskT, DetailT] | None:
        """Return what evaluates a row, if that is more than asking the policy and judging its completions."""
        return None

    @classmethod
    def kind_for(cls, settings: EnvSettings[ConfigT]) -> type[JudgedEnv[ConfigT, Any, Any]]:
        """Return the class that runs these settings: this one, or another that evaluates the same rows in another way.

        By default this one.
        """
        return cls

    @classmethod
    def cli(cls) -> None:
        """Run the command line (`serve`, `process`, `evaluate`), and exit with the command's code."""
        from judgegym.environments.command_line.main import main  # late: cli knows the contract

        raise SystemExit(main(cls))
