"""Plugins for verifiers (`import verifiers.v1`): judges, tasksets and an Env for groups.

verifiers finds a plugin by the name of a top-level module: `setup.py` lists these names, and each
is a copy of `verifiers_plugin/`, which takes the classes of its name from `plugin`. prime-rl uses
the same ids.

Judges are plugged in with `[[env.taskset.task.judges]]`. Guarantees: a score from 0 to 1 for each
trace, or an error if the judge failed, so that the trace is not `ok` and has no reward; traces of
one process share connections, limits and the judge's cache. A judge that compares needs a server,
or a judge in this process, that gathers the traces of a task (`group_size`); the Env
`judgegym-group` does not.

Tasksets have an environment's rows as tasks, and its judgments as rewards. Guarantees: the reward
of a trace is that of `serve` for the same completion; a task has the name of its environment and
its row's id, so that the worker of an env server finds the row by itself; nothing needs the
runtime, so that `vf-replay` rescores, even with other settings.

The Env runs n attempts of a task at once. Guarantees: one judgment of all successful attempts, by
the environment of the task or by a judge of groups; each attempt gets its own reward, `group`; an
attempt without a verdict has none, and its trace is not `ok`, so that prime-rl does not train on
it. `keep_scored` keeps the other traces: prime-rl leaves out all traces of an episode that is not
`ok`.

Explanation and status of a judgment are in `trace.info["judge_calls"]`, where verifiers records its
own judges; metrics say whether the judge failed and whether the completion was empty or in the
wrong format.

Source: verifiers 0.4.0 of November 2026 (`v1/task.py`, `v1/env.py`), prime-rl of August 2026
(`orchestrator/envs.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from judgegym.cli.environments import built_in_modules
from judgegym.judges.config.extras import report_missing_extra
from judgegym.judges.scorers.registry import JUDGES
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, Choice
from judgegym_trainers.scores.requests import (
    FIELDS,
    CompletionRow,
    convert_conversation,
    read_request_fields,
    read_tool_fields,
)
from judgegym_trainers.scores.results import CompletionReward, NoRewardError
from judgegym_trainers.scores.sources import DEADLINE_S, TIMEOUT_S, JudgeSource, find_secret
from judgegym_trainers.single_turn import (
    EnvironmentRow,
    EnvironmentSource,
    OpenedEnvironment,
    get_environment,
)

with report_missing_extra("verifiers"):
    import verifiers.v1 as vf
    from verifiers.v1.harnesses.null import NullHarness

REWARD = "judgegym"
GROUP_REWARD = "group"
_MIN_ATTEMPTS = 2
_UNSET = ""
_CLIENT_SETTINGS = {
    "model": "judge_model_name",
    "base_url": "judge_base_url",
    "api_key_var": "judge_api_key_env",
}
"""verifiers' setting names, with the names of a judge in this process."""


def record(
    result: CompletionReward,
    trace: vf.Trace,
    name: str,
    request: Mapping[str, Any],
    *,
    prefix: str = "",
) -> None:
    """Record a judgment on its trace.

    Args:
        result: the judgment's result.
        trace: the judged trace.
        name: the reward's name.
        request: the judge's request.
        prefix: prefix of the metrics' names.
    """
    parsed = {"score": result.reward, "status": result.status, "label": result.label}
    response = vf.JudgeResponse(text=result.explanation, parsed=parsed)
    trace.record_judge_call(name=name, request=request, response=response)
    metrics = {**result.metrics, **result.flags}
    trace.record_metrics({f"{prefix}{metric}": value for metric, value in metrics.items()})


def refuse_secrets(settings: Mapping[str, object], within: str = "") -> None:
    """Refuse keys among settings, which verifiers writes into the run's directory.

    Raises:
        ValueError: a setting is secret.
    """
    problem = find_secret(settings, within)
    if problem is not None:
        raise ValueError(problem)


