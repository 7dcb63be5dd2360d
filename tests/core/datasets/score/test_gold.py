"""`judgegym score --gold_column`: the gold label of each response beside what the judge says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.data.rows import DataSet
from judgegym.datasets.score.gold import GoldColumn
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.llm.errors import DataError
from judgegym.reports.run_page.page import write_report
from tests.command import serving, write_lines
from tests.core.datasets.scoring import by_points, rated, samples_of, score
from tests.core.reports.run_page.written import Written


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_samples_and_page_say_where_the_judge_is_not_gold(tmp_path: Path, ending: str) -> None:
    rows = [
        {"prompt": f"Q {n}", "response": f"{n % 5 + 1} points", "stars": n % 3 + 1}
        for n in range(12)
    ]
    rows += [
        {"prompt": "Q 12", "response": "1 points", "stars": None},
        {"prompt": "Q 13", "response": "", "stars": 2},
    ]
    data = tmp_path / f"data{ending}"
    if ending == ".csv":
        lines = [
            ",".join("" if value is None else str(value) for value in row.values()) for row in rows
        ]
        data.write_text("\n".join(["prompt,response,stars", *lines]) + "\n")
    else:
        write_lines(data, rows)
    out = tmp_path / "scored.jsonl"
    with serving(rated(by_points)) as judge:
        ended = score(
            data, "--out", out, f"--judge_base_url={judge.base_url}", "--gold_column=stars"
        )
    assert ended.code == 0, ended.said
    found = [sample["gold"] for sample in samples_of(out)]
    for n in range(12):
        gold, said = n % 3 + 1, n % 5 + 1
        assert found[n] == [
            {"name": "", "gold": float(gold), "judge": float(said), "agrees": gold == said}
        ]
    assert found[12:] == [[], [{"name": "", "gold": 2.0, "judge": None, "agrees": None}]]
    page = Written.read(write_report(out))
    assert [page.summaries[f"row-{n}"]["gold_differs"] for n in (1, 4, 13, 14)] == [
        False,
        True,
        None,
        None,
    ]


@pytest.mark.slow
def test_a_gold_label_that_has_changed_is_compared_when_a_run_is_resumed_and_nobody_is_asked_again(
    tmp_path: Path,
) -> None:
    out, rows = (
        tmp_path / "scored.jsonl",
        [{"prompt": "Q", "response": f"{n} points", "stars": 1} for n in (1, 2)],
    )
    with serving(rated(by_points)) as judge:
        words = ["--out", out, f"--judge_base_url={judge.base_url}", "--gold_column=stars"]
        assert score(write_lines(tmp_path / "data.jsonl", rows), *words).code == 0
        rows[1]["stars"] = 2
        assert score(write_lines(tmp_path / "data.jsonl", rows), *words, "--resume").code == 0
    assert [sample["gold"][0]["agrees"] for sample in samples_of(out)] == [True, True]  # type: ignore[index, call-overload]
    assert len(judge.requests) == 2


@pytest.mark.parametrize(
    ("value", "result", "labels"),
    [
        (4, {"score": 0.75, "components": {"raw": 3.5}}, [("", 4.0, 3.5, True)]),
        ("3", {"score": 0.75, "components": {"raw": 3.5}}, [("", 3.0, 3.5, False)]),
        (0.5, {"score": 0.5}, [("", 0.5, 0.5, True)]),
        (0.5, {"score": 0.95, "components": {"raw": 0.95}}, [("", 0.5, 0.95, False)]),
        (0.5, {"score": 0.5, "components": {"raw": 0.5}}, [("", 0.5, 0.5, True)]),
        ("Win", {"score": 1.0, "label": "win"}, [("", "Win", "Win", True)]),
        ("loss", {"score": 1.0, "label": "win"}, [("", "loss", "win", False)]),
        ("loss", {"score": None, "label": None}, [("", "loss", None, None)]),
        (None, {"score": 1.0}, []),
        ("  ", {"score": 1.0}, []),
    ],
)
def test_labels_of_any_judge(value: Any, result: dict[str, Any], labels: list[Any]) -> None:
    table = DataSet("data", [{"gold": value}, {"gold": 1}])
    column = GoldColumn(table, range(2), "gold", lambda row: 1, judges_aspects=False)
    found = column.labels(0, 0, ResponseJudgment(status="ok", **{"label": None, **result}))
    assert [(each.name, each.gold, each.judge, each.agrees) for each in found] == labels


@pytest.mark.parametrize(
    ("value", "components", "labels"),
    [
        (
            {"safe": 1, "kind": "no"},
            {"safe": 1.0, "kind": 1.0},
            [("safe", "yes", "yes", True), ("kind", "no", "yes", False)],
        ),
        ('{"safe": 0}', {"kind": 1.0}, [("safe", "no", None, None)]),
        ("yes", {"safe": 0.0}, [("", "yes", "no", False)]),
        (1, {"safe": 1.0}, [("", "yes", "yes", True)]),
        (True, {"safe": 1.0, "kind": 1.0}, [("", "yes", None, None)]),
    ],
)
def test_labels_of_a_judge_of_aspects(
    value: Any, components: dict[str, float], labels: list[Any]
) -> None:
    column = GoldColumn(
        DataSet("data", [{"gold": value}]), range(1), "gold", lambda row: 1, judges_aspects=True
    )
    found = column.labels(
        0, 0, ResponseJudgment(score=1.0, status="ok", label="x", components=components)
    )
    assert [(each.name, each.gold, each.judge, each.agrees) for each in found] == labels


@pytest.mark.parametrize("value", [0.75, 0, 6, "10", True, "good", "null", "n/a"])
def test_gold_that_is_not_on_the_scale_of_a_rubric_is_refused(value: Any) -> None:
    table = DataSet("data", [{"gold": 4.5}, {"gold": value}])
    with pytest.raises(DataError, match=r"row 2: .*in gold .*scale, 1 to 5 \("):
        GoldColumn(table, range(2), "gold", lambda row: 1, judges_aspects=False, scale=Scale(1, 5))
    GoldColumn(table, range(1), "gold", lambda row: 1, judges_aspects=False, scale=Scale(1, 5))


@pytest.mark.slow
def test_score_tells_the_gold_column_the_scale_of_a_rubric(tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "data.jsonl", [{"prompt": "Q", "response": "5 points", "gold": 1.0}]
    )
    words = ("--gold_column=gold", "--scale_min=2", "--scale_max=9", "--offline")
    ended = score(data, "--out", tmp_path / "scored.jsonl", *words)
    assert ended.code == 2
    assert "scale, 2 to 9 (--scale_min, --scale_max), not 1.0" in ended.err


@pytest.mark.slow
def test_several_responses_have_a_list_and_what_cannot_be_read_is_told_before_the_first_call(
    tmp_path: Path,
) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "Q", "responses": ["1 point", "5 points"], "gold": [1, 4]}
    ]
    out = tmp_path / "scored.jsonl"
    with serving(rated(by_points)) as judge:
        words = ("--out", out, f"--judge_base_url={judge.base_url}")
        assert (
            score(write_lines(tmp_path / "data.jsonl", rows), *words, "--gold_column=gold").code
            == 0
        )
        assert [label["agrees"] for sample in samples_of(out) for label in sample["gold"]] == [
            True,
            False,
        ]
        asked = len(judge.requests)
        other = ("--out", tmp_path / "other.jsonl", *words[2:])
        for gold, said in (
            ([1, {"safe": "maybe"}], "1 or 0 for safe, not 'maybe'"),
            ([1, [2]], "a gold label: "),
            ([1], "each of 2 responses"),
            (4, "each of 2 responses"),
        ):
            wrong = write_lines(
                tmp_path / "wrong.jsonl", [*rows, {**rows[0], "prompt": "R", "gold": gold}]
            )
            ended = score(wrong, *other, "--gold_column=gold")
            assert ended.code == 2 and said in ended.err
            assert "wrong.jsonl, row 2: expected in gold " in ended.err
        sampled = score(
            wrong, *other[:2], "--gold_column=gold", "--responses_per_prompt=2", "--offline"
        )
        assert sampled.code == 2 and "--gold_column: --responses_per_prompt" in sampled.err
        missing = score(tmp_path / "data.jsonl", *other, "--gold_column=golden")
        assert missing.code == 2
        assert "no row" in missing.err and "column golden (--gold_column)" in missing.err
        assert len(judge.requests) == asked
