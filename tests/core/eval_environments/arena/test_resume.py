"""A run that was cut off is taken up: each row once, nothing paid for twice, and only with the same settings."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.arena import Arena, Run, against_model, answering, for_model, judge, tie, uid_of
from tests.command import SCRIPT, Ended, Started, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script

HANG = Reply(hang=True)


def mixed(uid: str, as_a: bool) -> str:
    """Wins, losses and ties."""
    return (for_model, against_model, tie)[int(uid.removeprefix("row-")) % 3](uid, as_a)


def cut_off(
    arena: Arena,
    *,
    finishing: set[str],
    judging: Script,
    number: signal.Signals = signal.SIGKILL,
    flags: Sequence[str] = (),
) -> Ended:
    """Run in a process of its own against `judging`, until exactly the rows `finishing` are on disk; then a signal."""
    files = arena.files()
    with serving(judging) as endpoint, serving(answering) as policy:
        argv = arena.argv(endpoint.base_url, policy.base_url, *flags)
        with Started(str(SCRIPT), *argv, cwd=arena.path) as started:
            samples = files.path / "samples.jsonl"
            started.until(lambda: samples.exists() and len(files.samples) == len(finishing), "the first rows on disk")
            started.until(lambda: endpoint.in_flight > 0, "further rows under way")
            started.process.send_signal(number)
            return started.ended()


def hanging_but_for(uids: set[str]) -> Script:
    """A judge that answers these rows and no others, ever."""
    answered = judge(mixed)
    return lambda request, number: answered(request, number) if uid_of(request) in uids else HANG  # type: ignore[return-value]


def judged(run: Run) -> set[str]:
    return {uid_of(body) for body in run.judge.bodies}


def snapshot(path: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.iterdir() if each.name != ".lock"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "setting"),
    [
        ("--env.judge_temperature=0.9", "env.judge_temperature"),
        ("--env.judge_model_name=another", "env.judge_model_name"),
        ("--env.judge_protocol=arena_hard_v0.1", "env.judge_protocol"),
        ("--env.judge_reask=0", "env.judge_reask"),
        ("--env.eval_temperature=0.1", "env.eval_temperature"),
        ("--env.thinking_mode=true", "env.thinking_mode"),
        ("--env.custom_system_prompt=Be brief.", "env.custom_system_prompt"),
        ('--openai.extra_body={"top_p": 0.5}', "openai.extra_body"),
        ("--openai.model_name=another", "openai.model_name"),
    ],
)
def test_another_configuration_cannot_take_a_run_up(arena: Arena, flag: str, setting: str) -> None:
    arena.evaluate()
    before = snapshot(arena.files().path)
    run = arena.evaluate(flag, "--resume")
    assert run.code == 2
    assert setting in run.ended.err
    assert str(arena.files().path) in run.ended.err
    assert run.judge.requests == run.policy.requests == []
    assert snapshot(arena.files().path) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "flag",
    ["--env.judge_max_concurrency=3", "--env.max_judge_error_rate=1", "--env.judge_timeout=5", "--env.full_debug=true",
     "--openai.num_requests_for_eval=3", "--openai.timeout=5"],
)  # fmt: skip
def test_how_a_run_goes_may_change(arena: Arena, flag: str) -> None:
    before = arena.evaluate().files.without_run()
    run = arena.evaluate(flag, "--resume")
    assert run.code == 0, run.said
    assert run.judge.requests == run.policy.requests == []
    assert run.files.without_run() == before


def test_a_command_that_is_refused_leaves_nothing_behind(arena: Arena) -> None:
    (arena.path / "run").mkdir()
    (arena.path / "run" / "notes.txt").write_text("mine")
    assert arena.evaluate().code == 2
    assert [each.name for each in (arena.path / "run").iterdir()] == ["notes.txt"]


def test_resuming_where_nothing_is_begins(arena: Arena) -> None:
    run = arena.evaluate("--resume")
    assert run.code == 0, run.said
    assert len(run.files.samples) == 6


@pytest.mark.slow
def test_rows_whose_baseline_changed_are_judged_again_and_the_policy_is_not_asked(arena: Arena) -> None:
    """They kept the score of the old baseline: 0.5 where a fresh run gives 1.0."""
    changed = {"row-0", "row-2", "row-4"}
    arena.evaluate(verdict=tie)
    change(arena.path / "baseline.jsonl", "answer", changed)
    run = arena.evaluate("--resume", verdict=for_model)
    assert run.code == 0, run.said
    assert judged(run) == changed
    assert run.policy.requests == []
    assert "judged again: 3" in run.ended.err

    fresh = arena.evaluate(verdict=lambda uid, as_a: (for_model if uid in changed else tie)(uid, as_a), run="fresh")
    assert run.files.without_run() == fresh.files.without_run()
    assert arena.evaluate("--resume").judge.requests == [], "by now the baseline is that of the run"


@pytest.mark.slow
def test_rows_whose_question_changed_are_asked_and_judged_again(arena: Arena) -> None:
    arena.evaluate()
    change(arena.path / "prompts.jsonl", "prompt", {"row-3"})
    run = arena.evaluate("--resume")
    assert run.code == 0, run.said
    assert judged(run) == {uid_of(body) for body in run.policy.bodies} == {"row-3"}
    assert "judged again: 1" in run.ended.err


@pytest.mark.slow
def test_answers_of_a_file_that_changed_are_judged_again(arena: Arena) -> None:
    rows = [{"uid": f"row-{number}", "answer": f"An answer to row-{number}"} for number in range(6)]
    path = write_lines(arena.path / "answers.jsonl", rows)
    flag = f"--env.model_answers={path}"
    arena.evaluate(flag)
    change(path, "answer", {"row-1"})
    run = arena.evaluate(flag, "--resume")
    assert run.code == 0, run.said
    assert judged(run) == {"row-1"}
    (sample,) = (each for each in run.files.samples if each["uid"] == "row-1")
    assert sample["model_answer"] == "An answer to row-1, changed"


def change(path: Path, column: str, uids: set[str]) -> None:
    """Change a column of some rows of a file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    write_lines(path, [{**row, column: f"{row[column]}, changed"} if row["uid"] in uids else row for row in rows])


