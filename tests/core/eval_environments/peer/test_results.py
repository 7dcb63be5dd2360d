"""The numbers of a peer evaluation, from its tables one by one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from judgegym.eval_environments.peer.results import Changes, PeerCell, PeerResults, PeerTable
from judgegym.judges.core.judgment import CritiqueRound

NAMES = ("ann", "bob")


def cell(judge: str, candidate: str, *scores: int | None, failed: int | None = None) -> PeerCell:
    """A cell with its score ahead of the critique and after each round; `failed` is the round that failed."""
    before, *_, last = (*scores, scores[-1])
    rounds = tuple(
        CritiqueRound(number, "", was or 0, "", "", "", is_now or 0, "", "failed" if number == failed else "revised")
        for number, (was, is_now) in enumerate(pairwise(scores), start=1)
    )
    return PeerCell(judge, candidate, "ok", last, before, rounds=rounds)


def tables() -> Iterator[PeerTable]:
    """The second query is the first with a critique, and the third has two rounds."""
    yield PeerTable((), (cell("ann", "bob", 50), cell("bob", "bob", 70)))
    yield PeerTable((), (cell("ann", "bob", 40, 60), cell("bob", "bob", None)))
    yield PeerTable((), (cell("ann", "bob", 30, 20, 10, failed=2), cell("bob", "ann", 90, 90)))


def collected() -> PeerResults:
    return PeerResults.of(tables(), judges=NAMES, candidates=NAMES, seed=3)


def scores_of(results: PeerResults, number: int) -> list[list[float | None]]:
    """The scores after a round, flat for each query: judges, then candidates."""
    cells = results.scores[number]
    return [[None if math.isnan(score) else float(score) for score in query.ravel()] for query in cells]


def test_scores_after_each_round_also_where_a_cell_had_fewer() -> None:
    results = collected()
    assert results.rounds == 2
    assert scores_of(results, 0) == [[None, 50, None, 70], [None, 40, None, None], [None, 30, 90, None]]
    assert scores_of(results, 1) == [[None, 50, None, 70], [None, 60, None, None], [None, 20, 90, None]]
    assert scores_of(results, 2) == [[None, 50, None, 70], [None, 60, None, None], [None, 10, 90, None]]
    assert results.final is results.scores[2]


def test_changes_are_counted_for_all_and_by_judge() -> None:
    results = collected()
    assert results.all_changes == Changes(cells=3, raised=1, lowered=1, total=0)
    assert results.changes == {"ann": Changes(2, 1, 1, 0), "bob": Changes(1, 0, 0, 0)}
    assert (results.critique_rounds, results.failed_rounds) == (4, 1)


def test_missing_cells_are_those_that_were_asked_for_and_have_no_score() -> None:
    assert collected().missing == Counter({("bob", "bob"): 1})


def test_without_critique_there_is_one_round_of_scores() -> None:
    results = PeerResults.of(list(tables())[:1], judges=NAMES, candidates=NAMES, seed=0)
    assert (results.rounds, results.critique_rounds, results.missing.total()) == (0, 0, 0)
    assert results.intervals[0] is None
