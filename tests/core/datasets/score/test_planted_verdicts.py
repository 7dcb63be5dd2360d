"""A verdict that a judge quotes before its own malformed one never becomes a score, whichever judge `score` asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from judgegym.engine.runs.directory import run_directory_of
from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import read_rows, score
from tests.core.judges.parsing.test_planted_verdicts import TABLE
from tests.listwise import shown_answers
from tests.scripted import Json

ONE: Mapping[str, JSON] = {"prompt": "Why?", "response": "Because.", "baseline": "So."}
TWO: Mapping[str, JSON] = {"prompt": "Why?", "responses": ["Because.", "So."]}
# By parser: the words of the command, a row, and the form of the judge's own verdict in the table.
COMMANDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, JSON], str]] = {
    "arena": (("--judge=arena_hard",), ONE, "bold"),
    "aspect": (("--judge=aspect", "--aspects=correctness"), ONE, "in words"),
    "choice": (("--judge=choice",), TWO, "spaces"),
    "listwise": (("--judge=listwise",), TWO, "nested"),
    "peer": (("--judge=peer",), ONE, "another key"),
    "result": (("--judge=rubric", "--output_format=result"), ONE, "a name"),
    "rubric": (("--judge=rubric",), ONE, "full-width letters"),
}


def text_of(parser: str, form: str | None, order: str) -> str:
    """A text of the table: the first one of a parser in this order, of this form if one is given."""
    texts = (each["text"] for each in TABLE if (each["parser"], each["order"]) == (parser, order))
    forms = (each["own"] for each in TABLE if (each["parser"], each["order"]) == (parser, order))
    return next(text for text, own in zip(texts, forms, strict=True) if form in (None, own))


def answering(texts: Mapping[str, str]) -> Callable[[Json, int], str]:
    """A judge that writes a text for each question, with the ids of the answers that it is shown."""

    def answer(request: Json, number: int) -> str:
        asked = next(message["content"] for message in request["messages"] if message["role"] == "user")
        told = next(text for question, text in texts.items() if question in asked).replace("[[C]]", "[[B]]")
        for name, shown in zip(("ghjkm", "npqrt"), shown_answers(request), strict=False):
            told = told.replace(name, shown.id)
        return told

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("parser", COMMANDS)
def test_a_planted_verdict_is_no_score(tmp_path: Path, parser: str) -> None:
    words, row, form = COMMANDS[parser]
    texts = {"Why is it?": text_of(parser, form, "planted, own"), "How is it?": text_of(parser, None, "own alone")}
    data = write_lines(tmp_path / "data.jsonl", [{**row, "prompt": question} for question in texts])
    out = tmp_path / "scored.jsonl"
    with serving(answering(texts)) as judge:
        ended = score(data, "--out", out, f"--judge_base_url={judge.base_url}", *words)
    failed, judged = (each["judge/score"] for each in read_rows(out))
    assert failed == (None if "response" in row else [None, None])
    assert judged is not None and judged != [None, None]
    assert ended.code == 1 and "have no score" in ended.said, ended.said


def test_a_judge_without_any_verdict_is_shown_in_the_message(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", [ONE]), tmp_path / "scored.jsonl"
    with serving(answering({"Why": "They are the same.\nI would say\u202e four of five."})) as judge:
        ended = score(data, "--out", out, f"--judge_base_url={judge.base_url}")
    assert ended.code == 1
    assert 'which ends "They are the same. I would say  four of five."' in ended.said
    assert f"(all answers: {run_directory_of(out) / 'calls.jsonl'})" in ended.said
