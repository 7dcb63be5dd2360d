"""Score the answers to a query by all judges: a column of the query's table each, and the table as one judgment."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.eval_environments.peer.models import PeerModel
from judgegym.eval_environments.peer.table import PeerAnswer, PeerCell, PeerTable, cell_of
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.peers.judge import PeerCase, peer_prompt
from judgegym.llm.ledger import component


@dataclass(frozen=True, slots=True)
class Column:
    """One answer with the judges' cells in the order of the judges, their calls, and what each is shown of suspects."""

    answer: PeerAnswer
    cells: tuple[PeerCell, ...]
    calls: tuple[JudgeCall[object], ...] = ()
    suspects: int = 0


async def score_all(
    peers: Sequence[PeerModel],
    answer: PeerAnswer,
    *,
    query: str,
    rubric: str,
    include_self: bool = True,
    known: Sequence[PeerCell] = (),
) -> Column:
    """Score one answer by all judges at once; without an answer, return cells that say so and make no calls.

    Args:
        peers: the judges.
        answer: the answer to score.
        query: the query that it answers.
        rubric: the rubric to score it by.
        include_self: whether the candidate is among its judges.
        known: scores of an earlier judgment, which are kept.
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
        with component(f"judge_{peer.name}"):
            judgment = await peer.judge.judge(case)
        return cell_of(peer.name, answer.candidate, judgment), judgment.calls

    results = await asyncio.gather(*(score(judge) for judge in judges))
    calls = [
        dataclasses.replace(call, name=f"{judge.name}_of_{answer.candidate}_{call.name}")
        for judge, (_, made) in zip(judges, results, strict=True)
        for call in made
    ]
    suspects = peer_prompt(query, answer.answer, rubric).suspects
    return Column(answer, tuple(cell for cell, _ in results), tuple(calls), suspects)


def combined(columns: Sequence[Column], peers: Sequence[PeerModel]) -> Judgment[PeerTable]:
    """Combine one query into one judgment: the mean of its scores (0 to 100); it fails only if no cell has a score.

    Args:
        columns: the candidates' answers with their cells.
        peers: the judges; cells come in their order, those of the first judge first.
    """
    cells = tuple(cell for judge in peers for column in columns for cell in column.cells if cell.judge == judge.name)
    calls = tuple(call for column in columns for call in column.calls)
    table = PeerTable(tuple(column.answer for column in columns), cells)
    suspects = sum(column.suspects for column in columns)
    scores = [cell.score for cell in cells if cell.score is not None]
    if scores:
        reasonings = "\n\n".join(
            f"{cell.judge}: {cell.score}. {cell.reasoning}" for cell in cells if cell.score is not None
        )
        mean = sum(scores) / len(scores)
        return Judgment(mean, Status.OK, explanation=reasonings, calls=calls, detail=table, suspects=suspects)
    reasons = "; ".join(dict.fromkeys(cell.error for cell in cells if cell.error))
    unparsable = any(cell.status == Status.UNPARSABLE.value for cell in cells)
    status = Status.UNPARSABLE if unparsable else Status.JUDGE_FAILED
    return Judgment(None, status, explanation=reasons, calls=calls, detail=table, suspects=suspects)
