"""A run that was cut off is taken up: each row once, nothing paid for twice, and only with the same settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.arena import Arena, Run, uid_of
from tests.command import write_lines


def judged(run: Run) -> set[str]:
    return {uid_of(body) for body in run.judge.bodies}


def snapshot(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        each.name: (each.read_bytes(), each.stat().st_mtime_ns)
        for each in path.iterdir()
        if each.name != ".lock"
    }


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
    write_lines(
        path,
        [{**row, column: f"{row[column]}, changed"} if row["uid"] in uids else row for row in rows],
    )
