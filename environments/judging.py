"""Completions to a judgment, and a judgment to a score: the same in `evaluate`, `serve` and `process`.

Guarantees: nothing in the wrong format is judged, and no verdict is read in it; no environment looks at the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from environments.base import DetailT, JudgedEnv
from environments.completions import Completion
from environments.data.rows import TaskT
from judges.core.judgment import Judgment, Status


async def judge_completions(
    env: JudgedEnv[Any, TaskT, DetailT], task: TaskT, completions: Sequence[Completion]
) -> Judgment[DetailT]:
    """The environment's judgment of completions.

    Malformed thinking makes the completions invalid without asking the judge. Where the policy is the judge, a
    completion with malformed thinking or one that was cut off says nothing: its answer is shown as empty.
    """
    if env.policy_is_judge:
        return await env.judge(task, [replace(each, answer="") if each.unreadable else each for each in completions])
    for completion in completions:
        if completion.thinking_fault is not None:
            return Judgment(None, Status.INVALID_COMPLETION, explanation=completion.thinking_fault)
    return await env.judge(task, completions)


def score_of(env: JudgedEnv[Any, Any, Any], judgment: Judgment[Any]) -> float | None:
    """What a judgment is worth in evaluation: its score, or the environment's score for invalid completions."""
    return env.invalid_completion_score if judgment.status is Status.INVALID_COMPLETION else judgment.score
