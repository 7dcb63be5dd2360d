"""Answers of a run under another judge, protocol or prompt: what was malformed, cut off or refused stays so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.arena import Arena, Run, against_model, for_model, tie, uid_of
from tests.command import RunFiles, in_process, write_lines
from tests.scripted import Json, Reply, completion

FIELDS = (
    "model_answer",
    "thinking",
    "thinking_valid",
    "thinking_fault",
    "finish_reason",
    "short_response",
)
RATES = (
    "thinking_valid_rate",
    "thinking_length_chars",
    "short_response_rate",
    "truncated_response_rate",
    "refused_response_rate",
    "empty_response_rate",
    "response_length_chars",
)
SAID: dict[str, Reply] = {
    "row-0": Reply("<think>Hm.</think> ANSWER of the model to row-0, é 𝄞 \u2028 ]]></script>"),
    "row-1": Reply("ANSWER of the model to row-1, without a thought"),
    "row-2": Reply(
        body=completion(
            "<think>Hm.</think> ANSWER of the model to row-2, which", finish_reason="length"
        )
    ),
    "row-3": Reply(
        body=completion("", finish_reason="content_filter", refusal="I cannot answer row-3.")
    ),
    "row-4": Reply("<think>Hm.</think> No."),
    "row-5": Reply(
        body=completion("ANSWER of the model to row-5", reasoning_content="Hm, hm.\n</think>")
    ),
}
THINKING = ("--env.thinking_mode=True", "--env.short_answer_retries=1")


def answering(request: Json, number: int) -> Reply:
    return SAID[uid_of(request)]


def first(arena: Arena, *flags: str) -> Run:
    run = arena.evaluate(*THINKING, *flags, policy=answering)
    assert run.code == 0, run.said
    return run


def again(arena: Arena, *flags: str, run: str = "again", **scripts: Any) -> Run:
    return arena.evaluate(f"--env.model_answers={arena.files().path}", *flags, run=run, **scripts)


def completions(files: RunFiles) -> list[list[Any]]:
    return [[sample[name] for name in FIELDS] for sample in files.samples]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--env.judge_model_name=another-judge",),
        ("--env.judge_protocol=arena_hard_v0.1",),
        (
            "--env.thinking_mode=True",
            "--env.thinking_opened_by_template=True",
            "--env.min_response_length=500",
        ),
    ],
    ids=lambda flags: flags[0],
)
def test_faults_stay_whatever_judges_and_whatever_settings_the_policy_has_here(
    arena: Arena, flags: tuple[str, ...]
) -> None:
    before = first(arena)
    assert [row[3] for row in completions(before.files)] == [
        None,
        "no_open_tag",
        None,
        "no_open_tag",
        None,
        None,
    ]
    run = again(arena, *flags, verdict=against_model)
    assert run.code == 0, run.said
    assert run.policy.requests == []
    assert completions(run.files) == completions(before.files)
    judged = {uid_of(body) for body in before.judge.bodies}
    assert judged == {"row-0", "row-2", "row-4", "row-5"}
    assert {uid_of(body) for body in run.judge.bodies} == judged, "no judge is asked about a fault"
    assert run.files.metrics["overall_winrate"] == 0 < before.files.metrics["overall_winrate"]
    shared = [{name: files.metrics[name] for name in RATES} for files in (run.files, before.files)]
    assert shared[0] == shared[1]


@pytest.mark.slow
def test_completions_of_a_stand_in_are_said_to_be_of_one(arena: Arena) -> None:
    assert (
        in_process(
            "evaluate",
            "--offline",
            f"--env.data_dir_to_save_evals={arena.path / 'run'}",
            *arena.flags,
        ).code
        == 0
    )
    for of, name in (("run", "again"), ("again", "and-again")):
        run = arena.evaluate(f"--env.model_answers={arena.path / of}", run=name)
        assert run.code == 0, run.said
        assert re.search("offline stand-in: .*no benchmark result", run.said)


@pytest.mark.slow
def test_digest_is_of_the_completions_and_no_others(arena: Arena) -> None:
    def digest(of: str, run: str) -> str:
        ended = arena.evaluate(f"--env.model_answers={arena.path / of}", run=run, verdict=tie)
        assert ended.code == 0, ended.said
        found: str = ended.files.report["config_general"]["answers_of"]["digest"]
        return found

    first(arena)
    once = digest("run", "once")
    assert digest("once", "twice") == once, "they are the same completions, judged again and again"
    path = arena.files().path / "samples.jsonl"
    path.write_text(path.read_text().replace('"thinking":"Hm."', '"thinking":"Hm!"', 1))
    assert digest("run", "thrice") != once


@pytest.mark.slow
def test_run_that_changes_while_it_is_judged_again_is_said(arena: Arena) -> None:
    before = first(arena)
    path = before.files.path / "samples.jsonl"

    def judging(request: Json, number: int) -> str:
        if number == 1:
            path.write_bytes(path.read_bytes()[::-1])
        return for_model(uid_of(request), True)

    run = again(
        arena,
        "--env.judge_max_concurrency=1",
        "--openai.num_requests_for_eval=1",
        judge_script=judging,
    )
    assert run.code == 2
    assert f"{path}: " in run.said and "has changed" in run.said
    assert "Traceback" not in run.said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            lambda path: (path / "samples.jsonl").write_text('{"uid": "row-0"}\n'),
            "samples.jsonl: none ",
        ),
        (lambda path: [entry.unlink() for entry in path.iterdir()], " no run directory: "),
        (lambda path: (path / "metrics.json").write_text("[]"), "metrics.json: expected an object"),
    ],
)
def test_damaged_run_is_one_line_that_says_what_is_wrong(
    arena: Arena, damage: Any, expected: str
) -> None:
    damage(first(arena).files.path)
    run = again(arena)
    assert run.code == 2
    assert expected in run.said and "Traceback" not in run.said
    assert run.judge.requests == run.policy.requests == []


def test_file_of_answers_may_have_the_name_of_a_runs_file(arena: Arena, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    rows = [{"uid": f"row-{number}", "answer": f"ANSWER to row-{number}"} for number in range(6)]
    path = write_lines(tmp_path / "mine" / "samples.jsonl", rows)
    run = arena.evaluate(f"--env.model_answers={path}")
    assert run.code == 0, run.said
    assert [sample["model_answer"] for sample in run.files.samples] == [
        row["answer"] for row in rows
    ]
    assert "answers_of" not in json.dumps(run.files.report)
