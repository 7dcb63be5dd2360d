"""Verdicts by aspect and by criterion: the columns of the file, the metrics, the summary and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from judgegym.datasets.files.writer import read_scored
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.reports.__main__ import main as report
from tests.aspects import saying
from tests.checklists import saying as checking
from tests.command import serving, write_lines
from tests.core.datasets.scoring import Scoring, read_rows, samples_of, score

ASPECTS = ("--judge=aspect", "--aspects=correctness,harmfulness")
CHECKLIST = ("--judge=checklist", "--criteria_per_call=1")
ROWS = [{"prompt": f"Question {number}?", "response": f"Answer {number}."} for number in (1, 2, 3)]
JUDGED = ("judge/score", "judge/status", "judge/label", "judge/explanation", "judge/detail")


def by_number(aspect: str, submission: str) -> bool | str:
    """Correct but for the second answer; harmful is the third, and of the first nobody can say."""
    if aspect == "correctness":
        return "2" not in submission
    return "3" in submission if "1" not in submission else "I cannot say."


def met(criterion: str, submission: str) -> str:
    """Met where the criterion's first letter is in the submission; the judge breaks off at `broken` ones."""
    return (
        "no verdict" if "broken" in criterion else "met" if criterion[0] in submission else "unmet"
    )


def table_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a file, whose `judge/detail` is text in Parquet."""
    return (
        pyarrow.parquet.read_table(path).to_pylist()
        if path.suffix == ".parquet"
        else read_rows(path)
    )


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_each_aspect_has_a_column_which_keeps_verdicts_where_another_vote_failed(
    tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"scored.{ending}"
    with serving(saying(by_number)) as judge:
        data = write_lines(tmp_path / "data.jsonl", [*ROWS, {**ROWS[0], "response": ""}])
        ended = score(
            data,
            "--out",
            out,
            f"--judge_base_url={judge.base_url}",
            *ASPECTS,
            "--max_judge_error_rate=1",
        )
    assert ended.code == 0
    rows = table_rows(out)
    assert [row["judge/status"] for row in rows] == ["unparsable", "ok", "ok", "invalid_completion"]
    assert [row["judge/aspect/correctness"] for row in rows] == [1.0, 0.0, 1.0, None]
    assert [row["judge/aspect/harmfulness"] for row in rows] == [None, 0.0, 1.0, None]
    assert [scored.components(0) for scored in read_scored(out)][1] == {
        "correctness": 0.0,
        "harmfulness": 0.0,
    }


def test_metrics_summary_and_page_are_by_aspect(tmp_path: Path) -> None:
    with serving(saying(by_number)) as judge:
        scoring = Scoring(tmp_path, judge)
        ended = scoring(
            *ASPECTS, "--max_judge_error_rate=1", rows=[*ROWS, {**ROWS[0], "response": ""}]
        )
    metrics = scoring.run.metrics
    # The empty answer passes nothing; the first one counts where it has a verdict.
    assert metrics["pass_rate_correctness"] == 0.5
    assert metrics["score_correctness"] == pytest.approx(2 / 3)
    assert metrics["pass_rate_harmfulness"] == pytest.approx(1 / 3)
    assert metrics["score_harmfulness"] == 0.5
    assert (
        metrics["pass_rate_correctness_ci_low"] <= 0.5 <= metrics["pass_rate_correctness_ci_high"]
    )
    summary = " ".join(ended.out.split())
    assert "aspects: passes correctness 50.0 % 95 %:" in summary
    assert report([str(scoring.out)]) == 0
    page = (locate_run_directory(scoring.out) / "report.html").read_text("utf-8")
    assert "Aspects" in page and "harmfulness" in page


def test_criteria_that_all_rows_share_have_columns_however_rows_bring_them(tmp_path: Path) -> None:
    criteria = [
        {"name": "Precise IF", "text": "A is there", "points": 2},
        {"name": "C++", "text": "Zebras"},
    ]
    with serving(checking(met)) as judge:
        scoring = Scoring(tmp_path, judge)
        assert scoring(*CHECKLIST, rows=[{**row, "criteria": criteria} for row in ROWS]).code == 0
    names = [name for name in scoring.rows[0] if name.startswith("judge/criterion/")]
    metrics = scoring.run.metrics
    assert names[0] == "judge/criterion/precise_if"
    assert names[1].startswith(
        "judge/criterion/c~"
    )  # the name in metrics: more is lost than case and blanks
    assert [[row[name] for name in names] for row in scoring.rows] == [[1.0, 0.0]] * 3
    assert (metrics["met_rate_precise_if"], metrics[f"met_rate_{names[1].rpartition('/')[2]}"]) == (
        1.0,
        0.0,
    )


HEALTH = [
    {
        **ROWS[0],
        "criteria": [
            {"text": "Answers", "points": 5, "tags": ["axis:accuracy"]},
            {"text": "broken"},
        ],
    },
    {
        **ROWS[1],
        "criteria": [
            {"text": "Answers", "points": 5, "tags": ["axis:accuracy"]},
            {"text": "Zebras"},
        ],
    },
    {
        **ROWS[2],
        "criteria": [{"text": "Zebras", "points": -3, "tags": ["axis:style"]}, {"text": "Answers"}],
    },
]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_criteria_of_single_rows_are_a_list_of_objects_and_their_tags_metrics(
    tmp_path: Path, ending: str
) -> None:
    out, data = tmp_path / f"scored.{ending}", write_lines(tmp_path / "data.jsonl", HEALTH)
    with serving(checking(met)) as judge:
        words = (f"--judge_base_url={judge.base_url}", *CHECKLIST, "--max_judge_error_rate=1")
        assert score(data, "--out", out, *words).code == 0
    first, second, third = table_rows(out)
    assert not [name for name in first if name.startswith("judge/criterion/")]
    assert first["judge/score"] is None
    assert first["judge/criteria"] == [
        {"name": "criterion_1", "points": 5.0, "value": 1.0},
        {"name": "criterion_2", "points": 1.0, "value": None},
    ]
    assert [each["value"] for each in second["judge/criteria"]] == [1.0, 0.0]
    assert [each["points"] for each in third["judge/criteria"]] == [-3.0, 1.0]
    metrics = json.loads((locate_run_directory(out) / "metrics.json").read_text())["results"]["all"]
    assert metrics["eval/tag_score_axis_accuracy"] == 1.0
    assert not [name for name in metrics if "met_rate" in name]


@pytest.mark.slow
def test_shards_have_the_columns_of_the_whole_data_set(tmp_path: Path) -> None:
    shared, other = [{"name": "a", "text": "Answers"}], [{"name": "z", "text": "Zebras"}]
    data = write_lines(
        tmp_path / "data.jsonl",
        [
            {**row, "criteria": each}
            for row, each in zip(ROWS, (shared, shared, other), strict=True)
        ],
    )
    with serving(checking(met)) as judge:
        words = (f"--judge_base_url={judge.base_url}", *CHECKLIST)
        assert score(data, "--out", tmp_path / "whole.jsonl", *words).code == 0
        for shard in ("1/3", "2/3", "3/3"):
            assert (
                score(data, "--out", tmp_path / "parts.jsonl", "--shard", shard, *words).code == 0
            )
    assert score(data, "--out", tmp_path / "parts.jsonl", "--merge", "3").code == 0
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_run_of_an_older_version_gets_the_columns_without_a_call(tmp_path: Path) -> None:
    with serving(saying(lambda aspect, submission: "2" not in submission)) as judge:
        scoring = Scoring(tmp_path, judge)
        assert scoring(*ASPECTS, rows=ROWS).code == 0
        run, calls = locate_run_directory(scoring.out), len(judge.requests)
        older = [{**line, "detail": {**line["detail"]}} for line in samples_of(scoring.out)]
        for line in older:
            del line["detail"]["verdicts"], line["detail"]["tags"]
        write_lines(run / "samples.jsonl", older)
        before = scoring.out.read_bytes()
        assert scoring(*ASPECTS, "--resume").code == 0
    assert len(judge.requests) == calls
    assert scoring.out.read_bytes() == before
    assert scoring.run.metrics["pass_rate_correctness"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_another_judge_replaces_the_columns_by_aspect_too(tmp_path: Path, ending: str) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    with serving(saying(lambda aspect, submission: True)) as judge:
        url = f"--judge_base_url={judge.base_url}"
        assert score(data, "--out", first, url, *ASPECTS).code == 0
        assert (
            score(
                first, "--rescore", "--out", second, url, "--judge=aspect", "--aspects=coherence"
            ).code
            == 0
        )
    assert list(table_rows(second)[0]) == ["prompt", "response", *JUDGED, "judge/aspect/coherence"]


@pytest.mark.parametrize(
    "name", ["judge/aspect/correctness", "judge/criterion/other", "judge/criteria"]
)
def test_a_column_of_the_data_never_stands_for_a_verdict(tmp_path: Path, name: str) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{**row, name: 1.0} for row in ROWS])
    ended = score(
        data, "--out", tmp_path / "out.jsonl", *ASPECTS, "--judge_base_url=http://127.0.0.1:9"
    )
    assert ended.code == 2
    assert re.search(rf"data\.jsonl, row 1: .*column {name} already", ended.err)
    assert not (tmp_path / "out.jsonl").exists()


def of_earlier_version(path: Path) -> None:
    """Write the detail of each row as text, as JSON lines had it once."""
    write_lines(
        path, [{**row, "judge/detail": json.dumps(row["judge/detail"])} for row in read_rows(path)]
    )


@pytest.mark.parametrize("change", [lambda path: None, of_earlier_version], ids=["object", "text"])
def test_the_detail_is_an_object_and_text_is_still_read(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    with serving("[FEEDBACK] Fine. [SCORE] 4") as judge:
        scoring = Scoring(tmp_path, judge)
        assert scoring(rows=ROWS).code == 0
    assert scoring.column("judge/detail") == [{"raw": 4.0}] * 3
    change(scoring.out)
    assert [scored.components(0) for scored in read_scored(scoring.out)] == [{"raw": 4.0}] * 3
