"""`--labels` of evaluate, score and report, on the runs that these commands write."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.__main__ import main as report
from judgegym.reports.labels.correction import correct_run, read_correction
from judgegym.reports.labels.file import read_labels, row_digest
from judgegym.reports.results.run import SavedRun
from tests.command import Ended, in_process, serving, write_lines
from tests.core.datasets.scoring import by_points, rated, score


def evaluate(run: Path, *flags: str) -> Ended:
    return in_process("evaluate", "--offline", f"--env.data_dir_to_save_evals={run}", *flags)


def label_all(run: Path, file: Path, values: Sequence[float]) -> Path:
    """Label the first rows of a run in turn with these values, as the label page does."""
    rows = [sample for sample in SavedRun.open(run).samples() if sample.headline is not None]
    lines: list[dict[str, Any]] = [
        {"drawn": {"how": "random", "seed": 0, "rows": len(rows), "run": "-"}}
    ]
    for sample, value in zip(rows, values, strict=False):
        lines.append(
            {"uid": sample.uid, "labeller": "ann", "label": value, "row": row_digest(sample)}
        )
    return write_lines(file, lines)


@pytest.mark.slow
def test_a_finished_evaluation_is_corrected_when_it_is_resumed_with_labels(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert evaluate(run).code == 0
    calls = (run / "calls.jsonl.gz").read_bytes()
    labels = label_all(run, tmp_path / "labels.jsonl", [1.0, 0.0, 0.5, 1.0, 1.0, 0.0, 1.0, 0.0])
    ended = evaluate(run, "--resume", f"--labels={labels}", "--env.write_report=true")
    assert ended.code == 0, ended.said
    saved = SavedRun.open(run)
    found = correct_run(saved, read_labels(labels))
    assert read_correction(saved) == found
    assert found.whole.labels == 8
    value = f"{found.whole.value:.4f}"
    assert f"corrected by 8 labels win rate {value} 95 %:" in " ".join(ended.out.split())
    page = (run / "report.html").read_text()
    assert "Corrected by 8 labels" in page and value in page
    assert (run / "calls.jsonl.gz").read_bytes() == calls, "nobody was asked again"
    again = (run / "report.html").read_bytes()
    assert report([str(run)]) == 0
    assert (run / "report.html").read_bytes() == again, "the page is of the files of the run"


@pytest.mark.slow
def test_labels_of_another_run_end_with_2_and_the_metrics_are_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    labels = write_lines(
        tmp_path / "labels.jsonl", [{"uid": "row-77", "labeller": "ann", "label": 1}]
    )
    ended = evaluate(run, f"--labels={labels}")
    assert (ended.code, (run / "metrics.json").exists()) == (2, True)
    assert f"{labels}: row 'row-77' is not in {run}; " in ended.err
    assert "another run" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("content", [None, "{}\n", ""])
def test_a_file_that_holds_no_labels_is_said_before_anybody_is_asked(
    tmp_path: Path, content: str | None
) -> None:
    labels = tmp_path / "labels.jsonl"
    if content is not None:
        labels.write_text(content)
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": "Q", "response": "3 points"}])
    for ended in (
        evaluate(tmp_path / "run", f"--labels={labels}"),
        score(
            data,
            "--out",
            tmp_path / "out.jsonl",
            f"--labels={labels}",
            "--judge_base_url=http://127.0.0.1:1/v1",
        ),
    ):
        assert ended.code == 2
        assert str(labels) in ended.err and ended.err.count("\n") == 1, ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_scored_file_is_corrected_and_its_responses_are_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "prompt": f"Q {n}",
            "responses": [f"{n % 5 + 1} points {n}", f"{(3 * n) % 5 + 1} points {n}"],
        }
        for n in range(20)
    ]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    with serving(rated(by_points)) as judge:
        flags = (data, "--out", out, f"--judge_base_url={judge.base_url}")
        assert score(*flags).code == 0
        values = [(0.25 * (n % 5)) if n % 3 else 0.5 for n in range(30)]
        run = next(tmp_path.glob("*.run"))
        labels = label_all(run, tmp_path / "labels.jsonl", values)
        asked = len(judge.requests)
        ended = score(*flags, "--resume", f"--labels={labels}")
        assert len(judge.requests) == asked
    assert ended.code == 0, ended.said
    assert "corrected by 30 labels" in ended.out
    corrected = json.loads((run / "metrics.json").read_text())["config_general"]["corrected"]
    assert corrected["whole"]["labels"] == 30
    config = (run / "config.yaml").read_text()
    assert "labels" not in config
    assert report([str(out), f"--labels={labels}", f"--output={tmp_path / 'page.html'}"]) == 0
    shown = capsys.readouterr().out
    assert f"{corrected['whole']['value']:.4f}" in shown
    assert "Corrected by 30 labels" in (tmp_path / "page.html").read_text()
    assert SavedRun.open(run).general["corrected"] == corrected


@pytest.mark.slow
def test_report_refuses_labels_of_groups_and_damaged_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, groups = tmp_path / "run", write_lines(tmp_path / "groups.jsonl", [{}])
    empty = write_lines(tmp_path / "empty.jsonl", [])
    assert evaluate(run).code == 0
    damaged = write_lines(
        tmp_path / "labels.jsonl", [{"uid": "row-0", "labeller": "ann", "label": "good"}]
    )
    for words, said in (
        ((groups, f"--labels={damaged}"), "holds groups"),
        ((run, f"--labels={damaged}"), f"{damaged}, line 1: not a label: label"),
        ((run, f"--labels={empty}"), f"{empty}: .*no label"),
    ):
        assert report([str(word) for word in words]) == 2
        error = capsys.readouterr().err
        assert re.search(said, error) and error.count("\n") == 1
