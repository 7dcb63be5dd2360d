"""What peers say of one query's answers: a cell for each judge and candidate, with its rounds or why it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judges.core.judgment import CritiqueRound, Judgment
from judges.peers.judge import PeerDetail


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """A candidate's answer to a query; `None` with the reason if there is none."""

    candidate: str
    answer: str | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PeerCell:
    """A judge's score of a candidate.

    Attributes:
        judge: who judges.
        candidate: who is judged.
        status: as of a judgment; `policy_failed` where there was no answer to judge.
        score: after the last round, 0 to 100; `None` if there is none.
        before_score: ahead of the first round; the same as `score` without rounds.
        reasoning: why the score is what it is.
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
        """The score after a round (0: ahead of the first one); after a round not held, that of the last one held."""
        if self.score is None:
            return None
        held = [each for each in self.rounds if each.round <= number]
        return int(held[-1].after) if held else self.before_score


@dataclass(frozen=True, slots=True)
class PeerTable:
    """One query's answers and cells, each in the order of the models in the settings."""

    answers: tuple[PeerAnswer, ...]
    cells: tuple[PeerCell, ...]


def cell_of(judge: str, candidate: str, judgment: Judgment[PeerDetail]) -> PeerCell:
    """A judgment as a cell."""
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
    """The cells of a query's judgment, if there is one."""
    return () if judgment is None or judgment.detail is None else judgment.detail.cells


def answers_of(judgment: Judgment[PeerTable] | None) -> dict[str, PeerAnswer]:
    """The answers that a query's judgment holds, by candidate."""
    answers = () if judgment is None or judgment.detail is None else judgment.detail.answers
    return {answer.candidate: answer for answer in answers if answer.answer is not None}
