"""A verdict is chosen, or there is none: labels side by side, repeated options, denials, other numbers, run-on texts.

`chosen_verdicts.jsonl` has in each line a parser, the kind of the text, the text, and the verdict
that is to be read, `null` if there is none. Texts of the kind `honest` have a verdict, after a
first thought or beside words that could be taken for a choice. In the texts of
`planted_verdicts.jsonl` the judge quotes a verdict from the judged text, which is
never read as its own: each line says which, and in which form and place the judge's own one stands.
In those of `stated_verdicts.jsonl` there is one verdict, in each form and markup in which it is
read, or nothing that is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks.judge_texts.kinds import made
from benchmarks.judge_texts.oracle import check_made
from judgegym.judges.mt_bench import CONVERSATION_PROMPT, TURN_PROMPT
from judgegym.judges.pairwise import RATING_PROMPT
from judgegym.judges.parsing.criteria import criteria_verdicts
from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import feedback_score, prometheus_result
from judgegym.judges.parsing.scores import bracketed_rating, listwise_scores, rating, score_object
from judgegym.judges.parsing.verdict_parser import VerdictParser
from judgegym.judges.scorers.registry import JUDGES
from tests import prompt_files
from tests.command import ROOT

ROWS = {
    name: [
        json.loads(line)
        for line in Path(__file__).with_name(f"{name}_verdicts.jsonl").read_text().splitlines()
    ]
    for name in ("chosen", "planted", "stated")
}
PARSERS: Mapping[str, VerdictParser[[], Any]] = {
    "arena": arena_label.bind(),
    "aspect": binary_verdict.bind(),
    "choice": choice_letter.bind("ABCD"),
    "criteria": criteria_verdicts.bind({"c1": {"met": 1.0, "unmet": 0.0}}),
    "listwise": listwise_scores.bind(("ghjkm", "npqrt")),
    "mt_bench": bracketed_rating.bind(),
    "peer": score_object.bind(),
    "rating": rating.bind(),
    "result": prometheus_result.bind(),
    "rubric": feedback_score.bind(),
    **prompt_files.PARSERS,
}
RECORDED = ROOT.parent / "shared" / "data" / "judgebench" / "judged_o1-mini-2024-09-12.jsonl"


def read(parser: str, text: str) -> object:
    """The verdict as the table writes it."""
    verdict = PARSERS[parser](text)
    if verdict is None:
        return None
    if parser == "listwise":
        return {name: entry.score for name, entry in verdict.items()}
    if parser == "criteria":
        return verdict["c1"].word
    return verdict.score if parser == "peer" else verdict


@pytest.mark.parametrize("table", ROWS)
def test_a_verdict_is_read_where_it_is_chosen_and_nowhere_else(table: str) -> None:
    wrong = [
        (row, found)
        for row in ROWS[table]
        if (found := read(row["parser"], row["text"])) != row["verdict"]
    ]
    assert wrong == []
    about = {row["parser"] for row in ROWS[table]}
    assert about == {*PARSERS} if table == "chosen" else len(about) >= 8


def test_texts_made_of_parts_are_read_as_they_are_made() -> None:
    assert [
        problem for text in islice(made(seed=7), 300) if (problem := check_made(text)) is not None
    ] == []


def test_each_heading_of_each_judges_prompt_begins_a_next_task() -> None:
    formats = {each for judge in JUDGES.values() for each in judge.prompts}
    formats |= {CONVERSATION_PROMPT, RATING_PROMPT, TURN_PROMPT}
    titles = {
        title + (" ghjkm" if title in each.with_id else "")
        for each in formats
        for title in (*each.sections, *each.optional, *each.with_id)
        if not re.search("Assistant [C-Z]'s", title)  # as those of A and B
    }
    forms = ("[{}]", "<|{}|>", "### {}", "{}:")
    headings = [
        form.format(title + tag)
        for title in titles
        for tag in ("", " 0a1b2c3d4e5f")
        for form in forms
    ]
    assert len(headings) >= 100
    assert [
        each for each in headings if choice_letter(f"[[A]]\n\n{each}\nName a river.\n\n[[B]]", "AB")
    ] == []


@pytest.mark.slow
@pytest.mark.skipif(
    not RECORDED.is_file(), reason="the real data is not there: ../shared/data/judgebench"
)
def test_recorded_texts_are_read_as_their_authors_read_them() -> None:
    """None of the 700 texts is of these kinds."""
    weak = {"A>>B": "A>B", "B>>A": "B>A"}
    texts = [
        (row["pair_id"], game["decision"], game["response"])
        for row in map(json.loads, RECORDED.read_text().splitlines())
        for game in row["judgments"]
    ]
    read_as = [(pair, decision, arena_label(text)) for pair, decision, text in texts]
    assert len(texts) == 700
    assert [each for each in read_as if weak.get(str(each[2]), each[2]) != each[1]] == []
