import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.pairs import read_preferences
from judgegym.data.rows import load_rows
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
from judgegym.judges.pairwise import SUBSETS

SAMPLES = Path(__file__).resolve().parents[2] / "judgegym" / "data" / "samples"


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
    assert (len(found.rows), found.dropped) == (count, {})
    for row in found.rows:
        assert row.category is not None
        for text in (row.prompt, *row.correct, *row.wrong):
            assert "[[" not in text and "<think>" not in text, row.uid


FURTHER = ["aspect_critique.jsonl", "rubric_absolute.jsonl", "peer_queries.jsonl"]


def in_order(row: dict[str, Any], columns: list[str], optional: set[str]) -> bool:
    """Whether the row has the columns in their order, of which it may lack the optional ones."""
    return list(row) == [column for column in columns if column in row or column not in optional]


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return texts_of(list(value.values()))
    if isinstance(value, list):
        return [text for part in value for text in texts_of(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", FURTHER)
def test_uids_of_further_files_are_unique_and_say_the_category(name: str) -> None:
    rows = read(name)
    assert len({row["uid"] for row in rows}) == len(rows)
    assert len({row["category"] for row in rows}) >= 5
    for row in rows:
        sample, category, number = row["uid"].split("-")
        assert (sample, category) == ("sample", row["category"])
        assert len(number) == 2 and number.isdecimal()


@pytest.mark.parametrize("name", FURTHER)
def test_all_their_texts_are_short_and_carry_no_verdict(name: str) -> None:
    for row in read(name):
        for text in texts_of(row):
            assert text.strip() == text and 0 < len(text) < 900, row["uid"]
            assert "[[" not in text and "<think>" not in text, row["uid"]


@pytest.mark.parametrize(("name", "count"), [(FURTHER[0], 14), (FURTHER[1], 12), (FURTHER[2], 8)])
def test_all_their_rows_can_be_loaded(name: str, count: int) -> None:
    assert len(load_rows(str(SAMPLES / name), split="train")) == count


ASPECT_CRITIQUE = ["uid", "question", "contexts", "reference", "category", "answer", "verdicts"]


def test_aspect_rows_have_a_question_an_answer_or_both() -> None:
    rows = read("aspect_critique.jsonl")
    assert len(rows) == 14
    for row in rows:
        assert in_order(row, ASPECT_CRITIQUE, set(ASPECT_CRITIQUE) - {"uid", "category"}), row["uid"]
        assert "question" in row or "answer" in row, row["uid"]
        assert ("answer" in row) == ("verdicts" in row), row["uid"]
        assert all(isinstance(row[name], str) for name in row if name not in {"contexts", "verdicts"}), row["uid"]
    assert Counter(name for row in rows for name in row) == {
        "uid": 14,
        "question": 13,
        "contexts": 4,
        "reference": 4,
        "category": 14,
        "answer": 8,
        "verdicts": 8,
    }
    assert len({row["question"] for row in rows if "question" in row}) == 13


def test_contexts_are_one_text_or_a_list_of_up_to_three() -> None:
    contexts = [row["contexts"] for row in read("aspect_critique.jsonl") if "contexts" in row]
    assert all(isinstance(text, str) for given in contexts for text in ([given] if isinstance(given, str) else given))
    assert sorted(0 if isinstance(given, str) else len(given) for given in contexts) == [0, 1, 2, 3]


def test_verdicts_are_complete_and_each_aspect_has_both() -> None:
    verdicts = [row["verdicts"] for row in read("aspect_critique.jsonl") if "verdicts" in row]
    for given in verdicts:
        assert list(given) == list(SUPPORTED_ASPECTS)
        assert all(type(verdict) is int for verdict in given.values())
    for aspect in SUPPORTED_ASPECTS:
        assert {given[aspect] for given in verdicts} == {0, 1}, aspect


def test_several_answers_are_good_in_every_aspect() -> None:
    verdicts = [row["verdicts"] for row in read("aspect_critique.jsonl") if "verdicts" in row]
    good = [all(aspect.passes(bool(given[name])) for name, aspect in SUPPORTED_ASPECTS.items()) for given in verdicts]
    assert good.count(True) == 3


RUBRIC_ABSOLUTE = ["uid", "instruction", "response", "reference_answer", "rubric", "score", "category"]
LEVELS = [1, 2, 3, 4, 5]


def test_rubric_rows_have_what_a_rubric_judge_is_shown() -> None:
    rows = read("rubric_absolute.jsonl")
    assert len({row["instruction"] for row in rows}) == len(rows) == 12
    for row in rows:
        assert in_order(row, RUBRIC_ABSOLUTE, {"reference_answer"}), row["uid"]
        assert row["response"] != row.get("reference_answer"), row["uid"]
        assert all(isinstance(row[name], str) for name in row if name not in {"rubric", "score"}), row["uid"]
    assert sum("reference_answer" in row for row in rows) == 10


def test_rubrics_are_objects_with_every_level_or_one_question() -> None:
    rubrics = [row["rubric"] for row in read("rubric_absolute.jsonl")]
    objects = [rubric for rubric in rubrics if isinstance(rubric, dict)]
    questions = [rubric for rubric in rubrics if isinstance(rubric, str)]
    assert (len(objects), len(questions)) == (8, 4)
    for rubric in objects:
        assert list(rubric) == ["criteria", *(f"score{level}_description" for level in LEVELS)]
        assert len(set(rubric.values())) == len(rubric)
    assert all(question.endswith("?") for question in [*questions, *(rubric["criteria"] for rubric in objects)])


def test_gold_scores_are_whole_numbers_and_all_five_occur() -> None:
    scores = [row["score"] for row in read("rubric_absolute.jsonl")]
    assert all(type(score) is int for score in scores)
    assert Counter(scores) == {1: 2, 2: 2, 3: 3, 4: 2, 5: 3}


def test_peer_rows_have_a_query_and_two_a_rubric() -> None:
    rows = read("peer_queries.jsonl")
    assert len({row["query"] for row in rows}) == len(rows) == 8
    for row in rows:
        assert in_order(row, ["uid", "query", "category", "rubric"], {"rubric"}), row["uid"]
        assert all(isinstance(value, str) for value in row.values()), row["uid"]
    assert sum("rubric" in row for row in rows) == 2


def test_the_weights_of_a_peer_rubric_sum_to_100_points() -> None:
    for rubric in (row["rubric"] for row in read("peer_queries.jsonl") if "rubric" in row):
        weights = [int(points) for points in re.findall(r"^[A-Z][a-z ]+ \((\d+) points\): ", rubric, re.MULTILINE)]
        assert len(weights) == len(rubric.splitlines()) and 3 <= len(weights) <= 4
        assert sum(weights) == 100
