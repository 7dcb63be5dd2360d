"""The page of an evaluation, of runs of the command line: finished, failed, stopped, old, and without texts."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.records import SampleRun
from judgegym.reports.__main__ import main
from judgegym.reports.run_page.page import write_report
from tests.arena import Arena, Run, always, for_model
from tests.core.engine.samples_of import sample
from tests.core.reports.run_page.written import Written
from tests.scripted import Reply

WRITES = "--env.write_report=True"
DOWN = Reply(status=400, body={"error": {"message": "out of order"}})


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path).rows(6)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run, as it was; tests that change its files take a copy."""
    run = Arena(tmp_path_factory.mktemp("finished")).rows(6).evaluate(WRITES)
    assert run.code == 0, run.said
    return run


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One whose judge always prefers the first answer."""
    return Arena(tmp_path_factory.mktemp("biased")).rows(6).evaluate(WRITES, verdict=always("A>B"))


@pytest.fixture
def copy(finished: Run, tmp_path: Path) -> Path:
    return shutil.copytree(finished.files.path, tmp_path / "copy")


def fails(*uids: str) -> Any:
    """A judge that does not answer about some rows."""
    return lambda uid, as_a: DOWN if uid in uids else for_model(uid, as_a)


def page(path: Path) -> Written:
    return Written.read(path / "report.html")


def again(path: Path, *flags: str) -> Written:
    assert main([str(path), *flags], prog="report") == 0
    return page(path)


@pytest.mark.slow
def test_a_row_opens_to_what_was_asked_answered_and_judged(finished: Run) -> None:
    run = finished
    assert f"{run.files.path} report.html" in " ".join(run.said.split())
    written = page(run.files.path)
    assert written.order == [f"row-{number}" for number in range(6)]
    row = written.details["row-4"]
    assert row["conversation"] == [{"title": "user", "text": "Question of row-4: why?"}]
    assert row["texts"] == [{"title": "baseline", "text": "BASELINE answer to row-4"}]
    assert [(each["title"], each["text"]) for each in row["completions"]] == [
        ("answer", "ANSWER of the model to row-4")
    ]
    calls = {call["name"]: call for call in row["calls"]}
    assert set(calls) == {"conversation_0/policy", "game_1", "game_2"}
    for game, verdict in (("game_1", "[[A>B]]"), ("game_2", "[[B>A]]")):
        start, end = calls[game]["verdict_at"]
        assert calls[game]["answer"][start:end] == verdict
        assert calls[game]["has_verdict"] and calls[game]["attempts"] == 1
        assert "BASELINE answer to row-4" in calls[game]["messages"][1]["text"], "as it was sent"
    shown = written.summaries["row-4"]
    assert shown["category"] == "Precise IF"
    assert (shown["status"], shown["label"], shown["failed"]) == ("ok", "win", False)
    assert (shown["score"], shown["value"], shown["orders_disagree"]) == (1.0, 1.0, False)
    assert (shown["length"], shown["start"]) == (
        len("ANSWER of the model to row-4"),
        "Question of row-4: why?",
    )


@pytest.mark.slow
def test_head_has_the_result_and_what_it_was_measured_on(biased: Run) -> None:
    run = biased
    head, general = page(run.files.path).head, run.files.report["config_general"]
    value, low, high = (
        run.files.metrics[f"overall_winrate{end}"] for end in ("", "_ci_low", "_ci_high")
    )
    assert f"win rate {value:.4f} (95 %: {low:.4f} to {high:.4f})" in head
    digests = [dataset["digest"] for dataset in general["datasets"]]
    date = general["date"][:16].replace("T", " ")
    facts = [
        "evaluated the-policy",
        "judge the-judge",
        f"date {date} UTC",
        "seed 0",
        "6 selected: 6 ok",
    ]
    facts += [
        "judge_protocol=three_way",
        "12 calls, 12 requests",
        *digests,
        *general["judge_prompt_digests"].values(),
    ]
    assert [fact for fact in facts if fact not in head] == []
    assert "Win rate by category" in head and "Coding: 0.500 of 2" in head
    assert "disagree for 6 of 6 rows (100.0 %)" in head
    assert "eval/judge_cost_usd" in head and "not known" in head, "what has no value, and why"


@pytest.mark.slow
def test_head_has_first_what_a_reader_needs_and_folds_the_rest(copy: Path) -> None:
    report = json.loads((copy / "metrics.json").read_bytes())
    report["results"]["all"] |= {"eval/truncated_response_rate": 0.5, "eval/judge_cost_usd": 0.25}
    (copy / "metrics.json").write_text(json.dumps(report))
    first, folded = again(copy).head.split("About this run")
    assert [said for said in ("rows 6 selected: 6 ok", "time ", "date ") if said not in first] == []
    assert "went wrong cut off 50.0 % of the answers" in first and "refused" not in first
    assert "cost judge $0.2500, policy not known" in first
    for said in ("protocol ", "prompts ", "digest of "):
        assert said not in first and said in folded


@pytest.mark.slow
def test_head_names_the_run_whose_answers_are_judged_again(arena: Arena) -> None:
    first = arena.evaluate(run="first")
    run = arena.evaluate(
        WRITES, f"--env.model_answers={first.files.path}", "--env.judge_model_name=another"
    )
    assert run.code == 0, run.said
    head = page(run.files.path).head
    assert f"answers of {first.files.path}, judged by the-judge, " in head
    assert "evaluated the-policy" in head and "judge another" in head
    assert (
        page(run.files.path).details["row-4"]["completions"][0]["text"]
        == "ANSWER of the model to row-4"
    )


def test_two_pages_of_a_finished_run_are_equal(finished: Run, copy: Path) -> None:
    again(copy)
    assert (copy / "report.html").read_bytes() == (finished.files.path / "report.html").read_bytes()


@pytest.mark.slow
def test_failed_rows_say_why_and_come_first_among_the_worst(arena: Arena) -> None:
    run = arena.evaluate(WRITES, "--env.max_judge_error_rate=1", verdict=fails("row-1", "row-4"))
    assert run.code == 0, run.said
    written = page(run.files.path)
    assert written.order == ["row-0", "row-2", "row-3", "row-5", "row-1", "row-4"], (
        "failed rows have a file of their own"
    )
    assert [uid for uid, row in written.summaries.items() if row["failed"]] == ["row-1", "row-4"]
    assert "out of order" in written.details["row-1"]["error"]
    assert "2 of 6 rows" in written.head and "no score: 2 judge_failed" in written.head
    assert again(run.files.path, "--order=worst").order[:2] == ["row-1", "row-4"]
    few = again(run.files.path, "--samples=3")
    assert len(few.order) == 3 and {"row-1"} <= set(few.order)
    assert "This page holds 3 of 6 rows" in few.head
    assert few.index["total"] == 6


@pytest.mark.slow
def test_a_run_in_which_nothing_succeeds_has_a_page_of_its_failures(arena: Arena) -> None:
    run = arena.evaluate(WRITES, verdict=lambda uid, as_a: DOWN)
    assert run.code == 1
    written = page(run.files.path)
    assert len(written.order) == 6 and "is not complete" in written.head


@pytest.mark.slow
def test_a_resumed_run_drops_the_page_and_writes_a_new_one(arena: Arena) -> None:
    run = arena.evaluate(WRITES, verdict=fails("row-1"))
    assert run.code == 1 and page(run.files.path).summaries["row-1"]["failed"]
    assert arena.evaluate("--resume").code == 0
    assert not (run.files.path / "report.html").exists(), "it would not fit the rows that ran again"
    assert arena.evaluate("--resume", WRITES).code == 0
    assert not page(run.files.path).summaries["row-1"]["failed"]


@pytest.mark.slow
def test_an_unfinished_run_has_the_result_of_its_rows_so_far(copy: Path) -> None:
    (copy / "metrics.json").unlink()
    samples = (copy / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "samples.jsonl").write_bytes(b"".join(samples[:5]) + samples[5][:40])
    written = again(copy)
    assert written.order == [f"row-{number}" for number in range(5)]
    assert written.head.startswith("copy: "), "where the environment is not known, the directory"
    assert "is not complete" in written.head
    assert "1.0000 (95 %: 0.5471 to 1.0000), of the 5 rows so far" in written.head


@pytest.mark.slow
def test_an_old_run_has_mean_scores_and_no_texts(copy: Path) -> None:
    """Of before lines said what a row adds to the result, its texts and the orders of its answers."""
    lines = [json.loads(line) for line in (copy / "samples.jsonl").read_bytes().splitlines()]
    kept = [
        {name: line[name] for name in line.keys() - {"headline", "texts", "orders"}}
        for line in lines
    ]
    (copy / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    written = again(copy)
    assert "Mean score by category" in written.head and "did not keep" in written.head
    assert written.details["row-0"]["texts"] == []
    assert (
        written.summaries["row-0"]["value"] is None and written.summaries["row-0"]["score"] == 1.0
    )


@pytest.mark.slow
def test_a_run_that_keeps_no_calls_shows_its_questions_and_no_calls(arena: Arena) -> None:
    without = arena.evaluate("--env.write_report=False")
    assert "page to read" not in without.said and not (without.files.path / "report.html").exists()
    run = arena.evaluate(WRITES, "--keep_calls=False", run="without calls")
    row = page(run.files.path).details["row-2"]
    assert row["calls"] == []
    assert row["conversation"] == [{"title": "question", "text": "Question of row-2: why?"}]
    assert row["completions"][0]["text"] == "ANSWER of the model to row-2"


@pytest.mark.slow
def test_a_page_of_few_rows_does_not_hold_the_texts_of_all(tmp_path: Path) -> None:
    text = "many words " * 2_000
    with (tmp_path / "samples.jsonl").open("wb") as file:
        for number in range(1_000):
            file.write(sample(f"row-{number}", question=text, run=SampleRun(0.1)).to_line())
    write_report(tmp_path, most=5)  # what is imported and cached at first
    tracemalloc.start()
    try:
        write_report(tmp_path, most=5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000 * len(text) / 3
    assert len(page(tmp_path).order) == 5
