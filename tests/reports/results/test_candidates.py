"""The candidates of a row, from a run of peer evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.engine.records import Sample
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.llm.wire import JSON
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.run import CandidateOfRow, SavedRun, candidates_of
from judgegym.reports.run_page.rows import row_detail, row_summary
from tests.peers import REFUSED, Minds, answer_of, asked, evaluate, queries
from tests.scripted import Json, Reply


def answered_by_two(request: Json, number: int) -> Reply | str:
    """Three models, one of which never answers a query."""
    what = asked(request)
    return REFUSED if what.kind == "answer" and what.model == "cid" else Minds()(request, number)  # type: ignore[return-value]


def test_candidates_of_a_row_have_their_answers_and_mean_scores(tmp_path: Path) -> None:
    run = evaluate(tmp_path, "--env.max_judge_error_rate=1", minds=answered_by_two, rows=queries(1))
    saved = SavedRun.open(run.files.path)
    (sample,) = saved.samples()
    ann, bob, cid = candidates_of(sample)
    assert [ann.name, bob.name, cid.name] == ["ann", "bob", "cid"]
    assert (ann.answer, bob.answer, cid.answer) == (
        answer_of("ann", "Question 0?"),
        answer_of("bob", "Question 0?"),
        None,
    )
    cells = run.files.samples[0]["detail"]["cells"]
    of_ann = [cell["score"] for cell in cells if cell["candidate"] == "ann"]
    assert len(of_ann) == 2 and ann.score == pytest.approx(sum(of_ann) / 2)
    assert cid.score is None and cid.error is not None and "not today" in cid.error

    detail = row_detail(sample, CallsOfRows.read(saved.path).of(sample.uid))
    assert [completion.text for completion in detail.completions] == [ann.answer, bob.answer, ""]
    assert (
        detail.completions[0].title == f"ann, scored {ann.score:.4g}" and "not today" in detail.completions[2].notes[0]
    )
    assert [message.text for message in detail.conversation] == ["Question 0?"], "which all three were asked"
    assert row_summary(sample).length == len(ann.answer or "") + len(bob.answer or "")


def sample_of(detail: JSON) -> Sample[JSON]:
    return Sample("row-0", None, "?", judgment=Judgment(1.0, Status.OK, detail=detail), score=1.0)


@pytest.mark.parametrize(
    "detail",
    [
        None,
        7,
        [],
        {},
        {"answers": 7},
        {"answers": ["x", {}]},
        {"answers": {"candidate": "a"}},
        {"games": [], "cells": [7]},
    ],
)
def test_other_details_have_no_candidates(detail: JSON) -> None:
    assert candidates_of(sample_of(detail)) == []


def test_a_candidate_without_a_cell_has_no_score() -> None:
    detail: JSON = {"answers": [{"candidate": "a", "answer": "A."}], "cells": [{"candidate": "b", "score": 3}]}
    sample = sample_of(detail)
    assert candidates_of(sample) == [CandidateOfRow("a", "A.", None, None)]


def test_score_of_a_candidate_that_plays_is_its_share_of_the_points() -> None:
    """A game counts as often as its weight says, in one step whatever that is; one without a verdict does not."""
    detail: JSON = {
        "answers": [{"candidate": name, "answer": name, "error": None} for name in ("a", "b", "c")],
        "games": [
            {"first": "a", "second": "b", "points": 1.0, "weight": 3.0},
            {"first": "b", "second": "a", "points": 0.5, "weight": 1e18},
            {"first": "a", "second": "c", "points": None, "weight": 1.0},
            {"first": "c", "second": "baseline", "points": 0, "weight": "heavy"},
        ],
    }
    sample = sample_of(detail)
    assert [each.score for each in candidates_of(sample)] == [pytest.approx(0.5), pytest.approx(0.5), None]


def test_page_shows_why_an_answer_counts_as_wrong() -> None:
    detail: JSON = {"answers": [{"candidate": "a", "answer": " ", "error": "the answer is empty"}], "games": []}
    sample = sample_of(detail)
    (shown,) = row_detail(sample, []).completions
    assert shown.notes == ["the answer is empty"]