class ScoresConfig(vf.BaseConfig):
    """A reward server, or a judge in this process."""

    url: str = ""
    """URL of the reward server, such as http://127.0.0.1:8400; empty for a judge in process."""
    mount: str = ""
    """Name of a judge at the server; empty for the judge at the root."""
    token_env: str = ""
    """Environment variable with the server's bearer token."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of a judge in this process, under the server's names, such as `judge_model_name`."""
    offline: bool = False
    """Judge with the stand-in in this process; its scores mean nothing."""
    timeout_s: float = TIMEOUT_S
    """Seconds for one attempt at the server."""
    deadline_s: float = DEADLINE_S
    """Seconds within which there is a score, or the judge has failed."""
    invalid_completion_score: float = Field(0.0, allow_inf_nan=False)
    """Reward of an empty completion, which is not judged."""

    view: Literal["last_reply", "full_trace"] = "last_reply"
    """The judged part of a trace."""
    rubric: str = ""
    """Rubric of tasks that have none."""
    question_field: str = ""
    """The task's field with the question; empty for its prompt."""
    reference_field: str = "answer"
    """The task's field with the reference; the settings below are alike.

    A task without the field has none; if another name is set, the field must exist.
    """
    rubric_field: str = "rubric"
    aspects_field: str = "aspects"
    criteria_field: str = "criteria"
    baseline_field: str = "baseline"
    context_field: str = "context"

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        refuse_secrets(self.settings, "settings")
        refuse_secrets({"url": self.url, "base_url": getattr(self, "base_url", "")})
        if self.url and (self.settings or self.offline):
            name = "offline"
            if self.settings:
                name = "settings"
            raise ValueError(f"{name}: only without url; the server has its own")
        if not self.url and (self.mount or self.token_env):
            name = "token_env"
            if self.mount:
                name = "mount"
            raise ValueError(f"{name}: only with url")
        return self

    def source(self, settings: Mapping[str, object]) -> JudgeSource:
        """Make the source of scores; `settings` are those of a judge in this process.

        Raises:
            SettingsError: a setting is of the wrong type.
        """
        return JudgeSource(
            self.url or None,
            None if self.url else settings,
            offline=self.offline,
            token_env=self.token_env or None,
            mount=self.mount,
            invalid_completion_score=self.invalid_completion_score,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
        )

    def fields(self, task: vf.TaskData) -> dict[str, JSON]:
        """Return the request's fields that come from the task.

        Raises:
            CellError: a field cannot be sent to a judge.
            SettingsError: the task has no question, or lacks a field that a setting names.
        """
        names = {cell: getattr(self, f"{cell}_field") for cell in FIELDS}
        for cell, name in names.items():
            setting = f"{cell}_field"
            if (
                name
                and name != type(self).model_fields[setting].default
                and not hasattr(task, name)
            ):
                raise SettingsError(f"{setting}: the task has no field {name!r}")
        request_fields = read_request_fields(
            {cell: getattr(task, name, None) for cell, name in names.items() if name}
        )
        if self.rubric:
            request_fields.setdefault("rubric", self.rubric)
        return {"prompt": self._prompt(task), **request_fields}

    def response(self, trace: vf.Trace) -> JSON:
        """Return the last reply; with `view=full_trace`, all messages since the policy's first.

        Tool calls are included.
        """
        branches = trace.branches
        nodes = branches[-1].nodes if self.view == "full_trace" and branches else []
        first = next((index for index, node in enumerate(nodes) if node.sampled), None)
        if first is None:
            return str(trace.last_reply)
        return convert_conversation(
            [node.message.model_dump(exclude_none=True) for node in nodes[first:]]
        )

    def tools(self, trace: vf.Trace) -> dict[str, JSON]:
        """Return the tools that the policy was offered, if its calls of them are judged.

        Raises:
            CellError: a definition cannot be sent.
        """
        if self.view != "full_trace":
            return {}
        return read_tool_fields([tool.model_dump(exclude_none=True) for tool in trace.tools])

    def _prompt(self, task: vf.TaskData) -> JSON:
        if not self.question_field:
            prompt = task.prompt or ""
            if isinstance(prompt, str):
                return prompt
            return convert_conversation(
                [message.model_dump(exclude_none=True) for message in prompt]
            )
        question = getattr(task, self.question_field, None)
        if not isinstance(question, str):
            raise SettingsError(f"question_field: the task has no text in {self.question_field!r}")
        return question


