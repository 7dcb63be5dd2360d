"""The pipeline of groups: what becomes of a row, and what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from judgegym.engine.completions import Completion, Conversation
from judgegym.environments.rollouts.groups import JudgedGroup, MissingTokensError, Rollout
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.llm.errors import EndpointError, FailureKind
from tests.core.environments.rollouts_of import judgment, rollout
from tests.core.environments.words import Said, Word, WordsEnv, opened, speaking

WORD = Word("w")
DOWN = EndpointError(FailureKind.BROKEN, endpoint="http://x/v1", answer="refused")


class Fixed:
    """A source that gives the same texts again and again, or raises an error."""

    def __init__(self, *texts: str, error: Exception | None = None, **completion: Any) -> None:
        self.rollouts = [
            replace(rollout(text=text), completion=Completion(text, **completion)) for text in texts
        ]
        self.error = error

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        if self.error is not None:
            raise self.error
        return self.rollouts, CallRun()

    @property
    def waiting(self) -> str | None:
        raise AssertionError("nobody asked for it")

    def rescale(self, share: float) -> None:
        raise AssertionError("nobody asked for it")


class Failing(WordsEnv):
    """Its judge always fails."""

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        return Judgment(None, Status.JUDGE_FAILED, explanation="no key", calls=judgment(None).calls)


class Slow(WordsEnv):
    """Its judge never answers."""

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        await asyncio.Event().wait()
        raise AssertionError


class Picky(WordsEnv):
    """Drops groups in which nothing is right."""

    def drop_reason(self, judgments: Sequence[Judgment[Said]]) -> str | None:
        return None if any(judgment.score for judgment in judgments) else "all_wrong"


async def taken(group: JudgedGroup) -> None:
    """A sink that takes everything."""


@pytest.mark.parametrize(
    ("env_type", "flags", "source", "outcome", "reason"),
    [
        (WordsEnv, [], Fixed("w", "x"), "sent", None),
        (WordsEnv, [], Fixed("x", "x"), "dropped", "no_signal"),
        (WordsEnv, ["--env.ensure_scores_are_not_same=false"], Fixed("x", "x"), "sent", None),
        (
            Picky,
            ["--env.ensure_scores_are_not_same=false"],
            Fixed("x", "x"),
            "dropped",
            "all_wrong",
        ),
        (Failing, [], Fixed("w", "x"), "failed", "judge_failed"),
        (Slow, ["--env.worker_timeout=0.05"], Fixed("w", "x"), "dropped", "timed_out"),
        (WordsEnv, [], Fixed(error=DOWN), "failed", "policy_failed"),
        (WordsEnv, [], Fixed(error=MissingTokensError("no ids")), "failed", "policy_failed"),
    ],
)
async def test_row_is_sent_or_dropped_with_a_reason(
    env_type: type[WordsEnv], flags: list[str], source: Fixed, outcome: str, reason: str | None
) -> None:
    async with opened(speaking, *flags, verb="serve", env_type=env_type) as (env, _):
        metrics = TrainingMetrics(env)
        assert await GroupPipeline(env, source, metrics).run(WORD, taken) == outcome
    assert metrics.total_dropped == ({reason: 1} if reason else {})
    values = metrics.flush(max_token_len=-1).values
    assert (values["train/sequences_per_second"] > 0) is (outcome == "sent")
    assert values["train/groups_judged"] == (source.error is None and reason != "timed_out")


async def test_what_a_group_that_took_too_long_has_cost_is_not_known() -> None:
    """The policy was paid, and the judge may have been."""
    async with opened(speaking, "--env.worker_timeout=0.05", verb="serve", env_type=Slow) as (
        env,
        _,
    ):
        metrics = TrainingMetrics(env)
        await GroupPipeline(env, Fixed("w", "x"), metrics).run(WORD, taken)
    found = metrics.flush(max_token_len=-1)
    assert {"train/policy_cost_usd", "train/judge_cost_usd"} <= {*found.unknown}
    assert not {"train/policy_cost_usd", "train/judge_cost_usd"} & found.values.keys()