def failing_but_for(uid: str) -> Script:
    """A judge that is only up for one row."""
    answered = judge(mixed)
    down = Reply(status=500, body={"error": {"message": "no judge here"}})
    return lambda request, number: answered(request, number) if uid_of(request) == uid else down  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_answers_that_were_paid_for_outlive_a_resume_that_is_cut_off(arena: Arena, number: signal.Signals) -> None:
    arena.evaluate("--env.judge_max_retries=0", judge_script=failing_but_for("row-2"))
    with serving(hanging_but_for({"row-2"})) as endpoint, serving(answering) as policy:
        argv = [*arena.argv(endpoint.base_url, policy.base_url), "--resume"]
        with Started(str(SCRIPT), *argv, cwd=arena.path) as started:
            started.until(lambda: endpoint.in_flight == 10, "the failed rows under way")
            started.send(number)
            started.ended()
        assert policy.requests == []
    again = arena.evaluate("--resume", verdict=mixed)
    assert again.code == 0, again.said
    assert [uid_of(body) for body in again.policy.bodies] == []


@pytest.mark.slow
def test_answers_that_were_paid_for_outlive_an_evaluation_that_is_given_up(arena: Arena) -> None:
    """Ten rows fail for good while the judge sits on two others, whose answers are there, until it times out."""
    down = Reply(status=401, body={"error": {"message": "no"}})

    waiting: set[int] = set()
    all_four_wait = asyncio.Event()

    async def script(request: Json, number: int) -> Reply:
        if uid_of(request) in ("row-10", "row-11"):
            waiting.add(number)
            if len(waiting) == 4:
                all_four_wait.set()
            return HANG
        await all_four_wait.wait()
        return down

    first = arena.rows(12).evaluate("--env.judge_max_retries=0", "--env.judge_timeout=1", judge_script=script)
    assert first.code == 1
    assert len(first.policy.requests) == 12
    again = arena.evaluate("--resume", verdict=mixed)
    assert again.code == 0, again.said
    assert [uid_of(body) for body in again.policy.bodies] == []


@pytest.mark.slow
def test_metrics_never_speak_of_other_rows_than_those_on_disk(arena: Arena) -> None:
    """An earlier run's report is gone once a resumed run has added rows to it."""
    first = arena.evaluate("--env.judge_max_retries=0", judge_script=failing_but_for("row-2"))
    assert first.files.metrics["total_samples"] == 1
    finishing = {"row-0", "row-1", "row-2"}
    cut_off(arena, finishing=finishing, number=signal.SIGTERM, judging=hanging_but_for(finishing), flags=["--resume"])
    assert {sample["uid"] for sample in first.files.samples} == finishing
    assert not (first.files.path / "metrics.json").exists()


@pytest.mark.slow
def test_one_process_at_a_time(arena: Arena) -> None:
    with serving(hanging_but_for(set())) as endpoint, serving(answering) as policy:
        argv = arena.argv(endpoint.base_url, policy.base_url)
        with Started(str(SCRIPT), *argv, cwd=arena.path) as started:
            started.until(lambda: endpoint.in_flight > 0, "the first process at work")
            for flags in ((), ("--resume",)):
                second = in_process(*argv, *flags)
                assert second.code == 2
                assert "in use by another process" in second.err
            started.process.kill()
            started.ended()
    assert arena.evaluate("--resume").code == 0, "a dead process holds nothing"
