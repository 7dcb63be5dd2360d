"""Which conditions must be equal, which may differ, and what is said of those that do not hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.records import Sample
from judgegym.reports.compare.comparison import NotComparableError
from judgegym.reports.compare.conditions import Condition
from judgegym.reports.results.run import SavedRun
from tests.core.reports.compare.written import DATASET, compare_runs, opened, row, run

OTHER = "sha256:" + "ef" * 32
Facts = dict[str, Any]

DIFFERING: Sequence[tuple[Condition, Facts, str]] = [
    ("judge", {"judge_model_name": "b-judge"}, "env.judge_model_name: A a-judge; B b-judge"),
    (
        "judge",
        {"judge_prompt_digests": {"judge_system_prompt": OTHER}},
        "env.judge_system_prompt: A sha256:abababababab…; B sha256:efefefefefef…",
    ),
    ("judge", {"protocol": {"env.judge_temperature": 0.7}}, "env.judge_temperature: A 0.2; B 0.7"),
    (
        "judge",
        {"protocol": {"env.judge_extra_body": {"seed": 1, "top_p": 0.5}}},
        'env.judge_extra_body: A {}; B {"top_p":0.5}',
    ),
    (
        "judge",
        {"protocol": {"env.judges.0.model_name": "b"}},
        "env.judges.0.model_name: A unset; B b",
    ),
    ("judge", {"protocol": {"env.judges": []}}, "env.judges: A unset; B []"),
    (
        "protocol",
        {"protocol": {"env.judge_protocol": "official5"}},
        "env.judge_protocol: A three_way; B official5",
    ),
    ("protocol", {"protocol": {"env.strict": True}}, "env.strict: A unset; B true"),
    (
        "data",
        {"datasets": [{**DATASET, "name": "others.jsonl", "digest": OTHER}]},
        "datasets: A prompts.jsonl (500 rows, sha256:cdcdcdcdcdcd…); B others.jsonl (500 rows, "
        "sha256:efefefefefef…)",
    ),
    (
        "data",
        {"datasets": [DATASET, {**DATASET, "name": "more.jsonl", "digest": OTHER}]},
        "datasets: A none further; B more.jsonl (500 rows, sha256:efefefefefef…)",
    ),
]
ALIKE: dict[str, Facts] = {
    "policy": {"model_name": "b-policy"},
    "policy's sampling": {
        "protocol": {"env.eval_temperature": 1.0, "env.custom_system_prompt": "Be brief."}
    },
    "policy's request": {"protocol": {"openai.extra_body": {"top_k": 5}}},
    "candidates of peer evaluation": {"protocol": {"env.candidates.0.model_name": "b-policy"}},
    "no candidates": {"protocol": {"env.candidates": []}},
    "file of answers": {
        "protocol": {"env.model_answers": "answers.jsonl"},
        "datasets": [DATASET, {**DATASET, "name": "answers.jsonl", "digest": OTHER}],
    },
    "answers of a run": {
        "protocol": {"env.model_answers": "runs/a"},
        "datasets": [DATASET, {**DATASET, "name": "runs/a/samples.jsonl", "digest": OTHER}],
    },
    "place of the data": {
        "datasets": [{**DATASET, "name": "elsewhere/prompts.jsonl"}],
        "protocol": {"env.my_dataset": "elsewhere/prompts.jsonl"},
    },
    "number of rows": {"protocol": {"limit": 100}},
    "numbers beside the result": {"protocol": {"env.style_control": True}},
}


def pair(folder: Path, second: list[Sample[Any]] | None = None, **facts: Any) -> list[Any]:
    rows = [row("a", 1.0), row("b", 0.0)]
    return [
        opened(folder / "0", rows),
        opened(folder / "1", rows if second is None else second, **facts),
    ]


@pytest.mark.parametrize(("condition", "facts", "said"), DIFFERING)
def test_a_condition_that_differs_is_refused_with_both_values_unless_allowed(
    tmp_path: Path, condition: Condition, facts: Facts, said: str
) -> None:
    runs = pair(tmp_path, **facts)
    others = {"judge", "protocol", "data"} - {condition}
    for across in ((), others):
        with pytest.raises(NotComparableError) as refused:
            compare_runs(runs, rounds=100, across=across)
    message = str(refused.value)
    flag = {"judge": "--across_judges", "protocol": "--across_protocols", "data": "--across_data"}[
        condition
    ]
    assert f"{condition}: {said}" in message
    assert str(tmp_path / "0") in message and str(tmp_path / "1") in message
    assert message.endswith(f": {flag}")
    allowed = compare_runs(runs, rounds=100, across=[condition])
    assert [f"{each.name}: A {each.reference}; B {each.run}" for each in allowed.differing] == [
        said
    ]


@pytest.mark.parametrize("name", ALIKE)
def test_what_may_differ_is_not_refused(tmp_path: Path, name: str) -> None:
    found = compare_runs(pair(tmp_path, **ALIKE[name]), rounds=100)
    assert found.differing == []
    settings = ALIKE[name].get("protocol", {}).keys() - {
        "limit",
        "env.my_dataset",
    }  # of the rows, and of the data
    said = " ".join(note for note in found.notes if note.startswith("Settings differ"))
    assert [setting for setting in settings if f"{setting}: A " not in said] == []
    assert bool(said) == bool(settings)


@pytest.mark.parametrize(
    "facts",
    [{"question": "Another question"}, {"texts": {"baseline": "Another baseline"}}],
    ids=["question", "text"],
)
def test_rows_that_were_shown_with_other_texts_are_other_data(tmp_path: Path, facts: Facts) -> None:
    runs = pair(tmp_path, [row("a", 1.0), row("b", 0.0, **facts)])
    with pytest.raises(
        NotComparableError,
        match=r"data: texts of 1 of 2 rows, .* of b: A .*; B Another",
    ):
        compare_runs(runs, rounds=100)
    assert compare_runs(runs, rounds=100, across=["data"]).rows == 2


def test_texts_in_another_order_are_the_same_data(tmp_path: Path) -> None:
    """Another seed shows the answers of a pair in another order."""
    texts = [
        {"answer A": "one", "answer B (right)": "other"},
        {"answer A (right)": "other", "answer B": "one"},
    ]
    runs = [
        opened(tmp_path / str(seed), [row("a", 1.0, texts=texts[seed]), row("b", 0.0)], seed=seed)
        for seed in (0, 1)
    ]
    found = compare_runs(runs, rounds=100)
    assert found.differing == []
    assert any("seeds differ" in note and "(A: 0; B: 1)" in note for note in found.notes)


@pytest.mark.parametrize("setting", ["env.judge_extra_body", "env.judges.0.extra_body"])
def test_seeds_of_the_judge_may_differ_and_are_noted(tmp_path: Path, setting: str) -> None:
    rows = [row("a", 1.0), row("b", 0.0)]
    runs = [
        opened(tmp_path / str(seed), rows, protocol={setting: {"seed": seed}, "env.x": 1})
        for seed in (1, 2)
    ]
    notes = compare_runs(runs, rounds=100).notes
    seeds = "(A: 0, its judge's 1; B: 0, its judge's 2)"
    assert any("seeds differ" in note and seeds in note for note in notes)


def test_where_the_policy_is_the_judge_another_is_another_policy_and_its_prompt_must_be_the_same(
    tmp_path: Path,
) -> None:
    rows = [row("a", 1.0), row("b", 0.0)]
    alone: Facts = {"generation_parameters": {"temperature": 0.6}}
    one, other = (
        {"model_name": name, "judge_model_name": name, **alone} for name in ("one", "other")
    )
    first = opened(tmp_path / "0", rows, **one)
    second = opened(tmp_path / "1", rows, protocol={"env.judge_temperature": 0.9}, **other)
    assert compare_runs([first, second], rounds=100).differing == []
    third = opened(tmp_path / "2", rows, judge_prompt_digests={"judge_system_prompt": OTHER}, **one)
    with pytest.raises(NotComparableError, match=r"judge: env\.judge_system_prompt"):
        compare_runs([first, third], rounds=100)


def test_all_that_is_refused_is_said_at_once_with_the_flags(tmp_path: Path) -> None:
    facts: Facts = {"judge_model_name": "b-judge", "datasets": [], "protocol": {"env.strict": True}}
    with pytest.raises(NotComparableError) as refused:
        compare_runs(pair(tmp_path, **facts), rounds=100)
    message = str(refused.value)
    assert "differ in judge and protocol and data" in message
    assert message.count("\n") == 6
    assert message.endswith("--across_judges --across_protocols --across_data")


def test_another_version_and_the_notices_of_runs_are_noted_once_and_what_is_equal_is_not(
    tmp_path: Path,
) -> None:
    rows = [row("a", 1.0), row("b", 0.0)]
    same, old = "All say so.", "The answers are old."
    facts = {"0.1.0": [same], "0.2.0": [same, old], "0.3.0": [old, same]}
    runs = [
        opened(tmp_path / name, rows, judgegym_version=name, notices=said)
        for name, said in facts.items()
    ]
    notes = compare_runs(runs, rounds=100, across=["judge"]).notes
    assert not any("may differ" in note for note in notes)
    assert any("B was" in note and "0.2.0, A with version 0.1.0" in note for note in notes)
    assert [note for note in notes if "All say so" in note] == [same]
    assert [note for note in notes if "old" in note] == ["B, C: The answers are old."]


def test_a_run_that_says_nothing_but_its_environment_can_be_compared(tmp_path: Path) -> None:
    bare = '{"config_general": {"environment": "e", "headline": "h"}, "results": {"all": {}}}'
    runs = [run(tmp_path / name, [row("a", 1.0), row("b", 0.0)]) for name in ("0", "1")]
    for path in runs:
        (path / "metrics.json").write_text(bare)
    found = compare_runs([SavedRun.open(path) for path in runs], rounds=100)
    assert (found.rows, found.words, found.differing) == (2, "h", [])
