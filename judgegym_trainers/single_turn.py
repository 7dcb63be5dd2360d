"""Environments for trainers that sample themselves: messages of rows, rewards of completions.

An `EnvironmentSource` names an environment and its settings. Guarantees: it is a small value that
pickles, compares and hashes, so that it can be sent to other processes and find there the
environment that is already open; nothing is read before it is opened; its `repr` shows no setting,
since settings may include an API key.

An `OpenedEnvironment` is open in this process. Guarantees: equal sources share one environment,
with its rows, its judge's limits and its judgment cache; while one is opened, others keep working;
any thread and any event loop, or none, may ask for rewards, which are made on the process's
background loop and closed with it. Rewards are those of `serve`: identical completions of a row are
judged once, a failed judgment is retried once, and a completion whose judge fails for good has no
reward. If the judge's endpoint rejects key or model from the first request on, or refuses the first
eight calls, a `SettingsError` says so. A child that was forked from a process with open
environments can read their rows. For rewards it must be started with the method spawn; an error
says so.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from judgegym.cli.environments import load_environment
from judgegym.data.rows import Split
from judgegym.data.task_list import index_uids, list_uids
from judgegym.engine.completions import Clients, Completion, read_completion
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.settings import EnvSettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line import offline
from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.contract import (
    has_follow_up,
    load_tasks,
    make_conversations,
    open_environment,
)
from judgegym.environments.rollouts.judging import (
    depends_on_group,
    judge_row_completions,
    record_rollout,
)
from judgegym.judges.config.extras import require
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import refuse_unknown
from judgegym.llm import wire
from judgegym.llm.errors import DataError, EndpointOutage, SettingsError
from judgegym.llm.http.exchange import open_session
from judgegym.llm.wire import Choice, Message
from judgegym_trainers.scores.requests import CellError, CompletionRow, to_json
from judgegym_trainers.scores.results import (
    JUDGE_FAILED,
    CompletionReward,
    FirstRequests,
    RefusedError,
    make_failures,
)

UID = "uid"
"""The field of a sample that has its row's id in the environment."""
_ARGUMENTS = ("environment", "settings", "config", "offline", "split")


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """An environment with its settings.

    Attributes:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`,
            `package.module:Class`.
        arguments: its settings as on the command line, such as `--env.judge_model_name=gpt-6-luna`.
            As there, environment variables are read beside them, and relative paths are those of
            the process that opens it.
        split: the split of its rows.
    """

    environment: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    split: Split = "train"

    @classmethod
    def from_settings(
        cls,
        environment: str,
        settings: Mapping[str, object] | None = None,
        *,
        config: str | Path | None = None,
        offline: bool = False,
        split: Split = "train",
    ) -> EnvironmentSource:
        """Make a source from settings in any configuration library's containers.

        Args:
            environment: like the attribute.
            settings: the settings under `env`, without that prefix, such as `{"judge_model_name":
                "gpt-6-luna"}`; `None` means the default.
            config: a YAML file or a preset with further settings.
            offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
            split: the split of its rows.

        Raises:
            SettingsError: a value has no counterpart in JSON, or the split is not known.
        """
        if split not in ("train", "eval"):
            raise SettingsError(f"split: expected train or eval, found {split!r}")
        setting_arguments = [
            _format_argument(name, value)
            for name, value in (settings or {}).items()
            if value is not None
        ]
        arguments = [
            *(() if config is None else (f"--config={config}",)),
            *setting_arguments,
            *(("--offline",) if offline else ()),
        ]
        return cls(environment, tuple(arguments), split)


