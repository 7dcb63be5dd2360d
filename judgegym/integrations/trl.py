"""A reward function for TRL's `reward_funcs` (GRPO, RLOO, …).

    from judgegym.integrations.trl import judge_reward
    trainer = GRPOTrainer(..., reward_funcs=judge_reward("http://127.0.0.1:8400"))

The score of a failed judge, and of a row that cannot be judged, is `None`: TRL leaves the completion out of its group's
mean and deviation. An empty completion is a wrong answer (`invalid_completion_score`), about which no judge is asked. A
judge that compares completions (`listwise`, `tournament`, `choice`, `arena_hard` without a baseline) needs
`group_size`, which is the trainer's `num_generations`.

Source: TRL 1.16, the calling convention of its reward functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from judgegym.integrations.scores.cells import CellError, Field, fields_of
from judgegym.integrations.scores.conversations import Conversation, conversation_json
from judgegym.integrations.scores.groups import GroupedBatch, Row, check_group_size
from judgegym.integrations.scores.scoring import RefusedError, Request, Scored, Scoring
from judgegym.integrations.scores.sources import is_of_groups, scoring_of
from judges.llm.errors import SettingsError

if TYPE_CHECKING:
    from judges.server.settings.mount import JudgeMount

COLUMNS: Mapping[str, Field] = {
    "reference_answer": "reference",
    "reference": "reference",
    "rubric": "rubric",
    "aspects": "aspects",
    "baseline": "baseline",
    "context": "context",
}
"""Dataset columns that are sent to the judge, with the field of the request for each; the later of two wins."""


class RewardFunction(Protocol):
    """A reward function as TRL calls it, once for each batch."""

    __name__: str

    async def __call__(
        self, prompts: Sequence[Conversation], completions: Sequence[Conversation], **columns: object
    ) -> list[float | None]:
        """A score for each completion; `None` if there is none."""


def judge_reward(
    url: str | None = None,
    *,
    judge: JudgeMount | Mapping[str, object] | None = None,
    token: str | None = None,
    mount: str = "",
    group_size: int | None = None,
    invalid_completion_score: float | None = 0.0,
    timeout_s: float = 150.0,
    deadline_s: float = 900.0,
    name: str = "judge",
) -> RewardFunction:
    """Make a reward function from a reward server (`url`) or a judge in this process (`judge`).

    Args:
        url: the URL of a reward server.
        judge: the settings of a judge to run in this process, under the server's names.
        token: the server's bearer token.
        mount: the name of a judge at the server; empty for the judge at the root.
        group_size: the trainer's `num_generations`: compare the completions of a group with each other (listwise,
            tournament, choice, arena_hard). A group that is spread over several processes is gathered, and judged by
            one of them.
        invalid_completion_score: the score of an empty completion; `None` leaves it out.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a batch has its scores; what has none by then is `None`.
        name: the function's name, under which TRL logs it.

    Raises:
        SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given. Those that only the server
            or the judge's endpoint knows (a mount, a token) raise it at the first batch, which ends the training.
    """
    if judge is not None and group_size is None and is_of_groups(judge):
        raise SettingsError(
            "group_size: a judge that compares completions needs the number of those of each prompt, which is the "
            "trainer's num_generations"
        )
    source = scoring_of(url, judge, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s)
    batches = None if group_size is None else GroupedBatch(group_size, source)

    async def reward(
        prompts: Sequence[Conversation], completions: Sequence[Conversation], **columns: object
    ) -> list[float | None]:
        rows = [_row(prompts, completions, columns, place) for place in range(len(completions))]
        if batches is not None:
            check_group_size(batches.size, columns.get("log_metric"))
            results = await batches.score(rows)
        else:
            results = [result for (result,) in await source.score([_alone(row) for row in rows])]
        _log(results, columns, name)
        return [invalid_completion_score if result.is_invalid else result.score for result in results]

    reward.__name__ = name
    reward.source = source  # type: ignore[attr-defined]  # for `close`
    return reward


async def close(reward: RewardFunction) -> None:
    """Close the connections of a reward function now; otherwise they are closed when the process ends."""
    await cast(Scoring, reward.source).close()  # type: ignore[attr-defined]  # set above


def _row(
    prompts: Sequence[Conversation], completions: Sequence[Conversation], columns: Mapping[str, object], place: int
) -> Row:
    cells: dict[Field, object] = {}
    for column, field in COLUMNS.items():
        values = columns.get(column)
        if isinstance(values, Sequence) and len(values) == len(prompts) and values[place] is not None:
            cells[field] = values[place]
    try:
        shared, error = {"prompt": conversation_json(prompts[place]), **fields_of(cells)}, ""
    except CellError as refusal:
        shared, error = {"prompt": conversation_json(prompts[place])}, str(refusal)
    return Row(shared, conversation_json(completions[place]), error)


def _alone(row: Row) -> Request | RefusedError:
    return RefusedError(row.error) if row.error else {**row.shared, "response": row.response}


def _log(results: Sequence[Scored], columns: Mapping[str, object], name: str) -> None:
    """Log explanations, statuses and the shares of failures and of empty completions, where TRL passes loggers."""
    extra, metric = columns.get("log_extra"), columns.get("log_metric")
    if callable(extra):
        extra(f"{name}_explanation", [result.explanation for result in results])
        extra(f"{name}_status", [result.status for result in results])
    if callable(metric) and results:
        log = cast("Callable[[str, float], None]", metric)
        log(f"{name}_failed", sum(result.is_failed for result in results) / len(results))
        log(f"{name}_invalid", sum(result.is_invalid for result in results) / len(results))


__all__ = ["COLUMNS", "RewardFunction", "close", "judge_reward"]
