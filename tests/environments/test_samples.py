import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from environments.preferences import read_preferences
from environments.tasks import load_rows
from judges.rewardbench import SUBSETS

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


PAIRWISE = [
    "id",
    "prompt",
    "chosen",
    "rejected",
    "num_correct",
    "num_incorrect",
    "total_completions",
    "models",
    "subset",
]


def test_pairwise_rows_have_the_schema_of_rewardbench_2() -> None:
    rows = read("pairwise.jsonl")
    assert len({row["id"] for row in rows}) == len(rows) == 16
    for row in rows:
        assert list(row) == [*PAIRWISE, "additional_metadata"] and row["additional_metadata"] is None
        assert (len(row["chosen"]), len(row["rejected"])) == (row["num_correct"], row["num_incorrect"])
        assert len(row["models"]) == row["total_completions"] == row["num_correct"] + row["num_incorrect"]
        texts = [row["prompt"], *row["chosen"], *row["rejected"]]
        assert all(isinstance(text, str) and text.strip() == text and text for text in texts), row["id"]
        assert len(set(texts)) == len(texts), row["id"]


def test_pairwise_rows_are_of_all_six_subsets() -> None:
    rows = read("pairwise.jsonl")
    subsets = Counter(row["subset"] for row in rows)
    assert subsets == {"Factuality": 2, "Precise IF": 2, "Math": 2, "Safety": 2, "Focus": 2, "Ties": 6}
    assert set(subsets) == set(SUBSETS)
    assert {(row["num_correct"], row["num_incorrect"]) for row in rows if row["subset"] != "Ties"} == {(1, 3)}


def test_each_question_of_the_ties_is_there_as_ref_and_as_tied() -> None:
    ties = {row["id"]: row for row in read("pairwise.jsonl") if row["subset"] == "Ties"}
    assert sorted(ties) == [f"{kind}:{number}" for kind in ("ref", "tied") for number in (1, 2, 3)]
    for number in (1, 2, 3):
        ref, tied = ties[f"ref:{number}"], ties[f"tied:{number}"]
        assert ref["prompt"] == tied["prompt"]
        assert ref["num_correct"] == 1 < tied["num_correct"]


def test_training_preferences_have_the_columns_of_trl() -> None:
    rows = read("preferences_train.jsonl")
    assert len({row["uid"] for row in rows}) == len({row["prompt"] for row in rows}) == len(rows) == 12
    assert len({row["category"] for row in rows}) >= 5
    for row in rows:
        assert list(row) == ["uid", "prompt", "chosen", "rejected", "category"]
        assert all(isinstance(value, str) and value.strip() == value and value for value in row.values()), row["uid"]
        assert row["chosen"] != row["rejected"]


@pytest.mark.parametrize(("name", "count"), [("pairwise.jsonl", 16), ("preferences_train.jsonl", 12)])
def test_every_pairwise_row_can_be_used_and_carries_no_verdict(name: str, count: int) -> None:
    found = read_preferences(load_rows(str(SAMPLES / name), split="train"))
    assert (len(found.rows), found.dropped, found.trimmed) == (count, {}, 0)
    for row in found.rows:
        assert row.category is not None
        for text in (row.prompt, *row.correct, *row.wrong):
            assert "[[" not in text and "<think>" not in text, row.uid
