"""Runs `judgegym score` in this process against a scripted judge, and reads what it writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judgegym.datasets.score.command import main
from judgegym.engine.runs.directory import run_directory_of
from judgegym.llm.wire import JSON
from tests.command import Ended, called, clean_environment
from tests.scripted import Json, Reply

_RESPONSE = re.compile(r"### Response To Evaluate(?: [0-9a-f]{12})?\n\n(.*?)\n\n(?:###|---)", re.DOTALL)


def score(*words: object) -> Ended:
    """The command."""
    return called(lambda: main([str(word) for word in words], prog="judgegym score"), clean_environment())


def rated(rating: Callable[[str], int | Reply]) -> Callable[[Json, int], Reply | str]:
    """A rubric judge that rates each response by its text, from 1 to 5."""

    def answer(request: Json, number: int) -> Reply | str:
        given = rating(response_in(request))
        return given if isinstance(given, Reply) else f"[FEEDBACK] Because. [SCORE] {given}"

    return answer


def response_in(request: Json) -> str:
    """The response that a rubric judge is asked about."""
    found = _RESPONSE.search(request["messages"][-1]["content"] + "\n\n---")
    assert found is not None, request
    return found[1]


def read_rows(path: Path) -> Sequence[Mapping[str, JSON]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def samples_of(out: Path) -> Sequence[Mapping[str, JSON]]:
    """The lines of the run beside a file."""
    return read_rows(run_directory_of(out) / "samples.jsonl")
