"""Answers to a query, scored by all judges: columns of the query's table, and the table as one judgment."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from eval_environments.peer.models import PeerModel
from eval_environments.peer.table import PeerAnswer, PeerCell, PeerTable, cell_of
from judges.core.judgment import JudgeCall, Judgment, Status
from judges.peers.judge import PeerCase


@dataclass(frozen=True, slots=True)
class Column:
    """One answer with the judges' cells, in their order, and the calls that these took."""

    answer: PeerAnswer
    cells: tuple[PeerCell, ...]
    calls: tuple[JudgeCall[object], ...] = ()


async def score_all(
    peers: Sequence[PeerModel],
    answer: PeerAnswer,
    *,
    query: str,
    rubric: str,
    include_self: bool = True,
    known: Sequence[PeerCell] = (),
) -> Column:
    """All judges' scores of one answer at once; where there is no answer, cells that say so and no calls.

    Args:
        peers: the judges.
        answer: what they judge.
        query: what it answers.
        rubric: by what they judge.
        include_self: whether the candidate is among its judges.
        known: scores that an earlier run has paid for.
    """
    judges = [judge for judge in peers if include_self or judge.name != answer.candidate]
    if answer.answer is None:
        empty = (PeerCell(judge.name, answer.candidate, "policy_failed", error=answer.error) for judge in judges)
        return Column(answer, tuple(empty))
    case = PeerCase(query, answer.answer, rubric)
    scores = {cell.judge: cell for cell in known if cell.score is not None and cell.candidate == answer.candidate}

    async def score(peer: PeerModel) -> tuple[PeerCell, tuple[JudgeCall[object], ...]]:
        if peer.name in scores:
            return scores[peer.name], ()
        judgment = await peer.judge.judge(case)
        return cell_of(peer.name, answer.candidate, judgment), judgment.calls

    results = await asyncio.gather(*(score(judge) for judge in judges))
    calls = [
        dataclasses.replace(call, name=f"{judge.name}_of_{answer.candidate}_{call.name}")
        for judge, (_, made) in zip(judges, results, strict=True)
        for call in made
    ]
    return Column(answer, tuple(cell for cell, _ in results), tuple(calls))


def combined(columns: Sequence[Column], peers: Sequence[PeerModel]) -> Judgment[PeerTable]:
    """One query as one judgment: the mean of its scores, from 0 to 100; it fails only if no cell has a score.

    Args:
        columns: the candidates' answers with their cells.
        peers: the judges; cells come in their order, those of the first judge first.
    """
    cells = tuple(cell for judge in peers for column in columns for cell in column.cells if cell.judge == judge.name)
    calls = tuple(call for column in columns for call in column.calls)
    table = PeerTable(tuple(column.answer for column in columns), cells)
    scores = [cell.score for cell in cells if cell.score is not None]
    if scores:
        said = "\n\n".join(f"{cell.judge}: {cell.score}. {cell.reasoning}" for cell in cells if cell.score is not None)
        return Judgment(sum(scores) / len(scores), Status.OK, explanation=said, calls=calls, detail=table)
    reasons = "; ".join(dict.fromkeys(cell.error for cell in cells if cell.error))
    unparsable = any(cell.status == Status.UNPARSABLE.value for cell in cells)
    status = Status.UNPARSABLE if unparsable else Status.JUDGE_FAILED
    return Judgment(None, status, explanation=reasons, calls=calls, detail=table)
