"""A verdict that a judge quotes before its own malformed one never becomes a score, whichever judge `score` asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from judgegym.engine.runs.directory import run_directory_of
from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import score
from tests.listwise import shown_answers
from tests.scripted import Json

ONE: Mapping[str, JSON] = {"prompt": "Why?", "response": "Because.", "baseline": "So."}


def answering(texts: Mapping[str, str]) -> Callable[[Json, int], str]:
    """A judge that writes a text for each question, with the ids of the answers that it is shown."""

    def answer(request: Json, number: int) -> str:
        asked = next(message["content"] for message in request["messages"] if message["role"] == "user")
        told = next(text for question, text in texts.items() if question in asked).replace("[[C]]", "[[B]]")
        for name, shown in zip(("ghjkm", "npqrt"), shown_answers(request), strict=False):
            told = told.replace(name, shown.id)
        return told

    return answer


def test_a_judge_without_any_verdict_is_shown_in_the_message(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", [ONE]), tmp_path / "scored.jsonl"
    with serving(answering({"Why": "They are the same.\nI would say\u202e four of five."})) as judge:
        ended = score(data, "--out", out, f"--judge_base_url={judge.base_url}")
    assert ended.code == 1
    assert 'which ends "They are the same. I would say  four of five."' in ended.said
    assert f"(all answers: {run_directory_of(out) / 'calls.jsonl'})" in ended.said
