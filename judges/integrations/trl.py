"""A reward function for TRL's `reward_funcs` (GRPO, RLOO, …).

    from judges.integrations.trl import judge_reward
    trainer = GRPOTrainer(..., reward_funcs=judge_reward("http://127.0.0.1:8400"))

The score of a failed judge is `None`: TRL leaves the completion out of its group's mean and deviation.

Source: TRL 1.10, the calling convention of its reward functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from judges.integrations.scoring import Scoring, scoring
from judges.llm.wire import JSON
from judges.server.items import ResponseScore
from judges.server.settings import JudgeMount

TrlConversation = str | Sequence[Mapping[str, JSON]]

COLUMNS: Mapping[str, str] = {
    "reference": "reference",
    "reference_answer": "reference",
    "rubric": "rubric",
    "baseline": "baseline",
    "context": "context",
}
"""Dataset columns that are sent to the judge, with the field of the request for each."""


class RewardFunction(Protocol):
    """A reward function as TRL calls it, once for each batch."""

    __name__: str

    async def __call__(
        self, prompts: Sequence[TrlConversation], completions: Sequence[TrlConversation], **columns: object
    ) -> list[float | None]:
        """A score for each completion; `None` if the judge failed."""


def judge_reward(
    url: str | None = None,
    *,
    judge: JudgeMount | None = None,
    token: str | None = None,
    mount: str = "",
    group_relative: bool = False,
    timeout_s: float = 150.0,
    name: str = "judge",
) -> RewardFunction:
    """Make a reward function from a reward server (`url`) or a judge in this process (`judge`).

    Args:
        url: the URL of a reward server.
        judge: the settings of a judge to run in this process.
        token: the server's bearer token.
        mount: the name of a judge at the server; empty for the judge at the root.
        group_relative: compare consecutive completions of the same prompt with each other (arena_hard, choice).
        timeout_s: seconds for one attempt at the server.
        name: the function's name, under which TRL logs it.

    Raises:
        ValueError: neither or both of `url` and `judge` are given.
    """
    source = scoring(url, judge, token=token, mount=mount, timeout_s=timeout_s)

    async def reward(
        prompts: Sequence[TrlConversation], completions: Sequence[TrlConversation], **columns: object
    ) -> list[float | None]:
        groups = _groups(prompts) if group_relative else [[place] for place in range(len(prompts))]
        requests = [_request(prompts, completions, columns, group) for group in groups]
        scored = await asyncio.gather(*(source.score(request) for request in requests))
        by_place = {
            place: result
            for group, results in zip(groups, scored, strict=True)
            for place, result in zip(group, results, strict=True)
        }
        results = [by_place[place] for place in range(len(completions))]
        _log(results, columns, name)
        return [result.score for result in results]

    reward.__name__ = name
    reward.source = source  # type: ignore[attr-defined]  # for `close`
    return reward


async def close(reward: RewardFunction) -> None:
    """Close the session of a reward function in this event loop."""
    source = cast(Scoring, reward.source)  # type: ignore[attr-defined]  # set above
    await source.close()


def _groups(prompts: Sequence[TrlConversation]) -> list[list[int]]:
    """The indices of consecutive completions of one prompt."""
    groups: list[list[int]] = []
    for place, prompt in enumerate(prompts):
        if groups and prompts[groups[-1][0]] == prompt:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _request(
    prompts: Sequence[TrlConversation],
    completions: Sequence[TrlConversation],
    columns: Mapping[str, object],
    group: Sequence[int],
) -> dict[str, JSON]:
    first = group[0]
    request: dict[str, JSON] = {"prompt": _json(prompts[first])}
    for column, field in COLUMNS.items():
        values = columns.get(column)
        if isinstance(values, Sequence) and len(values) == len(prompts) and values[first] is not None:
            request[field] = values[first]
    if len(group) == 1:
        return {**request, "response": _json(completions[first])}
    return {**request, "responses": [_json(completions[place]) for place in group]}


def _json(conversation: TrlConversation) -> JSON:
    """A conversation as the server reads it: text, or messages with role and content only."""
    if isinstance(conversation, str):
        return conversation
    turns = [{"role": str(turn.get("role", "")), "content": turn.get("content")} for turn in conversation]
    # A completion of one assistant turn is sent as text.
    if len(turns) == 1 and turns[0]["role"] == "assistant" and isinstance(turns[0]["content"], str):
        return turns[0]["content"]
    return cast(JSON, turns)


def _log(results: Sequence[ResponseScore], columns: Mapping[str, object], name: str) -> None:
    """Log explanations, statuses and the share of failures through TRL, where it passes loggers."""
    extra, metric = columns.get("log_extra"), columns.get("log_metric")
    if callable(extra):
        extra(f"{name}_explanation", [result.explanation for result in results])
        extra(f"{name}_status", [result.status for result in results])
    if callable(metric) and results:
        cast("Callable[[str, float], None]", metric)(
            f"{name}_failed", sum(result.score is None for result in results) / len(results)
        )


__all__ = ["COLUMNS", "RewardFunction", "close", "judge_reward"]
