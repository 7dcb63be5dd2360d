"""The scores of one query: a cell for each judge and candidate, with its rounds of critique or why it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.eval_environments.models.candidate import CandidateReply
from judgegym.judges.core.judgment import CritiqueRound, Judgment
from judgegym.judges.peers.judge import PeerDetail


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """A candidate's answer to a query; `None` with the reason if there is none."""

    candidate: str
    answer: str | None
    error: str | None = None

    @classmethod
    def of(cls, candidate: str, reply: CandidateReply) -> PeerAnswer:
        """Return a candidate's answer, or the reason why there is none or why its format is wrong."""
        completion = reply.completion
        if completion is None:
            return cls(candidate, None, reply.error)
        if completion.refused:
            return cls(candidate, None, "the candidate refused to answer")
        if completion.thinking_fault is not None:
            return cls(candidate, None, f"the thinking is malformed: {completion.thinking_fault}")
        if not completion.answer.strip():
            return cls(candidate, None, "the answer is empty")
        return cls(candidate, completion.answer)


@dataclass(frozen=True, slots=True)
class PeerCell:
    """A judge's score of a candidate.

    Attributes:
        judge: the judge's name.
        candidate: the candidate's name.
        status: that of the judgment; `policy_failed` if there was no answer to judge.
        score: after the last round, 0 to 100; `None` if there is none.
        before_score: before the first round; the same as `score` without rounds.
        reasoning: the judge's reasons.
        rounds: the critique's history.
        error: why there is no score.
    """

    judge: str
    candidate: str
    status: str
    score: int | None = None
    before_score: int | None = None
    reasoning: str = ""
    rounds: tuple[CritiqueRound, ...] = ()
    error: str | None = None

    def after(self, number: int) -> int | None:
        """Return the score after a round (0: before the first); if there was no such round, that after the last one."""
        if self.score is None:
            return None
        until_then = [entry for entry in self.rounds if entry.round <= number]
        return int(until_then[-1].after) if until_then else self.before_score


@dataclass(frozen=True, slots=True)
class PeerTable:
    """One query's answers and cells, each in the order of the models in the settings."""

    answers: tuple[PeerAnswer, ...]
    cells: tuple[PeerCell, ...]


def cell_of(judge: str, candidate: str, judgment: Judgment[PeerDetail]) -> PeerCell:
    """Convert a judgment to a cell."""
    if judgment.score is None:
        return PeerCell(judge, candidate, judgment.status.value, error=judgment.explanation)
    critique = judgment.critique
    return PeerCell(
        judge=judge,
        candidate=candidate,
        status=judgment.status.value,
        score=int(judgment.score),
        before_score=int(judgment.score if critique is None else critique.before_score),
        reasoning=judgment.explanation,
        rounds=() if critique is None else critique.rounds,
    )


def cells_of(judgment: Judgment[PeerTable] | None) -> Sequence[PeerCell]:
    """Return the cells of a query's judgment; none without a judgment."""
    return () if judgment is None or judgment.detail is None else judgment.detail.cells
