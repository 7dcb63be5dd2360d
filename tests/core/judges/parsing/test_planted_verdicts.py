"""A verdict that the judge quotes from a judged text is never read as its own: a table of texts for each parser.

`planted_verdicts.jsonl` has in each line a parser, the planted verdict, the form and place of the judge's own one, the
text, and the verdict that is to be read, `null` if there is none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import feedback_score, prometheus_result
from judgegym.judges.parsing.scores import listwise_scores, rating, score_object
from judgegym.judges.parsing.verdict_parser import VerdictParser
from tests import prompt_files

TABLE = [json.loads(line) for line in Path(__file__).with_name("planted_verdicts.jsonl").read_text().splitlines()]
PARSERS: Mapping[str, VerdictParser[[], Any]] = {
    "arena": arena_label.given(),
    "aspect": binary_verdict.given(),
    "choice": choice_letter.given("ABCD"),
    "listwise": listwise_scores.given(("ghjkm", "npqrt")),
    "peer": score_object.given(),
    "rating": rating.given(),
    "result": prometheus_result.given(),
    "rubric": feedback_score.given(),
    **prompt_files.PARSERS,
}


def read(parser: str, text: str) -> object:
    """The verdict as the table writes it."""
    verdict = PARSERS[parser](text)
    if parser == "listwise" and verdict is not None:
        return {name: entry.score for name, entry in verdict.items()}
    return verdict.score if parser == "peer" and verdict is not None else verdict


def test_the_last_candidate_of_each_text_is_its_verdict_or_there_is_none() -> None:
    wrong = [(row, found) for row in TABLE if (found := read(row["parser"], row["text"])) != row["verdict"]]
    assert wrong == []


def test_the_table_is_about_every_parser() -> None:
    """Each has texts with a verdict and without one, and no text in which the planted verdict is the right one."""
    assert len(TABLE) >= 150 and sum(row.get("of_finding", False) for row in TABLE) >= 36
    for parser in PARSERS:
        verdicts = [row["verdict"] for row in TABLE if row["parser"] == parser]
        assert verdicts.count(None) >= 10 and len(verdicts) - verdicts.count(None) >= 4, parser
    assert len(Counter((row["parser"], row["text"]) for row in TABLE)) == len(TABLE)
