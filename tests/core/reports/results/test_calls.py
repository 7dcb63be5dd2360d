"""The calls of some rows of a run: all of them, whole, and small in memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import Texts, make_call_line, pack, read_calls
from judgegym.llm.ledger import CallKey
from judgegym.llm.types import ChatResponse
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Choice, Message
from judgegym.reports.results.calls import CallsOfRows

SHARED = "A system prompt that all rows share. " * 20


def text_of(row: str) -> str:
    return f"The long question of {row}. " * 400


def ledger(path: Path, rows: list[tuple[str, int | None]]) -> None:
    """A ledger with two calls of each row or group."""
    texts = Texts(keep=False)
    lines = [b'{"sent":1}\n']
    for uid, group in rows:
        for number in range(2):
            messages = [
                Message(role="system", content=SHARED),
                Message(role="user", content=text_of(uid)),
            ]
            facts = {
                "id": None,
                "row": uid,
                "group": group,
                "key": "k",
                "part": 0,
                "has_verdict": True,
            }
            asked = CallKey(f"game_{number}", 0, "judge", messages, {"temperature": 0.5})
            answer = ChatResponse(
                (Choice(f"{number} of {uid}"),), Usage(3, 4, 0.5), latency_s=0.5, attempts=1
            )
            lines.append(make_call_line(facts, asked, answer, texts))
    (path / "calls.jsonl").write_bytes(b"".join(lines))


def left_open(path: Path) -> None:
    with (path / "calls.jsonl").open("ab") as file:
        file.write(b'{"call":{"row":"row-1","to')


def packed(path: Path) -> None:
    pack(path, keep=True)


@pytest.mark.parametrize("end", [left_open, packed])
def test_calls_of_one_row_are_whole_also_where_another_row_used_their_texts_first(
    tmp_path: Path, end: Callable[[Path], None]
) -> None:
    ledger(tmp_path, [("row-0", None), ("row-1", None)])
    end(tmp_path)
    calls = CallsOfRows.read(tmp_path, {"row-1"})
    assert calls.select("row-0") == []
    first, second = calls.select("row-1")
    assert first.messages == (
        Message(role="system", content=SHARED),
        Message(role="user", content=text_of("row-1")),
    )
    assert (first.component, second.component) == ("game_0", "game_1")
    assert second.answer.first.text == "1 of row-1" and second.answer.usage.cost == 0.5
    assert [first, second] == [call for call in read_calls(tmp_path) if call.row == "row-1"]


def test_groups_of_one_row_have_calls_of_their_own(tmp_path: Path) -> None:
    ledger(tmp_path, [("row-0", 0), ("row-0", 3), ("row-0", None)])
    calls = CallsOfRows.read(tmp_path)
    assert [[call.group for call in calls.select("row-0", group)] for group in (0, 3, None, 1)] == [
        [0, 0],
        [3, 3],
        [None, None],
        [],
    ]


def test_a_run_without_a_ledger_has_no_calls(tmp_path: Path) -> None:
    assert CallsOfRows.read(tmp_path).select("row-0") == []


def test_a_damaged_part_of_a_compressed_ledger_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger(tmp_path, [("row-0", None)])
    packed(tmp_path)
    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    CallsOfRows.read(tmp_path)
    assert caplog.messages[-1] == f"{path}: 1 damaged part skipped"


@pytest.mark.slow
def test_calls_are_smaller_in_memory_than_their_texts(tmp_path: Path) -> None:
    rows = [f"row-{number}" for number in range(200)]
    ledger(tmp_path, [(row, None) for row in rows])
    CallsOfRows.read(tmp_path, rows[:1])  # what is imported at the first use is not counted
    tracemalloc.start()
    try:
        calls = CallsOfRows.read(tmp_path)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < sum(len(text_of(row)) for row in rows) / 2
    assert len(calls.select(rows[-1])) == 2


def test_a_call_of_another_form_is_skipped(tmp_path: Path) -> None:
    ledger(tmp_path, [("row-0", None)])
    whole = len(list(read_calls(tmp_path)))
    path = tmp_path / "calls.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    call = lines[1]["call"]
    others: dict[str, list[Any]] = {
        "row": [[], None],
        "group": ["first"],
        "component": [7],
        "vote": ["x"],
        "model": [None],
        "parameters": [[]],
        "has_verdict": ["yes"],
        "verdict_at": [[3, 1], [-1, 1], 7],
        "messages": [
            *(7, [7], [{"role": "user", "content": []}], [{"role": [], "content": "x"}]),
        ],
        "answer": [
            *([], {"choices": []}, {"choices": [{"text": 7, "tokens": None}]}),
            {"choices": [{"text": "x", "tokens": [{"text": "7", "top": [["7"]]}]}]},
            {"choices": [{"text": "x", "tokens": None}], "latency_s": float("nan")},
        ],
    }
    for damaged in (
        7,
        [],
        *({**call, place: value} for place, values in others.items() for value in values),
    ):
        lines[1] = {"call": damaged}
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        assert len(list(read_calls(tmp_path))) == whole - 1, damaged
