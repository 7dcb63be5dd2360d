"""The output is made of what run directories say, and is put into its place on a page."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from examples.real_model import everything, model, page, table
from examples.real_model.behaviours.behaviour import Behaviour, format_code
from examples.real_model.configs import RUNS
from examples.real_model.everything import Output, Results, run_everything
from examples.real_model.measured import RunNumbers
from examples.real_model.server import ServerSettings
from tests.command import RunFiles, in_process


def test_a_line_of_the_table_is_what_its_run_says(tmp_path: Path) -> None:
    flags = [
        "--limit=6",
        "--faults",
        '{"400": 0.3}',
        "--env.max_judge_error_rate=1",
        "--env.write_report=False",
    ]
    ended = in_process(
        "evaluate", "--offline", *flags, f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
    )
    assert ended.code == 0, ended.said
    run, measured = RunFiles(tmp_path / "run"), RunNumbers.read(tmp_path / "run")
    failed = [line["status"] for line in run.failures]
    assert measured.rows == 6 and measured.verdicts == len(run.samples) and failed
    assert sum(measured.failures.values()) == len(failed)
    assert measured.calls == run.metrics["judge_calls"] + run.metrics["policy_calls"]
    assert (
        measured.headline is not None and measured.headline.value == run.metrics["overall_winrate"]
    )
    assert 0 < measured.longest < measured.tokens_in + measured.tokens_out
    first, _, line, total = table.evaluations([(RUNS[0], measured)]).splitlines()
    cells = dict(zip(first.strip("| ").split(" | "), line.strip("| ").split(" | "), strict=True))
    assert (cells["environment"], cells["rows"]) == ("`arena_hard`", "6")
    assert f"win rate {measured.headline.value:.3f} (" in cells["headline (95 %)"]
    assert all(str(failed.count(status)) in cells["failures"] for status in set(failed))
    assert total.split(" | ")[2] == "6"


def test_the_output_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\n{page.END}\nafter\n")
    for text in ("| one |", "| another |"):
        page.put_into(path, text)
        assert path.read_text() == f"before\n{page.BEGIN}\n{text}\n{page.END}\nafter\n"


def test_an_answer_cannot_break_the_table() -> None:
    assert format_code("a|b\n`c`\x1b[1m") == "`a\\|b\\n'c'\\x1b[1m`"
    assert format_code("x" * 100) == f"`{'x' * 80}…`"


def test_ctrl_c_prints_what_was_measured_and_leaves_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(server: object, folder: Path, found: Results) -> None:
        found.behaviours.append(Behaviour("a thing", "a request", "an answer"))
        raise KeyboardInterrupt

    (tmp_path / "model").write_bytes(b"")
    monkeypatch.setattr(everything, "_measure", measure)
    monkeypatch.setattr(everything, "running", lambda settings, log: contextlib.nullcontext())
    monkeypatch.setattr(model, "versions", lambda: {"llama.cpp": "1"})
    monkeypatch.setattr(model, "assemble", lambda folder: tmp_path / "model")
    path = tmp_path / "page.md"
    path.write_text(f"{page.BEGIN}\n{page.END}\n")
    assert run_everything(ServerSettings(), Output(tmp_path / "out", path)) == 130
    shown = capsys.readouterr().out
    assert "| a thing | a request | an answer |" in shown and "llama.cpp 1" in shown
    assert (tmp_path / "out" / "output.md").read_text() in shown
    assert path.read_text() == f"{page.BEGIN}\n{page.END}\n"
