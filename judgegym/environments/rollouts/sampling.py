"""Sampled and judged rollouts of a row, with all turns of its conversation.

Guarantees: the first turn of a group is one request; each later turn is one request per rollout,
for all rollouts at once. A rollout ends by itself, when the user has no further message or a
completion cannot be judged. If the policy or the simulated user fails in a later turn, the rollout
breaks off: it has no score, and the others continue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from judgegym.data.rows import TaskT
from judgegym.engine.completions import Conversation, continue_conversation
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import make_conversations
from judgegym.environments.rollouts.groups import JudgedGroup, Rollout
from judgegym.environments.rollouts.judging import compute_turn_rewards, judge_row_completions
from judgegym.environments.simulated_user import collect_user_calls
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import EndpointError, JudgeGymError, UserError
from judgegym.llm.ledger import component
from judgegym.llm.wire import Message

Sampler: TypeAlias = Callable[[Conversation, int], Awaitable[tuple[list[Rollout], CallRun]]]
"""Sampler of several rollouts of a conversation, as `RolloutSource.sample`."""


async def roll_out(env: JudgedEnv[Any, TaskT, Any], sample: Sampler, task: TaskT) -> JudgedGroup:
    """Sample `group_size` rollouts of a row's first conversation, and judge them at once.

    Each is judged by itself, or, with a judge of groups, against the others.

    Raises:
        DataError: the conversation has images.
        EndpointError: the policy never answered the first turn.
        MissingTokensError: the first turn's response lacks the requested tokens.
    """
    conversations = make_conversations(env, task, trains=True)
    rollouts, run = await sample(conversations[0], env.config.group_size)
    with collect_user_calls() as user_runs:
        if len(conversations) == 1:
            ends = await gather_results(
                _converse(env, sample, task, conversations[0], first, number)
                for number, first in enumerate(rollouts)
            )
            rollouts = [rollout for rollout, _ in ends]
            run = _add_turns(run, [runs for _, runs in ends])
    completions = [rollout.completions for rollout in rollouts]
    failures = {}
    for number, rollout in enumerate(rollouts):
        if rollout.failure is not None:
            failures[number] = rollout.failure
    judgments, rewards, comparison = await judge_row_completions(env, task, completions, failures)
    by_turn = None
    if env.config.reward_by == "turn":
        by_turn = compute_turn_rewards(env, completions, judgments)

    return JudgedGroup(
        conversations[0],
        tuple(rollouts),
        judgments,
        rewards,
        run,
        comparison,
        by_turn,
        user_runs=tuple(user_runs),
    )


async def _converse(
    env: JudgedEnv[Any, TaskT, Any],
    sample: Sampler,
    task: TaskT,
    conversation: Conversation,
    rollout: Rollout,
    number: int,
) -> tuple[Rollout, list[CallRun]]:
    """Continue a rollout from its first turn to its end.

    Return it with the runs of its further turns.
    """
    runs: list[CallRun] = []
    try:
        while rollout.completion.unjudgeable is None:
            completions = rollout.completions
            turns = len(completions)
            with component(f"conversation_{number}"), component(f"turn_{turns}"):
                follow_up = await env.follow_up(task, completions)
                if follow_up is None:
                    break
                messages = [
                    *continue_conversation(conversation, completions),
                    Message(role="user", content=follow_up),
                ]
                (turn,), run = await sample(messages, 1)
            runs.append(run)
            completion = replace(turn.completion, follow_up=follow_up)
            rollout = replace(turn, completion=completion, earlier=rollout.turns)
    except JudgeGymError as error:  # of the policy, or of whoever plays the user
        if isinstance(error, UserError):
            raise
        if isinstance(error, EndpointError):
            runs.append(CallRun(attempts=error.attempts, usage=error.usage))
        failed_turn = len(rollout.turns) + 1
        rollout = replace(rollout, failure=f"turn {failed_turn} failed: {error}")
    return rollout, runs


def _add_turns(first: CallRun, later: Sequence[Sequence[CallRun]]) -> CallRun:
    """Return the total usage of a group's requests; the latency is that of the slowest rollout."""
    runs = list(chain.from_iterable(later))
    latencies = [sum(run.latency_s for run in rollout_runs) for rollout_runs in later]
    latency = max(latencies, default=0.0)
    usage = sum((run.usage for run in runs), first.usage)
    return CallRun(
        first.latency_s + latency,
        first.attempts + sum(run.attempts for run in runs),
        first.cached,
        usage,
    )
