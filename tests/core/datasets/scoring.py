"""Runs `judgegym score` in this process against a scripted judge, and reads what it writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judgegym.datasets.score.command import main
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.llm.wire import JSON
from tests.command import Ended, RunFiles, called, clean_environment, write_lines
from tests.scripted import Json, Reply, ScriptedEndpoint

_RESPONSE = re.compile(
    r"### Response To Evaluate(?: [0-9a-f]{12})?\n\n(.*?)\n\n(?:###|---)", re.DOTALL
)


def score(*words: object) -> Ended:
    """The command."""
    return called(
        lambda: main([str(word) for word in words], prog="judgegym score"), clean_environment()
    )


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
    return read_rows(locate_run_directory(out) / "samples.jsonl")


def by_points(response: str) -> int:
    """The rating of `3 points`."""
    return int(response.split()[0])


class Scoring:
    """The command with a judge of a test: it reads `data.jsonl` of a folder, and writes `scored.jsonl` there."""

    def __init__(self, folder: Path, judge: ScriptedEndpoint) -> None:
        self.judge, self.data, self.out = judge, folder / "data.jsonl", folder / "scored.jsonl"

    def __call__(self, *words: object, rows: Sequence[Mapping[str, Any]] | None = None) -> Ended:
        if rows is not None:
            write_lines(self.data, rows)
        return score(
            self.data, "--out", self.out, f"--judge_base_url={self.judge.base_url}", *words
        )

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the file."""
        return read_rows(self.out)

    @property
    def samples(self) -> Sequence[Mapping[str, Any]]:
        """The lines of the run."""
        return samples_of(self.out)

    @property
    def run(self) -> RunFiles:
        """The files of the run."""
        return RunFiles(locate_run_directory(self.out))

    def column(self, name: str) -> list[Any]:
        """A column of the file."""
        return [row[name] for row in self.rows]
