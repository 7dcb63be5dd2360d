"""Rows that cannot be judged: named all at once, or left out and listed, whatever else a run does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import Scoring, read_rows, response_in, score
from tests.core.datasets.select.scored import select

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
    1: "expected .*beside the prompt .*--response_column",
    3: ".*several responses, .*one response",
    5: ".*type image, ",
    6: r"rubric\.criteria: expected text, found int",
}


def quarantined(out: Path) -> dict[int, str]:
    rows = read_rows(out.with_name(f"{out.stem}.quarantine.jsonl"))
    assert all(str(row["place"]).endswith(f"data.jsonl, row {row['row']}") for row in rows)
    assert all(
        row["column"] == ("rubric" if str(row["reason"]).startswith("rubric") else None)
        for row in rows
    )
    return {row["row"]: row["reason"] for row in rows}  # type: ignore[misc]


def check(out: Path) -> None:
    """The good rows have their scores, the others their reasons."""
    rows = read_rows(out)
    scores = [{1: 0.0, 3: 0.5, 6: 1.0}.get(number) for number in range(7)]
    assert [row["judge/score"] for row in rows] == scores
    assert [row["judge/status"] for row in rows] == [
        "ok" if n in GOOD else "bad_row" for n in range(7)
    ]
    assert [
        {name: row[name] for name in given} for row, given in zip(rows, ROWS, strict=True)
    ] == ROWS
    reasons = quarantined(out)
    assert sorted(reasons) == sorted(REASONS)
    for number, reason in REASONS.items():
        assert re.match(reason, reasons[number]), reasons[number]
        assert rows[number - 1]["judge/explanation"] == reasons[number]


@pytest.mark.slow
def test_the_others_are_judged_and_the_bad_ones_listed(command: Scoring, tmp_path: Path) -> None:
    ended = command(rows=ROWS)
    assert (ended.code, command.judge.requests, command.out.exists()) == (2, [], False)
    assert re.search(r"data\.jsonl, row 1: .*beside the prompt", ended.said)
    assert "4 of 7 rows" in ended.said and "also 3, 5, 6" in ended.said
    assert "--on_bad_row=skip" in ended.said
    ended = command("--on_bad_row=skip")
    assert ended.code == 0, ended.said
    check(command.out)
    assert sorted(map(response_in, command.judge.bodies)) == ["1", "3", "5"]
    metrics = command.run.metrics
    assert (metrics["bad_rows"], metrics["data_rows"], metrics["mean_score"]) == (4, 7, 0.5)
    assert (metrics["selected_rows"], metrics["unscored_rate"]) == (3, 0)
    assert "no score: 4; " in ended.said
    assert "scored.quarantine.jsonl says why" in ended.said
    chosen = tmp_path / "chosen" / "best.jsonl"
    picked = select(command.out, "--out", chosen, "--best")
    assert picked.code == 0, picked.said
    assert len(read_rows(chosen)) == 3


@pytest.mark.slow
def test_a_plan_is_that_of_the_others(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [*ROWS, {"prompt": "p7"}])
    assert score(data, "--plan").code == 2
    ended = score(data, "--plan", "--on_bad_row=skip")
    assert ended.code == 0, ended.said
    assert "to judge             3 rows or groups" in ended.said
    assert "judge calls          3" in ended.said


@pytest.mark.slow
def test_a_mended_row_is_judged_on_resuming_and_the_list_goes(command: Scoring) -> None:
    assert command("--on_bad_row=skip", "--limit=2").code == 2  # there is no data
    assert command("--on_bad_row=skip", rows=ROWS[:2]).code == 0
    assert list(quarantined(command.out)) == [1]
    assert (
        command(
            "--on_bad_row=skip", "--resume", rows=[{"prompt": "p0", "response": "2"}, ROWS[1]]
        ).code
        == 0
    )
    assert command.column("judge/score") == [0.25, 0.0]
    assert len(command.judge.requests) == 2
    assert not command.out.with_name("scored.quarantine.jsonl").exists()


@pytest.mark.slow
def test_shards_with_bad_rows_are_merged(command: Scoring) -> None:
    for words in ("--shard=1/2", "--shard=2/2", "--merge=2"):
        ended = command("--on_bad_row=skip", words, rows=ROWS)
        assert ended.code == 0, ended.said
    check(command.out)


@pytest.mark.slow
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
        words = (
            "--judge=choice",
            "--group_by=g",
            "--on_bad_row=skip",
            f"--judge_base_url={judge.base_url}",
        )
        ended = score(data, "--out", out, *words)
    assert ended.code == 0, ended.said
    assert len(judge.requests) == 1
    found = [row["judge/status"] for row in read_rows(out)]
    assert found == ["ok", "bad_row", "bad_row", "ok", "bad_row", "bad_row", "bad_row"]
    reasons = quarantined(out)
    assert "another prompt" in reasons[3]
    assert "responses: expected 2 to 26, found 1" in reasons[7]


@pytest.mark.slow
def test_rows_of_several_responses_and_lines_that_are_no_rows(command: Scoring) -> None:
    command.data.write_text(
        '{"prompt": "p", "responses": ["1", "5"]}\n{"prompt": "p"\n\n{"prompt": "q"}\n[1]\n'
    )
    ended = command()
    assert (ended.code, command.judge.requests) == (2, [])
    assert "data.jsonl, row 2: not JSON: " in ended.said
    assert re.search("2 lines .*no JSON objects", ended.said)
    ended = command("--on_bad_row=skip")
    assert ended.code == 0, ended.said
    assert command.column("judge/score") == [[0.0, 1.0], [None]]
    listed = read_rows(command.out.with_name("scored.quarantine.jsonl"))
    assert [row["row"] for row in listed] == [2, None, None]
    places = [str(row["place"]).removeprefix(f"{command.data}, ") for row in listed]
    assert places == ["row 2", "line 2", "line 5"]


def test_where_no_row_can_be_judged_there_is_an_error(command: Scoring) -> None:
    ended = command("--on_bad_row=skip", rows=[{"prompt": "p"}] * 3)
    assert ended.code == 2
    assert re.search("row 1: .*beside the prompt .*--response_column", ended.said)
