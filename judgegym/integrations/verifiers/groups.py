"""An Env that runs n attempts of a task at once, and judges them against each other.

Guarantees: one judgment of all attempts that ended well, by the environment of the task or by a judge of groups; each
attempt gets its own reward, `group`; an attempt without a verdict has none, and its trace is not `ok`, so that prime-rl
does not train on it. With `keep_scored` such a trace does not spoil the others: prime-rl leaves out all traces of an
episode that is not `ok`. Source: verifiers 0.4.0 (`v1/env.py`), prime-rl of August 2026 (`orchestrator/envs.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from judgegym.integrations.scores.results import CompletionReward, NoRewardError
from judgegym.integrations.verifiers.recording import record
from judgegym.integrations.verifiers.scores import ScoresConfig
from judgegym.integrations.verifiers.tasksets import EnvironmentTask
from judgegym.llm.errors import SettingsError

REWARD = "group"
_FEWEST = 2


class GroupEnvConfig(vf.EnvConfig):
    """Settings of the Env `judgegym-group`."""

    agent: vf.AgentConfig = vf.AgentConfig()
    """The policy."""
    n: int = Field(4, ge=_FEWEST)
    """Attempts at each task, compared with each other."""
    max_concurrent_agents: int | None = Field(None, ge=1)
    """Attempts that run at once; all of them if unset."""
    judge: ScoresConfig = ScoresConfig()
    """A judge of groups (`settings.judge`: listwise, tournament, choice, arena_hard); without it, the environment's."""
    weight: float = 1.0
    """Weight of the group's reward."""
    own_rewards: bool = False
    """Whether the task also scores each attempt by itself, with its own rewards and judges."""
    keep_scored: bool = True
    """Whether an episode is `ok` where at least two attempts have a reward, and others have none."""


class GroupEnv(vf.Env[GroupEnvConfig]):
    """n attempts at a task, rewarded by one judgment of the group."""

    def __init__(self, config: GroupEnvConfig) -> None:
        """Check that there is a judge.

        Raises:
            SettingsError: there is none, and the taskset is not one of an environment.
        """
        super().__init__(config)
        self._has_judge = bool(config.judge.url or config.judge.settings or config.judge.offline)
        if not self._has_judge and not issubclass(type(self.taskset).task_type(), EnvironmentTask):
            raise SettingsError(
                "env.judge: expected url (of a reward server) or settings (of a judge in this process), since the "
                f"taskset {config.taskset.id} has no judge of groups"
            )

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Start all attempts; how many run at once is the setting's."""
        attempted = task if self.config.own_rewards else task.defer_scoring()
        async with asyncio.TaskGroup() as attempts:  # type: ignore[attr-defined]  # verifiers needs Python 3.11
            for _ in range(self.config.n):
                attempts.create_task(agents.agent.run(attempted))

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        """Judge the attempts that ended well."""
        traces = [trace for trace in episode.traces if trace.ok]
        if len(traces) < _FEWEST:
            for trace in traces:
                _fail(trace, NoRewardError(f"no group: {len(traces)} of {len(episode.traces)} attempts ended well"))
            return
        for trace, verdict in zip(traces, await self._judged(task, traces), strict=True):
            if verdict.reward is None:
                _fail(trace, verdict.error())
            else:
                trace.record_reward(REWARD, verdict.reward, self.config.weight)

    async def run_episode(self, task: vf.Task, ctx: Any, **watchers: Callable[..., None] | None) -> vf.Episode:
        """One episode; with `keep_scored` a failed attempt does not make it fail."""
        episode = await super().run_episode(task, ctx, **watchers)
        if self.config.keep_scored and not episode.errors:
            episode.ok = sum(trace.ok for trace in episode.traces) >= _FEWEST
        return episode

    async def _judged(self, task: vf.Task, traces: Sequence[vf.Trace]) -> list[CompletionReward]:
        """A verdict for each trace, recorded there."""
        if not self._has_judge:
            verdicts = await task.judged(traces)
            for trace, verdict in zip(traces, verdicts, strict=True):
                task.record(verdict, trace, REWARD)
            return list(verdicts)
        judge = self.config.judge
        scoring = judge.scoring({"judge": "listwise", **judge.settings})
        fields, responses = judge.fields(task.data), [judge.response(trace) for trace in traces]
        (scored,) = await scoring.score([{**fields, "responses": responses}])
        verdicts = [each.rewarded(judge.invalid_completion_score) for each in scored]
        for trace, verdict, response in zip(traces, verdicts, responses, strict=True):
            record(verdict, trace, REWARD, {**fields, "response": response})
        return verdicts


def _fail(trace: vf.Trace, error: NoRewardError) -> None:
    """Mark a trace as one without a reward."""
    trace.rewards[REWARD] = None
    trace.record_error(error)
