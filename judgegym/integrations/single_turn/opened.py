"""An environment that is open in this process, for a trainer that samples by itself.

Guarantees: equal sources share one environment, with its rows, its judge's limits and its judgment cache; any event
loop, or none, may ask for rewards, which are made on the background loop of the process and closed with it; rewards are
those of `serve`: equal completions of a row are judged once, a failed judgment is asked for once more, and one that
fails for good has no reward.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing
from typing import Any

from environments.base import JudgedEnv
from environments.clients import Clients
from environments.command_line import offline
from environments.command_line.arguments import load_settings
from environments.completions import read_completion
from environments.data.task_list import positions_of, uids_of
from environments.metrics import MetricAggregator
from environments.rollouts.judging import judge_completions_of, record_judged
from judgegym._command.environments import load_environment
from judgegym.integrations.single_turn.results import Rewarded, Row
from judgegym.integrations.single_turn.source import EnvironmentSource
from judges.config.extras import require
from judges.core.background import BACKGROUND
from judges.llm.errors import DataError
from judges.llm.transport import open_session
from judges.llm.wire import Choice

_PREFIX = "train"


class OpenedEnvironment:
    """The rows of an environment, and the rewards of completions."""

    def __init__(self, env: JudgedEnv[Any, Any, Any], source: EnvironmentSource, stack: AsyncExitStack) -> None:
        """Load the rows; `opened` is how others get an environment.

        Raises:
            DataError: the rows cannot be loaded.
        """
        self.source = source
        self.name = env.name
        self._env = env
        self._tasks: Sequence[Any] = env.tasks(source.split)
        self._stack = stack

    @property
    def uids(self) -> Sequence[str]:
        """The ids of all rows, in the order of the dataset."""
        return uids_of(self._tasks)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._tasks)

    def row(self, uid: str) -> Row:
        """The row with an id.

        Raises:
            DataError: there is none.
        """
        return self._row(self._task(uid))

    def rows(self) -> Iterator[Row]:
        """All rows in the order of the dataset; each is read when it is its turn."""
        return (self._row(task) for task in self._tasks)

    @property
    def compares(self) -> bool:
        """Whether the completions of a row are judged against each other, and must be given together."""
        return self._env.group_judge is not None

    async def rewards(self, uid: str, completions: Sequence[str | Choice]) -> list[Rewarded]:
        """Judge the completions of one row, all at once; with a judge of groups, against each other.

        Args:
            uid: the row's id.
            completions: what the policy has answered: texts, or choices with their finish reason and reasoning.

        Returns:
            A result for each completion, in order. A failed judge is a result without a reward, not an error.

        Raises:
            DataError: there is no such row.
        """
        return await BACKGROUND.join(self._rewards(uid, completions))

    def rewards_sync(self, uid: str, completions: Sequence[str | Choice]) -> list[Rewarded]:
        """The same as `rewards`, in code without `await`."""
        return BACKGROUND.run(self._rewards(uid, completions))

    async def _rewards(self, uid: str, completions: Sequence[str | Choice]) -> list[Rewarded]:
        env, task = self._env, self._task(uid)
        choices = [Choice(each) if isinstance(each, str) else each for each in completions]
        read = [read_completion(choice, env.config) for choice in choices]
        judged = await judge_completions_of(env, task, read)
        results = []
        for completion, judgment, reward in zip(read, judged.judgments, judged.rewards, strict=True):
            metrics = MetricAggregator(_PREFIX, rounds=0)
            if not judgment.status.is_failure:
                record_judged(env, metrics, task, completion, judgment, judged.together)
            values = {name.removeprefix(f"{_PREFIX}/"): float(value) for name, value in metrics.result().values.items()}
            results.append(Rewarded(reward, judgment.status, judgment.label, judgment.explanation, values))
        return results

    def _task(self, uid: str) -> Any:
        place = positions_of(self._tasks).get(uid)
        if place is None:
            raise DataError(f"{self.name}: no row {uid!r} among the {len(self)} rows of the split {self.source.split}")
        return self._tasks[place]

    def _row(self, task: Any) -> Row:
        return Row(task.uid, tuple(self._env.conversations(task)[0]), task.question, task.category)

    async def close(self) -> None:
        """Close the judge's connections; to be run on the background loop."""
        await self._stack.aclose()


_OPENED: dict[EnvironmentSource, OpenedEnvironment] = {}
_OPENING = threading.Lock()


def opened(source: EnvironmentSource) -> OpenedEnvironment:
    """The environment of a source: the one that is open in this process, or else a new one.

    Reads the rows, which may take seconds; not to be called on the background loop.

    Raises:
        SettingsError: a setting is wrong, or the judge's API key is missing.
        DataError: the rows cannot be loaded.
    """
    with _OPENING:
        if source not in _OPENED:
            _OPENED[source] = BACKGROUND.run(_open(source))
        return _OPENED[source]


def close_opened(source: EnvironmentSource) -> None:
    """Close the environment of a source now, if it is open; the next `opened` opens it again."""
    with _OPENING:
        _close(_OPENED.pop(source, None))


def close_all() -> None:
    """Close all environments now; otherwise they are closed when the process ends."""
    with _OPENING:
        while _OPENED:
            _close(_OPENED.popitem()[1])


def _close(environment: OpenedEnvironment | None) -> None:
    if environment is not None:
        BACKGROUND.forget(environment.close)
        BACKGROUND.run(environment.close())


async def _open(source: EnvironmentSource) -> OpenedEnvironment:
    require("environments")
    env_type = load_environment(source.environment)
    loaded = load_settings(env_type, source.arguments, verb="serve")
    stack = AsyncExitStack()
    try:
        standing_in = offline.running(loaded, env_type.offline_prompts, with_policy=False)
        settings = await stack.enter_async_context(standing_in)
        session = await stack.enter_async_context(open_session())
        clients = stack.enter_context(closing(Clients(settings, session)))
        env = env_type.kind_for(settings)(settings, clients, verb="serve")
        environment = OpenedEnvironment(env, source, stack)
    except BaseException:  # any error, also a cancellation: close what is open, and raise it
        await stack.aclose()
        raise
    BACKGROUND.at_exit(environment.close)
    return environment