def parse_source(value: EnvironmentSource | Mapping[str, object] | str) -> EnvironmentSource:
    """Parse a source: itself, a name, or the arguments of `EnvironmentSource.from_settings`.

    Raises:
        SettingsError: an argument is unknown or wrong.
    """
    if isinstance(value, EnvironmentSource):
        return value
    if isinstance(value, str):
        return EnvironmentSource.from_settings(value)
    refuse_unknown(value, _ARGUMENTS, prefix="environment.")
    values = cast("dict[str, Any]", to_json(value))
    if not isinstance(values.get("environment"), str) or not isinstance(
        values.get("settings", {}), Mapping
    ):
        raise SettingsError(
            "environment: expected `environment`, its name, and optionally a mapping of `settings`"
        )
    return EnvironmentSource.from_settings(
        values.pop("environment"), values.pop("settings", None), **values
    )


def _format_argument(name: str, value: object) -> str:
    """Format a setting for the command line: text unchanged, anything else as JSON.

    Raises:
        SettingsError: the value has no counterpart in JSON.
    """
    try:
        converted = to_json(value)
    except CellError as error:
        raise SettingsError(f"settings.{name}: {error}") from None
    if not isinstance(converted, str):
        converted = wire.dumps(converted).decode()
    return f"--env.{name}={converted}"


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """A row of an environment.

    Attributes:
        uid: its id, unique in the dataset.
        messages: the policy's prompt, system prompt included.
        question: the text that identifies the row in reports.
        category: for metrics by category.
    """

    uid: str
    messages: tuple[Message, ...]
    question: str
    category: str | None = None


_PREFIX = "train"
_CLOSED = (
    "the environment was closed, as by the end of another training, before the judge had answered"
)
_NOT_COMPARABLE = (
    "the judges that answered have too few of these completions in common to compare their scores"
)


@runtime_checkable
class HasFollowUps(Protocol):
    """An environment that knows, without a model call, whether a row may have a second turn."""

    def has_follow_ups(self, task: Any) -> bool:
        """Return whether `follow_up` may continue after the first turn of a row."""


def _find_conversation(env: JudgedEnv[Any, Any, Any], tasks: Sequence[Any]) -> str | None:
    """Return the id of the first row that may have several turns; `None` if none may."""
    if not has_follow_up(env):  # no row is read once more
        return None
    for task in tasks:
        if not isinstance(env, HasFollowUps) or env.has_follow_ups(task):
            uid: str = task.uid
            return uid
    return None