class JudgePluginConfig(ScoresConfig, vf.JudgeConfig):
    """Settings of a plugged judge.

    `model`, `base_url` and `api_key_var` are those of a judge in this process.
    """

    model: str = _UNSET
    base_url: str = _UNSET
    api_key_var: str = _UNSET


class ScoreJudge(vf.Judge[float, JudgePluginConfig]):
    """Base class of the plugged judges; a subclass sets its kind."""

    KIND: ClassVar[str]

    async def score(self, task: vf.TaskData, trace: vf.Trace) -> float:
        """Return the score of a trace.

        Raises:
            NoRewardError: the judge failed.
            CellError: a field of the task cannot be sent to a judge.
            SettingsError: a setting cannot work.
        """
        config = self.config
        name = self.reward_name
        fields = {**config.fields(task), **config.tools(trace)}
        response = config.response(trace)
        ids = {"group": trace.task.key or trace.task.hash, "member": trace.id}
        verdict: CompletionReward
        (verdict,) = (
            await self._source()
            .get_shared_scorer()
            .score_each([CompletionRow({**fields, **ids}, response)])
        )
        record(verdict, trace, name, {**fields, "response": response}, prefix=f"{name}/")
        if verdict.reward is None:
            raise verdict.error()
        return verdict.reward

    def _source(self) -> JudgeSource:
        """Make the source of scores, which all traces of the process share.

        Raises:
            SettingsError: the judge in this process is of another kind, or compares without
                gathering the traces of a task.
        """
        config = self.config
        client_settings = {
            setting_name: value
            for name, setting_name in _CLIENT_SETTINGS.items()
            if (value := getattr(config, name))
        }
        source: JudgeSource = config.source(
            {"judge": self.KIND, **client_settings, **config.settings}
        )
        if source.judge is not None and source.judge["judge"] != self.KIND:
            raise SettingsError(
                f"settings.judge: expected {self.KIND} or nothing, found {source.judge['judge']}"
            )
        if source.compares and not source.judge.get("group_size"):
            raise SettingsError(
                f"the judge {self.KIND} compares completions: use the environment judgegym-group, "
                "or set group_size to the number of rollouts of a task"
            )
        return source


def find_judge_class(kind: str) -> type[ScoreJudge]:
    """Return the plugin's class for a kind of judge."""
    name = kind.title().replace("_", "") + "Judge"
    return type(name, (ScoreJudge,), {"KIND": kind, "__module__": __name__})


class EnvironmentTaskConfig(vf.TaskConfig):
    """Settings of the environment, under `--env.taskset.task.*`."""

    environment: str = ""
    """An environment for the taskset `judgegym-environment`.

    `path/to/file.py:Class`, `package.module:Class` or a built-in name.
    """
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment as under `--env.`, such as `judge_model_name`."""
    config: str = ""
    """A preset or YAML file with further settings."""
    split: Literal["train", "eval"] = "train"
    """The split of the rows."""
    offline: bool = False
    """Judge with the stand-in, on the bundled samples; its rewards mean nothing."""

    @model_validator(mode="after")
    def _has_no_secrets(self) -> Self:
        refuse_secrets(self.settings, "settings")
        return self

    def source(self, environment: str) -> EnvironmentSource:
        """Return the environment with these settings.

        Raises:
            SettingsError: a setting has no counterpart in JSON.
        """
        return EnvironmentSource.from_settings(
            environment,
            self.settings,
            config=self.config or None,
            offline=self.offline,
            split=self.split,
        )


class EnvironmentTasksetConfig(vf.TasksetConfig):
    """Settings of a taskset of an environment's rows."""

    task: EnvironmentTaskConfig = EnvironmentTaskConfig()


class EnvironmentData(vf.TaskData):
    """A row of an environment: the data by which a worker finds it again."""

    environment: str
    uid: str
    category: str | None = None


