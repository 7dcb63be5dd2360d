"""A reward function that asks a judge: a reward server's, or one in this process.

The score of a failed judge, and of a row that cannot be judged, is `None`. An empty completion is a wrong answer
(`invalid_completion_score`), about which no judge is asked. A judge that compares completions (`listwise`,
`tournament`, `choice`, `arena_hard` without a baseline) needs `group_size`, which is the trainer's `num_generations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from judgegym.integrations.scores.requests import (
    CellError,
    CompletionRow,
    Conversation,
    Field,
    conversation_json,
    fields_of,
    groups_of,
    single_request,
)
from judgegym.integrations.scores.results import check_finite
from judgegym.integrations.scores.sources import DEADLINE_S, TIMEOUT_S, JudgeSource, is_of_groups
from judgegym.integrations.trl.reward_function import RewardFunction, log, named
from judgegym.integrations.trl.trainer import close_after, group_size_of, trainer_of
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.server.settings.server import JudgeMount

COLUMNS: Mapping[str, Field] = {
    "reference_answer": "reference",
    "reference": "reference",
    "rubric": "rubric",
    "aspects": "aspects",
    "baseline": "baseline",
    "context": "context",
}
"""Dataset columns that are sent to the judge, with the field of the request for each; the later of two wins."""


def judge_reward(
    url: str | None = None,
    *,
    judge: JudgeMount | Mapping[str, object] | None = None,
    token: str | None = None,
    mount: str = "",
    group_size: int | None = None,
    invalid_completion_score: float | None = 0.0,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
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
            one of them. In evaluations the trainer's `num_generations_eval` is the size.
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
    if group_size is not None and group_size < 2:
        raise SettingsError(f"group_size: expected 2 or more completions to compare, found {group_size}")
    check_finite(invalid_completion_score=invalid_completion_score)
    source = JudgeSource(url, judge, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s)
    scoring = source.scoring()
    groups = groups_of(scoring)

    def close_now() -> None:
        run_blocking(scoring.close())

    async def score(
        prompts: Sequence[Conversation], completions: Sequence[Conversation], columns: Mapping[str, object]
    ) -> list[float | None]:
        trainer = trainer_of(columns)
        close_after(trainer, close_now)
        rows = [_row(prompts, completions, columns, place) for place in range(len(completions))]
        if group_size is not None:
            size = group_size_of(trainer, group_size)
            assert size is not None  # it is told
            scored = await groups.score(rows, size)
        else:
            scored = [result for (result,) in await scoring.score([single_request(row) for row in rows])]
        results = [result.rewarded(invalid_completion_score) for result in scored]
        log(results, columns, name)
        return [result.reward for result in results]

    return named(score, name, scoring.close)


def _row(
    prompts: Sequence[Conversation], completions: Sequence[Conversation], columns: Mapping[str, object], place: int
) -> CompletionRow:
    cells: dict[Field, object] = {}
    for column, field in COLUMNS.items():
        values = columns.get(column)
        if isinstance(values, Sequence) and len(values) == len(prompts) and values[place] is not None:
            cells[field] = values[place]
    try:
        shared = {"prompt": conversation_json(prompts[place]), **fields_of(cells)}
        response = conversation_json(completions[place])
    except CellError as refusal:
        return CompletionRow({"prompt": ""}, "", str(refusal))
    return CompletionRow(shared, response)


__all__ = ["COLUMNS", "judge_reward"]