class OpenedEnvironment:
    """The rows of an environment, and rewards of completions."""

    def __init__(
        self, env: JudgedEnv[Any, Any, Any], source: EnvironmentSource, stack: AsyncExitStack
    ) -> None:
        """Load the rows; use `get_environment` to get an environment.

        Raises:
            DataError: the rows cannot be loaded.
            SettingsError: a row is a conversation of several turns; a trainer samples only the
                first.
        """
        self.source = source
        self.name = env.spec.name
        self._env = env
        self._tasks: Sequence[Any] = load_tasks(env, source.split)
        if multi_turn_uid := _find_conversation(env, self._tasks):
            raise SettingsError(
                f"{self.name}: the row {multi_turn_uid!r} is a conversation of several turns, and "
                "trainers that sample by themselves have only the first; expected rows of one "
                "turn, or `judgegym serve`, which plays all turns"
            )
        self._stack = stack
        self._is_closed = False
        self._first_requests = FirstRequests()

    @property
    def uids(self) -> Sequence[str]:
        """The ids of all rows, in the order of the dataset."""
        return list_uids(self._tasks)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._tasks)

    def row(self, uid: str) -> EnvironmentRow:
        """Return the row with an id.

        Raises:
            DataError: there is no such row.
        """
        return self._make_row(self._find_task(uid))

    def rows(self) -> Iterator[EnvironmentRow]:
        """Iterate over all rows in the order of the dataset; each row is read when it is needed."""
        return (self._make_row(task) for task in self._tasks)

    @property
    def compares(self) -> bool:
        """Whether a row's completions are judged against each other, and must be given together."""
        return self._env.group_judge is not None

    @property
    def depends_on_group(self) -> bool:
        """Whether a completion's reward depends on its row's other completions in the call."""
        return not self.compares and depends_on_group(self._env)

    async def rewards(
        self, uid: str, completions: Sequence[str | Choice]
    ) -> list[CompletionReward]:
        """Judge the completions of one row concurrently; a judge of groups compares them.

        Args:
            uid: the row's id.
            completions: the policy's completions: texts, or choices with finish reason and
                reasoning.

        Returns:
            A result for each completion, in order. A failed judge is a result without a reward, not
            an error.

        Raises:
            DataError: there is no such row.
            RuntimeError: the environment is closed.
            SettingsError: the judge's endpoint refuses the key, the model or all completions, and
                has judged nothing so far.
        """
        return await BACKGROUND.join(self._rewards(uid, completions))

    def rewards_sync(self, uid: str, completions: Sequence[str | Choice]) -> list[CompletionReward]:
        """Judge completions like `rewards`, in code without `await`."""
        return BACKGROUND.run(self._rewards(uid, completions))

    async def _rewards(
        self, uid: str, completions: Sequence[str | Choice]
    ) -> list[CompletionReward]:
        if self._is_closed:
            raise RuntimeError(
                f"{self.name}: the environment has been closed; `get_environment` opens it again"
            )
        env = self._env
        task = self._find_task(uid)
        choices = [
            Choice(completion) if isinstance(completion, str) else completion
            for completion in completions
        ]
        parsed = [read_completion(choice, env.config) for choice in choices]
        try:
            with self._first_requests:
                judgments, rewards, together = await judge_row_completions(
                    env, task, [(sampled,) for sampled in parsed]
                )
        except EndpointOutage as outage:
            results = make_failures(str(outage), len(choices))
        except RuntimeError:  # aiohttp's, of a session that is closed
            if not self._is_closed:
                raise
            return make_failures(_CLOSED, len(choices))
        else:
            outcomes = zip(parsed, judgments, rewards, strict=True)
            results = [self._make_result(task, *outcome, together) for outcome in outcomes]
        # If a judge refuses all requests from the start, a trainer would get no reward at all.
        self._first_requests.check([(uid, results)])
        return results

    def _make_result(
        self,
        task: Any,
        completion: Completion,
        judgment: Judgment[Any],
        reward: float | None,
        together: Any,
    ) -> CompletionReward:
        problem = ""
        if (
            reward is None and judgment.status is Status.OK
        ):  # scores that are not comparable with the others'
            problem = _NOT_COMPARABLE
        elif reward is not None and not math.isfinite(reward):  # of an environment of the user's
            problem = f"the reward is {reward}"
        if problem:
            return CompletionReward(None, JUDGE_FAILED, judgment.label, problem)
        metrics = MetricAggregator(_PREFIX, intervals=False)
        if not judgment.status.is_failure:
            record_rollout(self._env, metrics, task, (completion,), judgment, together)
        values = {
            name.removeprefix(f"{_PREFIX}/"): float(value)
            for name, value in metrics.result().values.items()
        }
        return CompletionReward(
            reward, judgment.status.value, judgment.label, judgment.explanation, values
        )

    def _find_task(self, uid: str) -> Any:
        index = index_uids(self._tasks).get(uid)
        if index is None:
            count = len(self)
            split = self.source.split
            raise DataError(
                f"{self.name}: no row {uid!r} among the {count} rows of the split {split}"
            )
        return self._tasks[index]

    def _make_row(self, task: Any) -> EnvironmentRow:
        messages = tuple(make_conversations(self._env, task, trains=True)[0])
        return EnvironmentRow(task.uid, messages, task.question, task.category)

    async def close(self) -> None:
        """Close the judge's connections; call it on the background loop."""
        self._is_closed = True
        await self._stack.aclose()


_OPENED: dict[EnvironmentSource, Future[OpenedEnvironment]] = {}
_CHANGES = threading.Lock()
"""Held while `_OPENED` is changed, never while rows are read."""


