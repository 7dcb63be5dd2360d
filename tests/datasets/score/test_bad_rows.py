"""Rows that cannot be judged: named all at once, or left out and listed, whatever else a run does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from judgegym.datasets.select.command import main as select
from judgegym.engine.runs.directory import run_directory_of
from judgegym.llm.wire import JSON
from tests.command import called, clean_environment, serving, write_lines
from tests.datasets.scoring import rated, read_rows, response_in, score
from tests.scripted import ScriptedEndpoint

PICTURE: JSON = [{"role": "user", "content": [{"type": "image_url"}]}]
ROWS: list[Mapping[str, JSON]] = [
    {"prompt": "p0"},
    {"prompt": "p1", "response": "1"},
    {"prompt": "p2", "response": ["a", "b"]},
    {"prompt": "p3", "response": "3"},
    {"prompt": PICTURE, "response": "4"},
    {"prompt": "p5", "response": "5", "rubric": {"criteria": 1}},
    {"prompt": "p6", "response": "5"},
]
GOOD = [1, 3, 6]
REASONS = {
    1: "expected beside the prompt in prompt a response",
    3: "has several responses, and the first row has one response",
    5: "a message has a part of type image_url",
    6: "rubric.criteria: expected text, found int",
}


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    with serving(rated(lambda response: int(response))) as endpoint:
        yield endpoint


def quarantined(out: Path) -> dict[int, str]:
    rows = read_rows(out.with_name(f"{out.stem}.quarantine.jsonl"))
    assert all(str(row["place"]).endswith(f"data.jsonl, row {row['row']}") for row in rows)
    assert all(row["column"] == ("rubric" if str(row["reason"]).startswith("rubric") else None) for row in rows)
    return {row["row"]: row["reason"] for row in rows}  # type: ignore[misc]


def check(out: Path) -> None:
    """The good rows have their scores, the others their reasons."""
    rows = read_rows(out)
    scores = [{1: 0.0, 3: 0.5, 6: 1.0}.get(number) for number in range(7)]
    assert [row["judge/score"] for row in rows] == scores
    assert [row["judge/status"] for row in rows] == ["ok" if n in GOOD else "bad_row" for n in range(7)]
    assert [{name: row[name] for name in given} for row, given in zip(rows, ROWS, strict=True)] == ROWS
    reasons = quarantined(out)
    assert sorted(reasons) == sorted(REASONS)
    for number, reason in REASONS.items():
        assert reasons[number].startswith(reason)
        assert rows[number - 1]["judge/explanation"] == reasons[number]


def test_all_bad_rows_are_named_and_nothing_is_asked(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    ended = score(write_lines(tmp_path / "data.jsonl", ROWS), "--out", out, f"--judge_base_url={judge.base_url}")
    assert (ended.code, judge.requests, out.exists()) == (2, [], False)
    assert "data.jsonl, row 1: expected beside the prompt" in ended.said
    assert "4 of 7 rows cannot be judged, also 3, 5, 6" in ended.said
    assert "--on_bad_row=skip judges the others" in ended.said


def test_the_others_are_judged_and_the_bad_ones_listed(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS), tmp_path / "scored.jsonl"
    ended = score(data, "--out", out, f"--judge_base_url={judge.base_url}", "--on_bad_row=skip")
    assert ended.code == 0, ended.said
    check(out)
    assert sorted(map(response_in, judge.bodies)) == ["1", "3", "5"]
    metrics = json.loads((run_directory_of(out) / "metrics.json").read_text())["results"]["all"]
    assert (metrics["eval/bad_rows"], metrics["eval/data_rows"], metrics["eval/mean_score"]) == (4, 7, 0.5)
    assert (metrics["eval/selected_rows"], metrics["eval/unscored_rate"]) == (3, 0)
    assert "rows that cannot be judged, and have no score: 4; the first: " in ended.said
    assert "scored.quarantine.jsonl says why" in ended.said
    chosen = tmp_path / "chosen" / "best.jsonl"
    picked = called(
        lambda: select([str(out), "--out", str(chosen), "--best"], prog="judgegym select"), clean_environment()
    )
    assert picked.code == 0, picked.said
    assert len(read_rows(chosen)) == 3


def test_a_plan_is_that_of_the_others(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [*ROWS, {"prompt": "p7"}])
    assert score(data, "--plan").code == 2
    ended = score(data, "--plan", "--on_bad_row=skip")
    assert ended.code == 0, ended.said
    assert "to judge             3 rows or groups" in ended.said
    assert "judge calls          3" in ended.said


def test_a_mended_row_is_judged_on_resuming_and_the_list_goes(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data, out = tmp_path / "data.jsonl", tmp_path / "scored.jsonl"
    words = (data, "--out", out, f"--judge_base_url={judge.base_url}", "--on_bad_row=skip")
    assert score(*words, "--limit=2").code == 2  # there is no data
    write_lines(data, ROWS[:2])
    assert score(*words).code == 0
    assert list(quarantined(out)) == [1]
    write_lines(data, [{"prompt": "p0", "response": "2"}, ROWS[1]])
    assert score(*words, "--resume").code == 0
    assert [row["judge/score"] for row in read_rows(out)] == [0.25, 0.0]
    assert len(judge.requests) == 2
    assert not out.with_name("scored.quarantine.jsonl").exists()


def test_shards_with_bad_rows_are_merged(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS), tmp_path / "scored.jsonl"
    words = (data, "--out", out, f"--judge_base_url={judge.base_url}", "--on_bad_row=skip")
    for shard in ("1/2", "2/2"):
        ended = score(*words, f"--shard={shard}")
        assert ended.code == 0, ended.said
    ended = score(*words, "--merge=2")
    assert ended.code == 0, ended.said
    check(out)


def test_a_group_is_judged_without_its_bad_rows(tmp_path: Path) -> None:
    rows: list[Mapping[str, JSON]] = [
        {"prompt": "p", "response": "one", "g": 1},
        {"prompt": "p", "g": 1},
        {"prompt": "q", "response": "a", "g": 2},
        {"prompt": "p", "response": "two", "g": 1},
        {"prompt": "other", "response": "b", "g": 2},
        {"prompt": "p", "response": "x", "g": None},
        {"prompt": "r", "response": "alone", "g": 3},
    ]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    with serving(lambda request, number: "[[A]]") as judge:
        words = ("--judge=choice", "--group_by=g", "--on_bad_row=skip", f"--judge_base_url={judge.base_url}")
        ended = score(data, "--out", out, *words)
    assert ended.code == 0, ended.said
    assert len(judge.requests) == 1
    found = [row["judge/status"] for row in read_rows(out)]
    assert found == ["ok", "bad_row", "bad_row", "ok", "bad_row", "bad_row", "bad_row"]
    reasons = quarantined(out)
    assert "another prompt" in reasons[3]
    assert "responses: expected 2 to 26, found 1" in reasons[7]


def test_rows_of_several_responses_and_lines_that_are_no_rows(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data, out = tmp_path / "data.jsonl", tmp_path / "scored.jsonl"
    data.write_text('{"prompt": "p", "responses": ["1", "5"]}\n{"prompt": "p"\n\n{"prompt": "q"}\n[1]\n')
    words = (data, "--out", out, f"--judge_base_url={judge.base_url}")
    ended = score(*words)
    assert (ended.code, judge.requests) == (2, [])
    assert "data.jsonl, row 2: not JSON: " in ended.said
    assert "2 lines are no JSON objects" in ended.said
    ended = score(*words, "--on_bad_row=skip")
    assert ended.code == 0, ended.said
    assert [row["judge/score"] for row in read_rows(out)] == [[0.0, 1.0], [None]]
    listed = read_rows(tmp_path / "scored.quarantine.jsonl")
    assert [row["row"] for row in listed] == [2, None, None]
    assert [str(row["place"]).removeprefix(f"{data}, ") for row in listed] == ["row 2", "line 2", "line 5"]


def test_where_no_row_can_be_judged_there_is_an_error(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": "p"}] * 3)
    words = (f"--judge_base_url={judge.base_url}", "--on_bad_row=skip")
    ended = score(data, "--out", tmp_path / "scored.jsonl", *words)
    assert ended.code == 2
    assert "row 1: expected beside the prompt in prompt a response" in ended.said