class EnvironmentTask(vf.Task[EnvironmentData, vf.State, EnvironmentTaskConfig]):
    """A row of an environment, which judges its completions."""

    @property
    def key(self) -> str:
        """The row's identity."""
        return f"{self.data.environment}/{self.config.split}/{self.data.uid}"

    @vf.reward(weight=1.0)
    async def judgegym(self, trace: vf.Trace) -> float:
        """Return the environment's reward of the trace's last reply.

        Raises:
            NoRewardError: the judge failed.
        """
        (verdict,) = await self.judged([trace])
        self.record(verdict, trace, REWARD)
        if verdict.reward is None:
            raise verdict.error()
        return verdict.reward

    async def judged(self, traces: Sequence[vf.Trace]) -> list[CompletionReward]:
        """Return the judgments of the last replies; a `group_judge` compares them."""
        environment = await asyncio.to_thread(self._open_environment)
        return await environment.rewards(self.data.uid, [read_choice(trace) for trace in traces])

    def record(self, verdict: CompletionReward, trace: vf.Trace, name: str) -> None:
        """Record a verdict under the name of its reward."""
        request: Mapping[str, JSON] = {"environment": self.data.environment, "uid": self.data.uid}
        record(verdict, trace, name, request)

    def _open_environment(self) -> OpenedEnvironment:
        return get_environment(self.config.source(self.data.environment))


class EnvironmentTaskset(vf.Taskset[EnvironmentTask, EnvironmentTasksetConfig]):
    """The rows of an environment; a subclass names the environment."""

    ENVIRONMENT: ClassVar[str] = ""

    def load(self) -> Iterator[EnvironmentTask]:
        """Return the tasks, in the order of the dataset.

        Raises:
            SettingsError: no environment is named, or a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        environment = self._environment()
        rows = get_environment(self.config.task.source(environment)).rows()
        return (EnvironmentTask(_make_data(row, environment), self.config.task) for row in rows)

    def _environment(self) -> str:
        environment = self.config.task.environment
        if self.ENVIRONMENT:
            if environment:
                raise SettingsError("task.environment: only with the taskset judgegym-environment")
            return self.ENVIRONMENT
        if not environment:
            raise SettingsError(
                "task.environment: expected path/to/file.py:Class or package.module:Class"
            )
        path, colon, name = environment.partition(":")
        if path.endswith(".py"):
            resolved = Path(path).resolve()
            return f"{resolved}{colon}{name}"
        return str(environment)


def find_taskset_class(environment: str) -> type[EnvironmentTaskset]:
    """Return the taskset's class for an environment."""
    name = environment.title().replace("_", "") + "Taskset"
    return type(name, (EnvironmentTaskset,), {"ENVIRONMENT": environment, "__module__": __name__})


def read_choice(trace: vf.Trace) -> Choice:
    """Return the policy's last reply, with its reasoning and its finish reason."""
    messages = trace.assistant_messages
    reasoning = None
    if messages:
        reasoning = messages[-1].reasoning_content
    finish_reason = next(
        (call.finish_reason for call in reversed(trace.calls) if call.error is None), None
    )
    return Choice(trace.last_reply, reasoning=reasoning, finish_reason=finish_reason)


def _make_data(row: EnvironmentRow, environment: str) -> EnvironmentData:
    """Return a row as data: its system prompt apart, a single question as text."""
    messages = [dict(message) for message in row.messages]
    system = None
    if messages and messages[0]["role"] == "system":
        system = messages.pop(0)["content"]
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


class GroupEnvConfig(vf.EnvConfig):
    """Settings of the Env `judgegym-group`."""

    agent: vf.AgentConfig = vf.AgentConfig()
    """The policy."""
    n: int = Field(4, ge=_MIN_ATTEMPTS)
    """Attempts at each task, compared with each other."""
    max_concurrent_agents: int | None = Field(None, ge=1)
    """Attempts that run at once; all of them if unset."""
    judge: ScoresConfig = ScoresConfig()
    """A judge of groups (`settings.judge`: listwise, tournament, choice, arena_hard).

    Without it, the environment judges.
    """
    weight: float = 1.0
    """Weight of the group's reward."""
    own_rewards: bool = False
    """Whether the task also scores each attempt alone, with its own rewards and judges."""
    keep_scored: bool = True
    """Whether an episode is `ok` if at least two attempts have a reward and others have none."""


