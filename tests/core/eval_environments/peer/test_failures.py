"""Peer evaluation when models fail: what is missing is marked, with its reason, and the rest stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.peers import (
    REFUSED,
    Asked,
    Minds,
    Said,
    answer_of,
    bench,
    evaluate,
    queries,
    scored,
)

LENIENT = "--env.max_judge_error_rate=1"
ONCE = "--env.critique_rounds=0", LENIENT


def silent(name: str, reply: Said = REFUSED) -> Minds:
    """Models of which one answers nothing, or this."""
    return Minds(answer=lambda it: reply if it.model == name else answer_of(it.model, it.query))


def refusing_one(it: Asked) -> Said:
    """A judgment of one pair that fails; all others are 50."""
    return REFUSED if (it.model, it.candidate) == ("ann", "cid") else 50


@pytest.mark.slow
def test_a_candidate_that_fails_is_marked_and_not_judged(tmp_path: Path) -> None:
    with bench(tmp_path, silent("bob")) as models:
        ended = models.evaluate(LENIENT, rows=queries(2))
    assert ended.code == 0, ended.said
    assert {it.candidate for it in models.asked() if it.kind != "answer"} == {"ann", "cid"}
    assert models.counts() == {"answer": 6, "judgment": 8, "critique": 8}
    cells = ended.cells("q0")
    assert len(cells) == 6
    for judge in ("ann", "cid"):
        cell = cells[judge, "bob"]
        assert (cell["status"], cell["score"]) == ("policy_failed", None)
        assert "not today" in cell["error"]
    assert "* q0: ann of bob: policy_failed: the candidate at" in ended.markdown
    assert ended.metrics["missing_cells"] == 4
    assert re.search(r"^  missing scores +4$", ended.ended.out, re.MULTILINE)
    assert ended.metrics["missing_cell_rate"] == pytest.approx(1 / 3)
    assert "mean_score_bob" in ended.left_out
    assert ended.metrics["mean_score"] == 50


@pytest.mark.slow
def test_a_query_that_no_candidate_answers_is_a_failure_of_theirs_and_not_of_a_judge(
    tmp_path: Path,
) -> None:
    def answer(it: Asked) -> Said:
        return REFUSED if it.query == "Question 0?" else answer_of(it.model, it.query)

    with bench(tmp_path, Minds(answer=answer)) as models:
        ended = models.evaluate(*ONCE, rows=queries(2))
    assert ended.code == 0, ended.said
    (failure,) = ended.files.failures
    assert (failure["uid"], failure["status"]) == ("q0", "policy_failed")
    assert "not today" in failure["error"]
    assert (ended.metrics["policy_failed_count"], ended.metrics["policy_error_rate"]) == (1, 0.5)
    assert (ended.metrics["judge_failed_count"], ended.metrics["judge_error_rate"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        pytest.param(REFUSED, "judge_failed", "not today", id="refused"),
        pytest.param(scored(150), "unparsable", "no verdict", id="off the scale"),
    ],
)
def test_a_judge_that_fails_on_one_pair_leaves_one_marked_cell(
    tmp_path: Path, said: Said, status: str, words: str
) -> None:
    judgment = Minds(judgment=lambda it: said if (it.model, it.candidate) == ("ann", "cid") else 50)
    ended = evaluate(tmp_path, *ONCE, minds=judgment)
    assert ended.code == 0, ended.said
    cells = ended.cells("q0")
    assert [pair for pair, cell in cells.items() if cell["score"] is None] == [("ann", "cid")]
    assert cells["ann", "cid"]["status"] == status
    assert words in cells["ann", "cid"]["error"]
    assert ended.table(0)[1:] == [
        ["ann", "", "50", ""],
        ["bob", "50", "", "50"],
        ["cid", "50", "50", ""],
    ]
    assert ended.shown("ann")[0] == ["ann", "–", "50", "– (1 missing)"]
    assert "ann of cid" in ended.markdown
    assert ended.metrics["missing_cell_rate"] == pytest.approx(1 / 6)


@pytest.mark.slow
@pytest.mark.parametrize(("allowed", "code"), [("0.16", 1), ("0.17", 0)])
def test_missing_cells_count_against_the_rate_that_is_allowed(
    tmp_path: Path, allowed: str, code: int
) -> None:
    flags = f"--env.max_judge_error_rate={allowed}", "--env.critique_rounds=0"
    ended = evaluate(tmp_path, *flags, minds=Minds(judgment=refusing_one))
    assert ended.code == code, ended.said
    assert ("16.7 % of the cells" in ended.said) == bool(code)
    assert ended.metrics["mean_score"] == 50, "the rest stands all the same"


@pytest.mark.slow
@pytest.mark.parametrize("said", [REFUSED, scored(85.5)])
def test_a_failed_round_keeps_the_score_and_says_so(tmp_path: Path, said: Said) -> None:
    def critique(it: Asked) -> Said:
        return said if (it.model, it.candidate) == ("ann", "bob") else 70

    ended = evaluate(tmp_path, minds=Minds(critique=critique))
    assert ended.code == 0, ended.said
    assert ended.table(1)[1:] == [
        ["ann", "", "50", "70"],
        ["bob", "70", "", "70"],
        ["cid", "70", "70", ""],
    ]
    (failed,) = (each for each in ended.history if each["status"] == "failed")
    assert (failed["evaluating_model"], failed["evaluated_model"]) == ("ann", "bob")
    assert (failed["before_score"], failed["after_score"]) == (50, 50)
    assert failed["error"]
    assert "After (failed: " in ended.markdown
    assert ended.metrics["critique_failed_round_rate"] == pytest.approx(1 / 6)
    assert ended.metrics["missing_cells"] == 0
    assert "missing scores" not in ended.ended.out
    assert ended.metrics["critique_changed_rate"] == pytest.approx(5 / 6)
