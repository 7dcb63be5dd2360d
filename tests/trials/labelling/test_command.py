"""`judgegym label` as it is typed: what it refuses, what it takes from other machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from judgegym.datasets.score.command import main as score
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.reports.labels.file import read_labels
from judgegym_trials.labelling.command import main, make_parser
from judgegym_trials.labelling.session import LabelPlan
from tests.trials.labelling.made import run_of, session_of

VALUES = (0.0, 1.0, 0.5, 1.0, 0.0, 1.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path / "run", VALUES)


def label_some(run: Path, labeller: str, count: int, keys: str | None = "a") -> None:
    with session_of(run, LabelPlan(100, overlap=100)) as session:
        for _ in range(count):
            uid = session.next_row(labeller)
            assert uid is not None
            session.save(uid, labeller, keys, "")


def labels_elsewhere(run: Path) -> Path:
    """A file of labels of the run's draw, which another machine has written."""
    label_some(run, "ann", 1, keys=None)
    return (run / "labels.jsonl").rename(run.parent / "elsewhere.jsonl")


def test_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [
        line for line in make_parser("judgegym label").format_help().splitlines() if len(line) > 80
    ] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--rows=0"], "whole number from 1, found 0"),
        (["--half_width=2"], "from 0 to 1, found 2"),
        (["--rows=4", "--half_width=.1"], "not allowed with argument"),
        (["--sampling=best"], "invalid choice: 'best'"),
        (["--port=70000"], "from 0 to 65535, found 70000"),
        (
            ["--export", "argilla", "records.json"],
            "--export (command line): this setting was removed",
        ),
        (["--import", "none.jsonl"], "file of labels"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_code_2(
    run: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([str(run), *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    said = capsys.readouterr()
    assert code == 2 and reason in said.err and said.err.count("\n") == 1 and said.out == ""


@pytest.mark.slow
def test_a_run_without_labels_of_rows_and_a_missing_run_exit_with_2_and_leave_no_file(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path / "run", VALUES, environment="pairwise_judgement")
    command = [sys.executable, "-m", "judgegym", "label", "--port=0"]
    for path, reason in (
        (run, "have gold labels"),
        (tmp_path / "none", "no such run"),
    ):
        ended = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
        assert ended.returncode == 2 and reason in ended.stderr and ended.stderr.count("\n") == 1
    assert not (run / "labels.jsonl").exists()


@pytest.mark.parametrize("answer", ["an answer", "It is red:[image 1]"])
def test_images_that_labellers_are_not_shown_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    run = run_of(tmp_path / "run", VALUES, answer=answer)
    assert main([str(run), "--import", str(labels_elsewhere(run))]) == 0
    assert ("rows have images" in capsys.readouterr().err) == ("[image 1]" in answer)


@pytest.mark.slow
def test_a_text_that_says_image_1_shows_no_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"Question {n}, see [image 1]", "response": "an answer"} for n in range(4)]
    data, out = tmp_path / "rows.jsonl", tmp_path / "scored.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert score([str(data), f"--out={out}", "--offline"], prog="score") == 0
    capsys.readouterr()
    assert main([str(out), "--import", str(labels_elsewhere(locate_run_directory(out)))]) == 0
    assert "rows have images" not in capsys.readouterr().err


def test_labels_of_the_same_draw_on_another_machine_are_added_and_of_another_draw_not(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label_some(run, "ann", 3)
    bens = (run / "labels.jsonl").rename(tmp_path / "of_ann.jsonl")
    label_some(run, "ben", 2)
    assert main([str(run), "--import", str(bens)]) == 0
    found = read_labels(run / "labels.jsonl")
    assert len(found.by_row_and_labeller) == 5 and found.labellers == ["ben", "ann"]
    with bens.open("a") as file:
        file.write('{"uid": "of another run", "labeller": "ann", "label": 1}\n')
    assert main([str(run), "--import", str(bens)]) == 2
    assert "row 'of another run' is not in" in capsys.readouterr().err
    assert (
        main([str(run), "--import", str(bens), "--seed=1", "--out", str(tmp_path / "new.jsonl")])
        == 2
    )
    assert f"the draw of {tmp_path / 'new.jsonl'}" in capsys.readouterr().err


def test_a_second_server_on_the_same_file_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with session_of(run):
        assert main([str(run), "--port=0"]) == 2
    assert "labels.jsonl is in use" in capsys.readouterr().err


def test_a_damaged_file_of_labels_is_kept_aside_and_labelling_goes_on(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    label_some(run, "ann", 3)
    path = run / "labels.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], bytes(9) + b"\n", *lines[3:]])
    path.write_bytes(damaged)
    label_some(run, "ann", 2)
    kept = path.with_name("labels.jsonl.damaged")
    assert kept.read_bytes() == damaged
    assert caplog.messages == [
        f"{path}: 1 damaged line skipped (kept in {kept.name}); 1 label may be missing"
    ]
    assert len(read_labels(path).by_row_and_labeller) == 4