class GroupEnv(vf.Env[GroupEnvConfig]):
    """n attempts at a task, rewarded by one judgment of the group."""

    def __init__(self, config: GroupEnvConfig) -> None:
        """Check that there is a judge.

        Raises:
            SettingsError: there is no judge, and the taskset is not an environment's.
        """
        super().__init__(config)
        self._has_judge = bool(config.judge.url or config.judge.settings or config.judge.offline)
        if not self._has_judge and not issubclass(type(self.taskset).task_type(), EnvironmentTask):
            raise SettingsError(
                "env.judge: expected url (of a reward server) or settings (of a judge in this "
                f"process), since the taskset {config.taskset.id} has no judge of groups"
            )

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Start all attempts; `max_concurrent_agents` limits how many run at once."""
        attempted = task
        if not self.config.own_rewards:
            attempted = task.defer_scoring()
        async with asyncio.TaskGroup() as attempts:  # type: ignore[attr-defined]  # verifiers needs Python 3.11
            for _ in range(self.config.n):
                attempts.create_task(agents.agent.run(attempted))

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        """Judge the attempts that succeeded."""
        traces = [trace for trace in episode.traces if trace.ok]
        count = len(traces)
        total = len(episode.traces)
        if count < _MIN_ATTEMPTS:
            for trace in traces:
                _mark_failed(
                    trace,
                    NoRewardError(f"no group: {count} of {total} attempts ended well"),
                )
            return
        for trace, verdict in zip(traces, await self._judge_traces(task, traces), strict=True):
            if verdict.reward is None:
                _mark_failed(trace, verdict.error())
            else:
                trace.record_reward(GROUP_REWARD, verdict.reward, self.config.weight)

    async def run_episode(
        self, task: vf.Task, ctx: Any, **watchers: Callable[..., None] | None
    ) -> vf.Episode:
        """Run an episode; with `keep_scored` a failed attempt does not fail it."""
        episode = await super().run_episode(task, ctx, **watchers)
        if self.config.keep_scored and not episode.errors:
            episode.ok = sum(trace.ok for trace in episode.traces) >= _MIN_ATTEMPTS
        return episode

    async def _judge_traces(
        self, task: vf.Task, traces: Sequence[vf.Trace]
    ) -> list[CompletionReward]:
        """Return a verdict for each trace, and record it there."""
        if not self._has_judge:
            verdicts: list[CompletionReward] = await task.judged(traces)
            for trace, verdict in zip(traces, verdicts, strict=True):
                task.record(verdict, trace, GROUP_REWARD)
            return verdicts
        judge = self.config.judge
        first = next(iter(traces))
        fields = {**judge.fields(task.data), **judge.tools(first)}
        rows = [CompletionRow(fields, judge.response(trace)) for trace in traces]
        (verdicts,) = (
            await judge.source({"judge": "listwise", **judge.settings})
            .get_shared_scorer()
            .score([rows])
        )
        for trace, verdict, row in zip(traces, verdicts, rows, strict=True):
            record(verdict, trace, GROUP_REWARD, {**fields, "response": row.response})
        return verdicts


def _mark_failed(trace: vf.Trace, error: NoRewardError) -> None:
    """Mark a trace as one without a reward."""
    trace.rewards[GROUP_REWARD] = None
    trace.record_error(error)


def plugin(name: str) -> dict[str, type]:
    """Return the classes of the plugin with this name, by class name.

    Args:
        name: `judgegym_` and a kind of judge, a built-in environment, `environment` or `group`.
    """
    kind = name.removeprefix("judgegym_")
    classes: list[type] = [GroupEnv] if kind == "group" else []
    if kind in JUDGES:
        classes.append(find_judge_class(kind))
    if kind == "environment" or kind in built_in_modules():
        classes += [
            EnvironmentTaskset if kind == "environment" else find_taskset_class(kind),
            NullHarness,
        ]
    return {plugin_class.__name__: plugin_class for plugin_class in classes}
