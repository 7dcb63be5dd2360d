"""Tasksets that are made from environments: their rows as tasks, and their judgments as rewards.

Guarantees: the reward of a trace is that of `serve` for the same completion; a failed judge raises, so that the trace
is not `ok` and has no reward (verifiers 0.4.0, `v1/task.py`); a task carries the name of its environment and its row's
id, so that the worker of an env server finds the row by itself; nothing needs the runtime, so that `vf-replay`
rescores, also with other settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import verifiers.v1 as vf
from pydantic import Field, model_validator
from typing_extensions import Self

from judgegym.integrations.scores.results import CompletionReward
from judgegym.integrations.single_turn.opened import OpenedEnvironment, opened
from judgegym.integrations.single_turn.source import EnvironmentRow, EnvironmentSource
from judgegym.integrations.verifiers.recording import record
from judgegym.integrations.verifiers.scores import refuse_secrets
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, Choice

REWARD = "judgegym"


class EnvironmentTaskConfig(vf.TaskConfig):
    """Settings of the environment, under `--env.taskset.task.*`."""

    environment: str = ""
    """For the taskset `judgegym-environment`: `path/to/file.py:Class`, `package.module:Class` or a built-in name."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment as under `--env.`, such as `judge_model_name`."""
    config: str = ""
    """A preset or YAML file with further settings."""
    split: Literal["train", "eval"] = "train"
    """Which rows."""
    offline: bool = False
    """Judge with the stand-in, on the bundled samples; its rewards mean nothing."""

    @model_validator(mode="after")
    def _has_no_secrets(self) -> Self:
        refuse_secrets(self.settings, "settings")
        return self

    def source(self, environment: str) -> EnvironmentSource:
        """The environment with these settings.

        Raises:
            SettingsError: a setting has no counterpart in JSON.
        """
        return EnvironmentSource.of(
            environment, self.settings, config=self.config or None, offline=self.offline, split=self.split
        )


class EnvironmentTasksetConfig(vf.TasksetConfig):
    """Settings of a taskset that is made from an environment."""

    task: EnvironmentTaskConfig = EnvironmentTaskConfig()


class EnvironmentData(vf.TaskData):
    """A row of an environment: what a worker needs to find it again."""

    environment: str
    uid: str
    category: str | None = None


class EnvironmentTask(vf.Task[EnvironmentData, vf.State, EnvironmentTaskConfig]):
    """A row of an environment, whose completions the environment judges."""

    @property
    def key(self) -> str:
        """The row's identity."""
        return f"{self.data.environment}/{self.config.split}/{self.data.uid}"

    @vf.reward(weight=1.0)
    async def judgegym(self, trace: vf.Trace) -> float:
        """The environment's reward of the trace's last reply.

        Raises:
            NoRewardError: the judge failed.
        """
        (verdict,) = await self.judged([trace])
        self.record(verdict, trace, REWARD)
        if verdict.reward is None:
            raise verdict.error()
        return verdict.reward

    async def judged(self, traces: Sequence[vf.Trace]) -> list[CompletionReward]:
        """What the environment says of the last replies; with its `group_judge`, compared with each other."""
        environment = await asyncio.to_thread(self._opened)
        return await environment.rewards(self.data.uid, [choice_of(trace) for trace in traces])

    def record(self, verdict: CompletionReward, trace: vf.Trace, name: str) -> None:
        """Record a verdict under the name of its reward."""
        request: Mapping[str, JSON] = {"environment": self.data.environment, "uid": self.data.uid}
        record(verdict, trace, name, request)

    def _opened(self) -> OpenedEnvironment:
        return opened(self.config.source(self.data.environment))


class EnvironmentTaskset(vf.Taskset[EnvironmentTask, EnvironmentTasksetConfig]):
    """The rows of an environment; a subclass names it."""

    ENVIRONMENT: ClassVar[str] = ""

    def load(self) -> Iterator[EnvironmentTask]:
        """The tasks, in the order of the dataset.

        Raises:
            SettingsError: no environment is named, or a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        environment = self._environment()
        rows = opened(self.config.task.source(environment)).rows()
        return (EnvironmentTask(_data(row, environment), self.config.task) for row in rows)

    def _environment(self) -> str:
        given = self.config.task.environment
        if self.ENVIRONMENT:
            if given:
                raise SettingsError("task.environment: only with the taskset judgegym-environment")
            return self.ENVIRONMENT
        if not given:
            raise SettingsError("task.environment: expected path/to/file.py:Class or package.module:Class")
        path, colon, name = given.partition(":")
        return f"{Path(path).resolve()}{colon}{name}" if path.endswith(".py") else str(given)


def taskset_of(environment: str) -> type[EnvironmentTaskset]:
    """The taskset's class for an environment."""
    name = f"{environment.title().replace('_', '')}Taskset"
    return type(name, (EnvironmentTaskset,), {"ENVIRONMENT": environment, "__module__": __name__})


def choice_of(trace: vf.Trace) -> Choice:
    """The policy's last reply, with its reasoning and the reason why it ended."""
    messages = trace.assistant_messages
    reasoning = messages[-1].reasoning_content if messages else None
    ended = next((call.finish_reason for call in reversed(trace.calls) if call.error is None), None)
    return Choice(trace.last_reply, reasoning=reasoning, finish_reason=ended)


def _data(row: EnvironmentRow, environment: str) -> EnvironmentData:
    """A row as data: a system prompt of its own, and one question as text."""
    messages = [dict(message) for message in row.messages]
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else None
    is_question = len(messages) == 1 and messages[0]["role"] == "user"
    return EnvironmentData(
        environment=environment,
        uid=row.uid,
        category=row.category,
        id=row.uid,
        name=row.uid,
        prompt=messages[0]["content"] if is_question else messages,
        system_prompt=system,
    )
