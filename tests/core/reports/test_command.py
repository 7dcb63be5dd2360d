"""`python -m judgegym.reports`: what it writes where, and what it says of wrong input."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from judgegym.reports.__main__ import main
from tests.core.engine.samples_of import sample
from tests.core.reports.run_page.written import Written


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    (path / "samples.jsonl").write_bytes(b"".join(sample(f"row-{n}").to_line() for n in range(3)))
    return path


def report(*words: object) -> int:
    return main([str(word) for word in words], prog="report")


@pytest.mark.slow
def test_page_is_written_into_the_run_directory_or_where_it_is_asked_for(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(run) == 0
    assert capsys.readouterr().out == f"The page is {run / 'report.html'}\n"
    assert report(run, "--output", tmp_path / "mine.html") == 0
    assert (tmp_path / "mine.html").read_bytes() == (run / "report.html").read_bytes()


@pytest.mark.slow
def test_a_file_of_a_run_stands_for_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(run / "samples.jsonl") == 0
    assert capsys.readouterr().out == f"The page is {run / 'report.html'}\n"


@pytest.mark.slow
def test_all_shows_every_sample(run: Path) -> None:
    assert report(run, "--samples=all") == 0
    assert len(Written.read(run / "report.html").order) == 3


@pytest.mark.slow
def test_wrong_paths_are_one_line_and_exit_code_2(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "words.jsonl").write_text('{"uid": "row-0"}\n')
    other = tmp_path / "other"
    other.mkdir()
    (other / "samples.jsonl").write_text('{"doc_id": 1}\n')
    cases = {
        (tmp_path / "missing",): "missing: .*no such .*groups",
        (tmp_path / "empty",): "empty is no run",
        (tmp_path / "words.jsonl",): (
            r"words\.jsonl, line 1: .*scored file .*group of rollouts: scores: Field required"
        ),
        (other,): r"samples\.jsonl: .* line 1: the field 'uid'",
        (run, "--output", tmp_path / "missing" / "page.html"): (
            r"missing/page\.html cannot be written: No such file"
        ),
    }
    for words, expected in cases.items():
        assert report(*words) == 2
        said = capsys.readouterr()
        assert re.search(expected, said.err) and said.err.count("\n") == 1 and not said.out
    assert sorted(each.name for each in run.iterdir()) == ["samples.jsonl"], "and nothing is left"


def test_a_file_that_is_no_run_is_refused_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {tmp_path / "notes.html": "<html></html>", tmp_path / "empty.jsonl": ""}
    for path, text in files.items():
        path.write_text(text)
        assert report(path) == 2
        assert re.search(
            f"{path} .*run directory, .*file of score, .*process", capsys.readouterr().err
        )
        assert path.read_text() == text
    assert {*tmp_path.iterdir()} == {*files}


def test_a_folder_of_runs_names_them(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(run.parent) == 2
    assert f"its runs: {run}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--samples=0"], ["--samples=some"], ["--order=best"], ["--nope"]]
)
def test_wrong_flags_are_exit_code_2(
    run: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        report(run, *words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("report: ") and said.count("\n") == 1


def test_help_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        report("--help")
    assert ended.value.code == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
