"""The bundled samples: their columns, and that they can be loaded and quote no verdict."""

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

SAMPLES = Path(__file__).resolve().parents[3] / "judgegym" / "data" / "samples"
COLUMNS = {
    "arena_hard": "uid prompt category cluster",
    "arena_hard_baseline": "uid model answer",
    "pairwise": "id prompt chosen rejected num_correct num_incorrect total_completions models subset "
    "additional_metadata",
    "preferences_train": "uid prompt chosen rejected category",
    "aspect_critique": "uid question? contexts? reference? category answer? verdicts?",
    "rubric_absolute": "uid instruction response reference_answer? rubric score category",
    "rubric_checklist": "uid prompt rubrics example_tags category answer verdicts",
    "peer_queries": "uid query category rubric?",
}
COUNTS = dict(zip(COLUMNS, (12, 12, 16, 12, 14, 12, 8, 8), strict=True))


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def column(name: str, field: str) -> list[Any]:
    return [row[field] for row in read(name) if field in row]


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in texts_of(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_have_their_columns_and_texts_without_a_verdict_and_can_be_loaded(name: str) -> None:
    rows, columns = read(name), COLUMNS[name].split()
    assert len(rows) == COUNTS[name] == len(load_rows(str(SAMPLES / f"{name}.jsonl"), split="train"))
    for row in rows:
        assert list(row) == [each.rstrip("?") for each in columns if not each.endswith("?") or each[:-1] in row]
        for text in texts_of(row):
            assert text.strip() == text and text, row
            assert "[[" not in text and "<think>" not in text, row
    ids = column(name, columns[0])
    assert len(set(ids)) == len(ids)
    if name not in {"pairwise", "arena_hard_baseline"}:
        assert len(set(column(name, "category"))) >= 5
        for row in rows if name != "preferences_train" else ():
            assert re.fullmatch(rf"\w+-{row['category']}-\d\d?", row["uid"])
    if name in {"aspect_critique", "rubric_absolute", "peer_queries"}:
        assert max(map(len, texts_of(rows))) < 900


def test_every_prompt_of_arena_hard_is_another_and_has_one_baseline_answer() -> None:
    assert len(set(column("arena_hard", "cluster"))) == len(set(column("arena_hard", "prompt"))) == 12
    assert column("arena_hard_baseline", "uid") == column("arena_hard", "uid")
    assert set(column("arena_hard_baseline", "model")) == {"sample-baseline"}
    assert all(60 <= len(answer.split()) <= 200 for answer in column("arena_hard_baseline", "answer"))


def test_pairwise_rows_are_those_of_rewardbench_2_in_all_six_subsets() -> None:
    rows = read("pairwise")
    for row in rows:
        assert row["additional_metadata"] is None
        assert (len(row["chosen"]), len(row["rejected"])) == (row["num_correct"], row["num_incorrect"])
        assert len(row["models"]) == row["total_completions"] == row["num_correct"] + row["num_incorrect"]
        texts = [row["prompt"], *row["chosen"], *row["rejected"]]
        assert len(set(texts)) == len(texts), row["id"]
    subsets = Counter(row["subset"] for row in rows)
    assert subsets == {"Factuality": 2, "Precise IF": 2, "Math": 2, "Safety": 2, "Focus": 2, "Ties": 6}
    assert set(subsets) == set(SUBSETS)
    assert {(row["num_correct"], row["num_incorrect"]) for row in rows if row["subset"] != "Ties"} == {(1, 3)}
    ties = {row["id"]: row for row in rows if row["subset"] == "Ties"}
    assert sorted(ties) == [f"{kind}:{number}" for kind in ("ref", "tied") for number in (1, 2, 3)]
    for number in (1, 2, 3):
        ref, tied = ties[f"ref:{number}"], ties[f"tied:{number}"]
        assert ref["prompt"] == tied["prompt"] and ref["num_correct"] == 1 < tied["num_correct"]


@pytest.mark.parametrize("name", ["pairwise", "preferences_train"])
def test_every_pair_can_be_used(name: str) -> None:
    found = read_preferences(load_rows(str(SAMPLES / f"{name}.jsonl"), split="train"))
    assert (len(found.rows), found.dropped) == (COUNTS[name], {})
    assert all(row.category is not None for row in found.rows)


def test_aspect_rows_have_a_question_an_answer_or_both_and_verdicts_of_both_kinds() -> None:
    rows = read("aspect_critique")
    assert all("question" in row or "answer" in row for row in rows)
    assert all(("answer" in row) == ("verdicts" in row) for row in rows)
    assert Counter(name for row in rows for name in row if name not in {"uid", "category"}) == {
        "question": 13, "contexts": 4, "reference": 4, "answer": 8, "verdicts": 8,
    }  # fmt: skip
    assert len(set(column("aspect_critique", "question"))) == 13
    contexts = column("aspect_critique", "contexts")
    assert sorted(0 if isinstance(given, str) else len(given) for given in contexts) == [0, 1, 2, 3]
    verdicts = column("aspect_critique", "verdicts")
    assert all(list(given) == list(SUPPORTED_ASPECTS) and {*map(type, given.values())} == {int} for given in verdicts)
    assert all({given[aspect] for given in verdicts} == {0, 1} for aspect in SUPPORTED_ASPECTS)
    good = [all(aspect.passes(bool(given[name])) for name, aspect in SUPPORTED_ASPECTS.items()) for given in verdicts]
    assert good.count(True) == 3


def test_rubrics_are_objects_with_every_level_or_one_question_and_all_scores_occur() -> None:
    rows = read("rubric_absolute")
    assert len({row["instruction"] for row in rows}) == 12
    assert sum("reference_answer" in row for row in rows) == 10
    assert all(row["response"] != row.get("reference_answer") for row in rows)
    objects = [row["rubric"] for row in rows if isinstance(row["rubric"], dict)]
    questions = [row["rubric"] for row in rows if isinstance(row["rubric"], str)]
    assert (len(objects), len(questions)) == (8, 4)
    for rubric in objects:
        assert list(rubric) == ["criteria", *(f"score{level}_description" for level in range(1, 6))]
        assert len(set(rubric.values())) == len(rubric)
    assert all(question.endswith("?") for question in [*questions, *(rubric["criteria"] for rubric in objects)])
    assert {type(row["score"]) for row in rows} == {int}
    assert Counter(row["score"] for row in rows) == {1: 2, 2: 2, 3: 3, 4: 2, 5: 3}


def test_two_peer_rows_have_a_rubric_whose_weights_sum_to_100_points() -> None:
    assert len(set(column("peer_queries", "query"))) == 8
    rubrics = column("peer_queries", "rubric")
    assert len(rubrics) == 2
    for rubric in rubrics:
        weights = [int(points) for points in re.findall(r"^[A-Z][a-z ]+ \((\d+) points\): ", rubric, re.MULTILINE)]
        assert len(weights) == len(rubric.splitlines()) and 3 <= len(weights) <= 4
        assert sum(weights) == 100
