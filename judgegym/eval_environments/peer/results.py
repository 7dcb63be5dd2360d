"""Numbers of a peer evaluation, and the cells of its queries.

The numbers are collected from the queries' tables one by one: a cell's scores are kept, not its
texts. A table has a cell for each judge and candidate, with its rounds of critique or why it is
empty.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from judgegym.engine.completions import Completion
from judgegym.eval_environments.peer.ranking import compute_adjusted_intervals
from judgegym.judges.core.judgment import CritiqueRound, Judgment
from judgegym.judges.peers import PeerDetail
from judgegym.statistics.agreement import Interval

if TYPE_CHECKING:
    from judgegym.eval_environments.peer.ranking import Floats


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """A candidate's answer to a query, or the reason why there is none."""

    candidate: str
    answer: str | None
    error: str | None = None

    @classmethod
    def from_reply(cls, candidate: str, reply: Completion | str) -> PeerAnswer:
        """Make a candidate's answer, with the reason if there is none or its format is wrong."""
        if isinstance(reply, str):
            return cls(candidate, None, reply)
        if reply.refused:
            return cls(candidate, None, "the candidate refused to answer")
        if reply.thinking_fault is not None:
            return cls(candidate, None, f"the thinking is malformed: {reply.thinking_fault}")
        if not reply.answer.strip():
            return cls(candidate, None, "the answer is empty")
        return cls(candidate, reply.answer)


@dataclass(frozen=True, slots=True)
class PeerCell:
    """A judge's score of a candidate.

    Attributes:
        judge: the judge's name.
        candidate: the candidate's name.
        status: the judgment's status; `policy_failed` if there was no answer to judge.
        score: the score after the last round, 0 to 100; `None` if there is none.
        before_score: the score before the first round; equals `score` without rounds.
        reasoning: the judge's reasons.
        rounds: the history of the critique.
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

    def score_after(self, number: int) -> int | None:
        """Return the score after a round (0: before the first), or after the last one before it."""
        if self.score is None:
            return None
        entries = [entry for entry in self.rounds if entry.round <= number]
        if entries:
            return int(entries[-1].after)
        return self.before_score


@dataclass(frozen=True, slots=True)
class PeerTable:
    """A query's answers and cells, each in the order of the models in the settings."""

    answers: tuple[PeerAnswer, ...]
    cells: tuple[PeerCell, ...]


def make_cell(judge: str, candidate: str, judgment: Judgment[PeerDetail]) -> PeerCell:
    """Convert a judgment to a cell."""
    if judgment.score is None:
        return PeerCell(judge, candidate, judgment.status.value, error=judgment.explanation)
    before_score = judgment.score
    rounds = tuple[CritiqueRound, ...]()
    if judgment.critique is not None:
        before_score = judgment.critique.before_score
        rounds = judgment.critique.rounds
    return PeerCell(
        judge=judge,
        candidate=candidate,
        status=judgment.status.value,
        score=int(judgment.score),
        before_score=int(before_score),
        reasoning=judgment.explanation,
        rounds=rounds,
    )


def list_cells(judgment: Judgment[PeerTable] | None) -> Sequence[PeerCell]:
    """Return the cells of a query's judgment; empty without a judgment."""
    if judgment is None or judgment.detail is None:
        return ()
    return judgment.detail.cells


@dataclass(slots=True)
class Changes:
    """Changes of scores by critique.

    Attributes:
        cells: number of scores that were critiqued.
        raised: number of scores that are higher afterwards.
        lowered: number of scores that are lower afterwards.
        total: the sum of the changes, in points.
    """

    cells: int = 0
    raised: int = 0
    lowered: int = 0
    total: int = 0

    def add(self, cell: PeerCell) -> None:
        """Add a cell, if it has a score that was critiqued."""
        if cell.rounds and cell.score is not None and cell.before_score is not None:
            change = cell.score - cell.before_score
            self.cells += 1
            self.raised += change > 0
            self.lowered += change < 0
            self.total += change


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class PeerResults:
    """Scores of all queries.

    Attributes:
        judges: the judges' names; the rows of a table.
        candidates: the candidates' names; its columns.
        scores: scores before the critique and after each of its rounds.
        missing: number of cells without a score, by judge and candidate.
        all_changes: changes by critique.
        changes: changes by critique, by judge.
        critique_rounds: number of rounds of all cells.
        failed_rounds: number of failed rounds.
        seed: the seed of the intervals.
    """

    judges: tuple[str, ...]
    candidates: tuple[str, ...]
    scores: Sequence[Floats]
    missing: Counter[tuple[str, str]]
    all_changes: Changes
    changes: Mapping[str, Changes]
    critique_rounds: int
    failed_rounds: int
    seed: int

    @classmethod
    def from_tables(
        cls,
        tables: Iterable[PeerTable],
        *,
        judges: tuple[str, ...],
        candidates: tuple[str, ...],
        seed: int,
    ) -> PeerResults:
        """Collect the scores of the queries' tables, which are iterated over once."""
        import numpy as np

        blank = array("d", [float("nan")]) * (len(judges) * len(candidates))
        after = [array("d")]  # for each round, a block of judges × candidates for each query
        missing: Counter[tuple[str, str]] = Counter()
        all_changes = Changes()
        changes = {judge: Changes() for judge in judges}
        critique_rounds = failed_rounds = 0
        for table in tables:
            start = len(after[0])
            for scores in after:
                scores.extend(blank)
            for cell in table.cells:
                for entry in cell.rounds:
                    critique_rounds += 1
                    failed_rounds += entry.status == "failed"
                    while len(after) <= entry.round:  # the first cell with so many rounds
                        after.append(after[-1][:])
                missing[cell.judge, cell.candidate] += cell.score is None
                all_changes.add(cell)
                changes[cell.judge].add(cell)
                offset = (
                    start
                    + judges.index(cell.judge) * len(candidates)
                    + candidates.index(cell.candidate)
                )
                for number, scores in enumerate(after):
                    score = cell.score_after(number)
                    if score is not None:
                        scores[offset] = score
        return cls(
            judges=judges,
            candidates=candidates,
            scores=[
                np.asarray(scores).reshape(-1, len(judges), len(candidates)) for scores in after
            ],
            missing=+missing,
            all_changes=all_changes,
            changes=changes,
            critique_rounds=critique_rounds,
            failed_rounds=failed_rounds,
            seed=seed,
        )

    @property
    def rounds(self) -> int:
        """Last round of any cell; 0 without critique."""
        return len(self.scores) - 1

    @property
    def final(self) -> Floats:
        """The scores after the last round."""
        return self.scores[-1]

    @cached_property
    def intervals(self) -> list[Interval | None]:
        """The intervals of the adjusted scores, over the queries."""
        return compute_adjusted_intervals(self.final, seed=self.seed)
