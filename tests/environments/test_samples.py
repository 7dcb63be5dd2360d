import json
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parents[2] / "environments" / "samples"


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines()]


def test_every_row_has_the_columns_of_arena_hard() -> None:
    rows = read("arena_hard.jsonl")
    assert len(rows) == 12
    for row in rows:
        assert list(row) == ["uid", "prompt", "category", "cluster"]
        assert all(isinstance(value, str) and value.strip() == value and value for value in row.values()), row["uid"]


def test_uids_are_unique_and_say_the_category() -> None:
    rows = read("arena_hard.jsonl")
    assert len({row["uid"] for row in rows}) == len(rows)
    for row in rows:
        sample, category, number = row["uid"].split("-")
        assert (sample, category) == ("sample", row["category"])
        assert number.isdecimal()


def test_the_rows_are_varied() -> None:
    rows = read("arena_hard.jsonl")
    assert len({row["category"] for row in rows}) >= 5
    assert len({row["cluster"] for row in rows}) == len({row["prompt"] for row in rows}) == len(rows)


def test_every_row_has_one_baseline_answer() -> None:
    answers = read("arena_hard_baseline.jsonl")
    assert [answer["uid"] for answer in answers] == [row["uid"] for row in read("arena_hard.jsonl")]
    for answer in answers:
        assert list(answer) == ["uid", "model", "answer"]
        assert answer["model"] == "sample-baseline"
        assert 60 <= len(answer["answer"].split()) <= 200, answer["uid"]


def test_no_answer_carries_a_verdict_or_thinking_tags() -> None:
    for answer in read("arena_hard_baseline.jsonl"):
        assert "[[" not in answer["answer"]
        assert "<think>" not in answer["answer"]
