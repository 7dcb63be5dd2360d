"""The bundled samples: their columns, and that they can be loaded and quote no verdict."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.pairs import read_preferences
from judgegym.data.rows import load_rows
from judgegym.eval_environments.rewardbench import SUBSETS
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS

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
    return [
        json.loads(line)
        for line in (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def column(name: str, field: str) -> list[Any]:
    return [row[field] for row in read(name) if field in row]


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [
            text
            for part in (value.values() if isinstance(value, dict) else value)
            for text in texts_of(part)
        ]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_have_their_columns_and_texts_without_a_verdict_and_can_be_loaded(name: str) -> None:
    rows, columns = read(name), COLUMNS[name].split()
    assert (
        len(rows) == COUNTS[name] == len(load_rows(str(SAMPLES / f"{name}.jsonl"), split="train"))
    )
    for row in rows:
        assert list(row) == [
            each.rstrip("?") for each in columns if not each.endswith("?") or each[:-1] in row
        ]
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


@pytest.mark.parametrize("name", ["pairwise", "preferences_train"])
def test_every_pair_can_be_used(name: str) -> None:
    found = read_preferences(load_rows(str(SAMPLES / f"{name}.jsonl"), split="train"))
    assert (len(found.rows), found.dropped) == (COUNTS[name], {})
    assert all(row.category is not None for row in found.rows)


def test_every_subset_of_pairwise_has_rows_and_every_prompt_of_arena_hard_a_baseline() -> None:
    assert set(column("pairwise", "subset")) == set(SUBSETS)
    assert column("arena_hard_baseline", "uid") == column("arena_hard", "uid")


def test_each_aspect_has_verdicts_of_both_kinds_and_each_level_of_a_rubric_a_score() -> None:
    verdicts = column("aspect_critique", "verdicts")
    assert all({given[aspect] for given in verdicts} == {0, 1} for aspect in SUPPORTED_ASPECTS)
    assert set(column("rubric_absolute", "score")) == {1, 2, 3, 4, 5}
