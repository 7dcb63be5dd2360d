"""Judged groups without a policy or a judge, and what records them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.settings import EnvConfig
from judgegym.environments.rollouts.groups import JudgedGroup, Rollout, TokenSequence
from judgegym.environments.spec import EnvSpec
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.judges.core.naming import MetricNames
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Message

PROMPT = (1, 2, 3)


def rollout(length: int = 4, *, text: str = "an answer", logprobs: bool = True) -> Rollout:
    """A rollout of so many tokens."""
    ids = tuple(range(10, 10 + length))
    sequence = TokenSequence(PROMPT, ids, tuple(-each / 10 for each in ids) if logprobs else None)
    return Rollout(Completion(text), sequence, text)


def two_turns() -> Rollout:
    """A rollout of two turns whose second prompt does not begin with the tokens of the first turn."""
    return replace(
        rollout(text="more"),
        completion=Completion("more", follow_up="Go on."),
        earlier=(rollout(),),
    )


def judgment(score: float | None, status: Status = Status.OK, **run: Any) -> Judgment[Any]:
    """A judgment with one call; without a score, one whose judge failed unless the status says otherwise."""
    if score is None and status is Status.OK:
        status = Status.JUDGE_FAILED
    failed = status is Status.JUDGE_FAILED
    calls = (
        JudgeCall(
            "game_1", "text", None, None, None, CallRun(**{"latency_s": 0.5, **run}), failed=failed
        ),
    )
    return Judgment(score, status, label="label", explanation="because", calls=calls)


def group(
    rewards: Sequence[float | None],
    lengths: Sequence[int] | None = None,
    *,
    logprobs: bool = True,
    cost: float = 0.0,
) -> JudgedGroup:
    """A group with these rewards; `None` where the judge failed."""
    return JudgedGroup(
        conversation=[
            Message(role="system", content="Be brief."),
            Message(role="user", content="Why?"),
        ],
        rollouts=tuple(
            rollout(length, logprobs=logprobs) for length in lengths or [4] * len(rewards)
        ),
        judgments=tuple(judgment(reward, usage=Usage(1, 1, cost)) for reward in rewards),
        rewards=tuple(rewards),
        policy_run=CallRun(),
    )


def recorder(*, together: bool = False, value: float = 1.0) -> TrainingMetrics:
    """The metrics of training of an environment that counts its rollouts (`observed`) and has one mean (`own`)."""

    def record(metrics: MetricAggregator, task: Any, sample: Any) -> None:
        metrics.count("observed")
        metrics.mean("own", value, interval=True)

    config, names = EnvConfig(thinking_mode=True), MetricNames()
    more = {"record_metrics": record, "spec": EnvSpec(name="counting", headline=("own", "own"))}
    env: Any = SimpleNamespace(
        config=config, metric_names=names, group_judge=object() if together else None, **more
    )
    return TrainingMetrics(env)