def get_environment(source: EnvironmentSource) -> OpenedEnvironment:
    """Return the environment of a source, and open it unless this process has it open.

    Opening reads the rows in the calling thread, which may take seconds; do not call it on the
    background loop.

    Raises:
        SettingsError: a setting is wrong, or the judge's API key is missing.
        DataError: the rows cannot be loaded.
    """
    with _CHANGES:
        existing = _OPENED.get(source)
        opening = existing or _OPENED.setdefault(source, Future())
    if existing is not None:
        return existing.result()
    try:
        environment = _open(source)
    except (
        BaseException
    ) as error:  # any error, also Ctrl-C: waiting threads get it, and the next call tries again
        with _CHANGES:
            if _OPENED.get(source) is opening:
                del _OPENED[source]
        opening.set_exception(error)
        raise
    opening.set_result(environment)
    return environment


def close_opened(*sources: EnvironmentSource) -> None:
    """Close the environments of these sources now, or all; `get_environment` opens them again."""
    with _CHANGES:
        futures = [_OPENED.pop(source) for source in sources or list(_OPENED) if source in _OPENED]
    for opening in futures:
        if opening.exception() is None:
            environment = opening.result()
            BACKGROUND.forget(environment.close)
            BACKGROUND.run(environment.close())


def close_all() -> None:
    """Close all environments now; otherwise they are closed when the process ends."""
    close_opened()


def _reset_after_fork() -> None:
    """Forget environments that the parent's other threads were opening: nobody finishes them."""
    global _CHANGES
    _CHANGES = threading.Lock()
    for source, opening in list(_OPENED.items()):
        if not opening.done():
            del _OPENED[source]


os.register_at_fork(after_in_child=_reset_after_fork)


def _open(source: EnvironmentSource) -> OpenedEnvironment:
    require("environments")
    env_type = load_environment(source.environment)
    loaded = load_settings(env_type, source.arguments, verb="serve")
    stack = AsyncExitStack()
    try:
        env = BACKGROUND.run(_make_environment(env_type, loaded, stack))
        environment = OpenedEnvironment(env, source, stack)
    except BaseException:  # any error, also Ctrl-C: close what is open, and raise it
        BACKGROUND.run(stack.aclose())
        raise
    BACKGROUND.close_at_exit(environment.close)
    return environment


async def _make_environment(
    env_type: type[JudgedEnv[Any, Any, Any]],
    loaded: LoadedSettings[EnvSettings[Any]],
    stack: AsyncExitStack,
) -> JudgedEnv[Any, Any, Any]:
    """Make the environment with its connections, which `stack` closes."""
    stand_in = offline.run_stand_ins(loaded, env_type.spec.offline_prompts, with_policy=False)
    settings = await stack.enter_async_context(stand_in)
    session = await stack.enter_async_context(open_session())
    clients = stack.enter_context(closing(Clients(settings, session)))
    return open_environment(env_type, settings, clients, "serve")


class EnvironmentScores:
    """A `Source` of an environment's rewards.

    Completions name their row in the field `UID`, and optionally its `split`.
    """

    def __init__(self, source: EnvironmentSource) -> None:
        """Use this environment, which opens at the first completion."""
        self._source = source

    async def score(self, group: Sequence[CompletionRow]) -> list[CompletionReward]:
        """See `Source`.

        Raises:
            RefusedError: the completions name no row.
            DataError: there is no such row, or the rows cannot be loaded.
            SettingsError: a setting is wrong.
        """
        uid = group[0].shared.get(UID)
        if not isinstance(uid, str):
            raise RefusedError(
                f"expected the id of one row of {self._source.environment}, found {uid!r}"
            )
        source = replace(
            self._source, split=cast("Split", group[0].shared.get("split", self._source.split))
        )
        environment = await asyncio.to_thread(
            get_environment, source
        )  # reads the rows at the first call
        responses = [row.response for row in group if isinstance(row.response, str | Choice)]
        if len(responses) < len(group):
            raise RefusedError(
                f"expected the policy's text, found messages: {self._source.environment} asks one "
                "turn"
            )
        return await environment.rewards(uid, responses)

    async def close(self) -> None:
        """Do nothing: the environment belongs to the process, and equal sources share it."""
