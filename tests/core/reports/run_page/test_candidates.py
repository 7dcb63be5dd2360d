"""The candidates of a row, from a run of peer evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.engine.records import Sample
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.llm.wire import JSON
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page.rows import make_row_item, render_completions
from tests.core.reports.objects import objects
from tests.peers import REFUSED, Minds, answer_of, asked, evaluate, queries
from tests.scripted import Json, Reply


def answered_by_two(request: Json, number: int) -> Reply | str:
    """Three models, one of which never answers a query."""
    what = asked(request)
    return REFUSED if what.kind == "answer" and what.model == "cid" else Minds()(request, number)  # type: ignore[return-value]


@pytest.mark.slow
def test_candidates_of_a_row_have_their_answers_and_mean_scores(tmp_path: Path) -> None:
    run = evaluate(tmp_path, "--env.max_judge_error_rate=1", minds=answered_by_two, rows=queries(1))
    saved = SavedRun.open(run.files.path)
    (sample,) = saved.samples()
    summary, detail = objects(
        [*make_row_item(sample, CallsOfRows.read(saved.path).select(sample.uid))]
    )
    ann, bob, cid = detail.completions
    answers = [answer_of("ann", "Question 0?"), answer_of("bob", "Question 0?"), ""]
    assert [ann.text, bob.text, cid.text] == answers
    cells = run.files.samples[0]["detail"]["cells"]
    of_ann = [cell["score"] for cell in cells if cell["candidate"] == "ann"]
    assert len(of_ann) == 2 and ann.score == pytest.approx(sum(of_ann) / 2)
    assert ann.title == f"ann, scored {ann.score:.4g}" and bob.title.startswith("bob, scored ")
    assert cid.title == "cid" and cid.score is None and "not today" in cid.notes[0]
    assert [message.text for message in detail.conversation] == ["Question 0?"], (
        "which all three were asked"
    )
    assert summary.length == sum(map(len, answers))


def sample_of(detail: JSON) -> Sample[JSON]:
    return Sample("row-0", None, "?", judgment=Judgment(1.0, Status.OK, detail=detail), score=1.0)


def test_other_details_have_no_candidates() -> None:
    answers: list[JSON] = [7, ["x", {}], {"candidate": "a"}]
    for detail in (
        None,
        7,
        [],
        {},
        *({"answers": each} for each in answers),
        {"games": [], "cells": [7]},
    ):
        assert render_completions(sample_of(detail)) == []


def test_a_candidate_without_a_cell_has_no_score_and_the_page_shows_why_an_answer_is_wrong() -> (
    None
):
    answer: JSON = {"candidate": "a", "answer": "A.", "error": "the answer is wrong"}
    (found,) = render_completions(
        sample_of({"answers": [answer], "cells": [{"candidate": "b", "score": 3}]})
    )
    assert (found["title"], found["text"], found["score"]) == ("a", "A.", None)
    assert found["notes"] == ["the answer is wrong"]


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
    assert [each["score"] for each in render_completions(sample_of(detail))] == [
        pytest.approx(0.5),
        pytest.approx(0.5),
        None,
    ]
