"""A judge for ART's groups of trajectories, as `after_each` of `gather_trajectory_groups`.

    from judgegym_trainers.art import judge_group
    groups = await art.gather_trajectory_groups(
        rollouts, after_each=judge_group("http://127.0.0.1:8400")
    )

Guarantees:

* A group is one request, so that any judge can compare its trajectories: listwise in one call, with
  their common beginning once. Scores belong to ids, never to positions in the judge's response.
  Identical trajectories are judged once.
* A new group is returned, and the original is unchanged. Messages, `Choice` objects, tools,
  additional histories, metadata, policy versions and logs are kept.
* A trajectory whose judge failed is left out of the new group, and `exceptions` of the group has
  the reason: a reward of any value would change the deviation by which ART divides the others'
  advantages. A group with fewer than two left is dropped: `None`.
* The function raises only a `SettingsError`, for a setting that cannot work.

Source: openpipe-art 0.5.18, `art.rewards.ruler_score_group` and `art.gather_trajectory_groups`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Any, TypeAlias, cast

from judgegym.judges.config.extras import report_missing_extra

with report_missing_extra("art"):
    from art import Trajectory, TrajectoryGroup
    from art.trajectories import PydanticException
    from openai.types.chat.chat_completion import Choice

from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.scores.sources import JudgeSource, RewardScorer

logger = logging.getLogger(__name__)


GroupFunction: TypeAlias = Callable[[TrajectoryGroup], Awaitable[TrajectoryGroup | None]]


def judge_group(url: str | None = None, *, name: str = "judge", **settings: Any) -> GroupFunction:
    """Make a function that adds a judge's rewards to a group, or returns `None`.

    Each trajectory has the score (0 to 1) in `reward` and `metrics["judge_score"]`, its earlier
    reward in `metrics["independent_reward"]`, the judge's reasons in `logs`.
    `metrics["invalid_completion"]` is 1 where the policy wrote no text. The group's
    `metrics["judge_failed"]` is the number of trajectories that were left out.

    Args:
        url: the URL of a reward server.
        name: prefix of the metrics' names.
        settings: further settings of `JudgeSource`: instead of a URL `judge`, the settings of a
            judge to run in this process, under the server's names, with `offline` at the stand-in;
            `token`, `token_env` and `mount` of the server; `invalid_completion_score` of a
            trajectory in which the policy wrote no text; `timeout_s`, seconds for one attempt at
            the server; `deadline_s`, seconds within which a group gets its scores: trajectories
            without one are left out.

    Raises:
        SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
            Settings that only the server or the judge's endpoint can check (a mount, a token) raise
            it at the first group.
    """
    scoring = JudgeSource(url, **settings).make_scorer()

    async def score(group: TrajectoryGroup) -> TrajectoryGroup | None:
        if not group.trajectories:
            return group
        (results,) = await scoring.score([make_rows(group)])
        return _apply_results(group, results, name)

    score.scoring = scoring  # type: ignore[attr-defined]  # for `close`
    return score


async def close(function: GroupFunction) -> None:
    """Close a function's connections now; otherwise they are closed when the process ends."""
    await cast(RewardScorer, function.scoring).close()  # type: ignore[attr-defined]  # set above


def make_rows(group: TrajectoryGroup) -> list[CompletionRow]:
    """Return the completions of a group.

    The prompt is everything before the policy's first turn. If trajectories differ in that, it is
    their common beginning, and the rest belongs to the responses.
    """
    conversations = [trajectory.messages() for trajectory in group.trajectories]
    starts = map(_find_first_policy_turn, group.trajectories)
    prompts = [messages[:start] for messages, start in zip(conversations, starts, strict=True)]
    columns = takewhile(
        lambda turns: all(turn == turns[0] for turn in turns[1:]), zip(*prompts, strict=False)
    )
    length = len(list(columns))
    return [
        make_completion_row(
            messages[:length], messages[length:], {**group.metadata, **trajectory.metadata}
        )
        for trajectory, messages in zip(group.trajectories, conversations, strict=True)
    ]


def _find_first_policy_turn(trajectory: Trajectory) -> int:
    """Return the index of the first trainable turn, or else of the assistant's first turn."""
    turns = trajectory.messages_and_choices
    trainable = (index for index, turn in enumerate(turns) if isinstance(turn, Choice))
    assistants = (
        position
        for position, turn in enumerate(trajectory.messages())
        if turn["role"] == "assistant"
    )
    return next(trainable, next(assistants, len(turns)))


def _apply_results(
    group: TrajectoryGroup, results: Sequence[CompletionReward], name: str
) -> TrajectoryGroup | None:
    pairs = list(zip(group.trajectories, results, strict=True))
    failed = [result for result in results if result.is_failed]
    if len(pairs) - len(failed) < min(2, len(pairs)):
        logger.warning(
            "a group is dropped: %d of %d have no score: %s",
            len(failed),
            len(pairs),
            failed[0].explanation,
        )
        return None
    new_group = copy.copy(group)
    new_group.trajectories = [
        _add_reward(trajectory, result, result.reward, name)
        for trajectory, result in pairs
        if result.reward is not None
    ]
    new_group.exceptions += [
        PydanticException(
            type=f"{name}_failed", message=f"{result.status}: {result.explanation}", traceback=""
        )
        for result in failed
    ]
    new_group.metrics[f"{name}_failed"] = len(failed)
    return new_group


def _add_reward(
    trajectory: Trajectory, result: CompletionReward, reward: float, name: str
) -> Trajectory:
    metrics = {
        "independent_reward": trajectory.reward,
        f"{name}_score": reward,
        "invalid_completion": float(result.is_invalid),
    }
    return trajectory.model_copy(
        update={
            "messages_and_choices": [*trajectory.messages_and_choices],
            "tools": None if trajectory.tools is None else [*trajectory.tools],
            "additional_histories": [
                history.model_copy(deep=True) for history in trajectory.additional_histories
            ],
            "reward": reward,
            "metrics": {**trajectory.metrics, **metrics},
            "metadata": {**trajectory.metadata},
            "logs": [*trajectory.logs, f"{name}: {result.explanation}"],
        }
    )
