"""Rows and settings that nobody should write: an error in one message before anything is asked, or a score.

The cases are files in `data/`, each with the exit code and the words that its message has. In a
text that is a list, a pair is a piece and how often it is repeated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import in_process
from tests.conformance.subjects import KEYS
from tests.faults.bench import Bench, Outcome, stand_in

DATA = Path(__file__).parent / "data"
FIRST = {
    "uid": "first",
    "instruction": "Explain the first to a child.",
    "rubric": "Does a child understand it?",
}


def cases(name: str) -> list[Any]:
    """The cases of a file, by their names."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    found = [
        {field: _repeated(field, value) for field, value in json.loads(line).items()}
        for line in lines
    ]
    return [pytest.param(case, id=case["name"]) for case in found]


def _repeated(field: str, value: Any) -> Any:
    if field not in ("line", "text", "yaml") or isinstance(value, str):
        return value
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in value)


def holds(outcome: Outcome, case: dict[str, Any], rows: int) -> None:
    """A refusal is one line, and nothing was asked; otherwise all rows are scored."""
    ended = outcome.ended
    assert ended.code == case["code"], ended.said
    if case["code"] == 0:
        assert (len(outcome.result), outcome.failures) == (rows, [])
        return
    assert ended.err.count("\n") == 1
    assert [word for word in case["says"] if word not in ended.err] == []
    assert outcome.policy.requests == outcome.judge.requests == 0


@pytest.mark.parametrize("case", cases("rows.jsonl"))
def test_hostile_row_is_scored_or_named(bench: Bench, case: dict[str, Any]) -> None:
    path = bench.path / "eval_dataset.jsonl"
    path.write_text(f"{json.dumps(FIRST)}\n{case['line']}\n", encoding="utf-8")
    holds(bench.run("evaluate"), {**case, "says": [str(path), *case["says"]]}, 2)


@pytest.mark.parametrize("case", cases("row_files.jsonl"))
def test_hostile_file_of_rows_is_read_or_named(bench: Bench, case: dict[str, Any]) -> None:
    path = bench.path / "eval_dataset.jsonl"
    path.write_bytes(case["text"].encode(case["encoding"]))
    holds(bench.run("evaluate"), {**case, "says": [str(path), *case["says"]]}, 1)


@pytest.mark.parametrize("case", cases("settings.jsonl"))
def test_hostile_settings_are_refused_in_one_line(bench: Bench, case: dict[str, Any]) -> None:
    path = bench.path / "settings.yaml"
    path.write_bytes(case["yaml"].encode(case["encoding"]))
    with stand_in(bench.loop) as policy, stand_in(bench.loop) as judge:
        argv = bench.argv("evaluate", "run", policy, judge)
        named = [line.partition(":")[0].strip() for line in case["yaml"].splitlines()]
        named += [
            f"{name}_env" for name in named
        ]  # the command line's variable would replace the file's key
        argv = [flag for flag in argv if flag.partition("=")[0].removeprefix("--env.") not in named]
        ended = in_process(*argv, f"--config={path}", env_type=bench.subject.env_type, env=KEYS)
        assert policy.requests == judge.requests == 0
    assert ended.code == 2, ended.said
    assert ended.err.count("\n") == 1, ended.err
    assert [word for word in case["says"] if word not in ended.err] == []
    assert str(path) in ended.err or "judge_api_key" in case["yaml"], (
        "a key is not told from where it is"
    )
    assert not (bench.path / "run").exists()
