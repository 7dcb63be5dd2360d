"""`python -m judgegym.reports.compare`: tables, files, refusals and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.compare.__main__ import main
from tests.command import ROOT
from tests.core.engine.samples_of import sample
from tests.core.reports.compare.written import opened, row, rows_of, run

VALUES = [0.0, 0.5, 1.0, 1.0, 0.0, 0.75], [1.0, 0.5, 0.5, 1.0, 0.0, 0.25]


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """Two runs that differ in three rows, and in a category."""
    paths = []
    for name, values in zip("ab", VALUES, strict=True):
        rows = [
            row(f"row-{place}", value, category="code" if place % 2 else "math")
            for place, value in enumerate(values)
        ]
        paths.append(str(run(tmp_path / "runs" / name, rows)))
    return paths


@pytest.mark.slow
def test_the_table_fits_80_columns(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(pair) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("arena_hard: win rate on the 6 rows ")
    for said in (
        "B − A: win rate 0.0000 (95 %: −",
        "higher in 1 row, lower in 2, the same in 3",
        "won → lost: 1, lost → won: 1, won → tied: 1",
        "exact sign test: p = 1.0000, over the 3 rows that differ",
        "0.0000 → 1.0000 row-0 Question of row-0",
        "settle it: unknown",
    ):
        assert said in " ".join(out.split()), said
    assert re.search(r"code +│ +3 │ 0\.7500 │ 0\.5833 │", out)
    assert max(len(line) for line in out.splitlines() if not line.endswith(tuple(pair))) <= 80, (
        "paths are whole"
    )


@pytest.mark.slow
def test_a_table_says_which_rows_are_left_out_and_that_no_outcome_differs(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(tmp_path / "a", [row("a", 1.0), row("b", 1.0), row("c", 1.0)])
    second = run(tmp_path / "b", [row("a", 1.0), row("b", 0.0), sample("c", "unparsable")])
    assert main([str(first), str(second)]) == 0
    out = capsys.readouterr().out
    assert "3 rows: 1 that another run" in out
    assert "3 rows: 1 failed" in out
    assert main([pair[0], str(shutil.copytree(pair[0], tmp_path / "copy"))]) == 0
    out = capsys.readouterr().out
    assert "another outcome" in out and "won → lost" not in out


@pytest.mark.slow
def test_directories_whose_names_are_no_utf8_are_compared(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff\n"))
    Path(pair[0]).rename(odd)
    (odd / "report.html").touch()
    assert main([str(odd), pair[1], f"--html={tmp_path / 'c.html'}"]) == 0
    assert "A  " in capsys.readouterr().out
    assert b'href="a%FF%0A/report.html"' in (tmp_path / "c.html").read_bytes()
    assert main([str(odd), pair[1], "--json=-"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["path"].endswith("/a\ufffd\n")


@pytest.mark.slow
def test_files_are_written_and_named_and_json_goes_to_standard_output_alone(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "c.html", tmp_path / "c.json"]
    assert main([*pair, f"--html={files[0]}", f"--json={files[1]}"]) == 0
    out, err = capsys.readouterr()
    assert "B − A: win rate" in out
    assert err == f"wrote {files[1]}\nwrote {files[0]}\n"
    assert json.loads(files[1].read_bytes())["rows"] == 6
    assert files[0].read_bytes().startswith(b"<!DOCTYPE html>")
    assert main([*pair, "--json=-", "--rows=1", "--rounds=200", "--seed=3"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["environment"], found["rows"], found["settings"]["seed"]) == ("arena_hard", 6, 3)
    (difference,) = found["differences"]
    assert [each["uid"] for each in difference["changed"]] == ["row-0"]
    assert difference["tests"][0]["test"] == {
        "name": "sign",
        "p": 1.0,
        "higher": 1,
        "lower": 2,
        "reason": "",
    }


@pytest.mark.slow
def test_runs_that_differ_are_refused_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(tmp_path / "a", rows_of([1.0, 0.0]))
    second = run(tmp_path / "b", rows_of([1.0, 0.5]), judge_model_name="b-judge")
    assert main([str(first), str(second)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "judge: env.judge_model_name: A a-judge; B b-judge" in err
    assert main([str(first), str(second), "--across_judges"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the same outcome to 50.0 % of the rows; Cohen's κ (quadratic weights)" in out
    assert "The judge differs: env.judge_model_name: A a-judge; B b-judge" in out
    assert "better" not in out


@pytest.mark.slow
def test_wrong_input_is_one_line_and_code_2(
    pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = pair
    none = one.replace("/a", "/none")
    Path(two, "../note.txt").write_text("a note", "utf-8")
    cases: dict[tuple[str, ...], str] = {
        (one,): "expected two runs .*",
        (one, one): f"{one} is given twice",
        (one, none): f"{none}: .*no such .*scored file .*",
        (one, f"{two}/metrics.json"): f"{two}/metrics.json is a file; .*: {two}",
        (one, f"{two}/../note.txt"): (
            f"{two}/../note.txt is a file; .*run directory, .*file of score .*"
        ),
        (): "compare: the following arguments are required: RUN",
        (one, two, "--wrong"): "compare: unrecognized arguments: --wrong",
        (one, two, "--rounds=9"): "compare: argument --rounds: .* from 100, found 9",
        (one, two, "--rows=x"): "compare: argument --rows: .* from 0, found x",
        (
            one,
            two,
            "--html=/proc/nowhere/c.html",
        ): "/proc/nowhere/c.html cannot be written: No such file or directory",
    }
    for words, said in cases.items():
        try:
            code = main(words, prog="compare")
        except SystemExit as ended:  # argparse's way
            code = int(ended.code or 0)
        assert code == 2
        err = capsys.readouterr().err
        assert re.fullmatch(f"{said}\n", err), err


def test_control_characters_of_a_model_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07 \u202e gnp"
    runs = [
        opened(
            tmp_path / name,
            [row("a\x1b[1m", value, question=hostile), row("b", 0.0)],
            model_name=hostile,
        )
        for name, value in (("a", 0.0), ("b", 1.0))
    ]
    assert main([str(each.path) for each in runs]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out and "\x07" not in out
    assert "�[2J" in out


@pytest.mark.slow
def test_it_runs_as_a_module_and_explains_itself(pair: list[str]) -> None:
    command = [sys.executable, "-m", "judgegym.reports.compare"]
    helped = subprocess.run(
        [*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--across_judges" in helped.stdout
    ended = subprocess.run([*command, *pair], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "B − A: win rate" in ended.stdout
