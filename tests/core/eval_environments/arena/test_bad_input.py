"""Whatever is wrong with settings, data or run directory is one message and exit code 2, and nothing is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arena import Arena
from tests.command import Ended, as_process, in_process, write_lines
from tests.scripted import Json

PROMPT = {"uid": "row-0", "prompt": "Why?", "category": "math", "cluster": "c"}
ANSWER = {"uid": "row-0", "answer": "BASELINE answer to row-0"}


def refused(ended: Ended, *words: str, lines: int = 1) -> None:
    """Exit code 2, and one message that says all of this."""
    assert ended.code == 2, ended.said
    assert "Traceback" not in ended.said
    assert ended.out == ""
    assert len(ended.err.splitlines()) == lines, ended.err
    for word in words:
        assert word in ended.err


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (
            "--env.judge_temprature=0",
            ["--env.judge_temprature", "did you mean --env.judge_temperature?"],
        ),
        ("--env.judge_temperature=-1", ["--env.judge_temperature", "greater than or equal to 0"]),
        (
            "--env.judge_protocol=five",
            ["--env.judge_protocol", "'three_way' or 'arena_hard_v0.1'", "'five'"],
        ),
        ("--limit=0", ["--limit", "greater than or equal to 1"]),
        (
            "--env.judge_base_url=localhost:8000/v1",
            ["--env.judge_base_url", "'localhost:8000/v1'", "not a URL"],
        ),
        ("--env.model_answers=runs/none", ["runs/none", "no such file", "run directory"]),
        ("--env.train_prompt_dataset=none.jsonl", ["none.jsonl", "no such file"]),
        ("--env.eval_baseline_dataset=none.csv", ["none.csv", "no such file"]),
        ("--env.data_dir_to_save_evals=/dev/null/x", ["/dev/null/x", "Not a directory"]),
        ("--env.judge_cache=/dev/null/x", ["judge_cache", "/dev/null/x"]),
        ('--faults={"999": 0.1}', ["--faults", "'999'"]),
        ('--faults={"500": 0.6, "drop": 0.6}', ["--faults", "at most 1"]),
        ("--faults=often", ["--faults", "command line", "JSON"]),
        ('--faults={"latency_ms": -1}', ["--faults", "latency_ms"]),
    ],
)
def test_a_wrong_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(in_process("evaluate", "--offline", flag), *words)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.slow
def test_a_dataset_that_the_hub_cannot_give(tmp_path: Path) -> None:
    argv = [
        "evaluate",
        "--env.judge_base_url=http://127.0.0.1:9/v1",
        "--openai.base_url=http://127.0.0.1:9/v1",
    ]
    variables = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "home"),
    }  # read when the library is imported
    ended = as_process(*argv, cwd=tmp_path, env=variables, fresh=True)
    refused(ended, "NousResearch/arena-hard-v1-prompts", "Hugging Face hub", "'train'", ".jsonl")


@pytest.mark.parametrize(
    ("flags", "env", "words"),
    [
        ((), {}, ["ANTHROPIC_API_KEY", "api.anthropic.com", "--env.judge_api_key_env"]),
        (
            (),
            {"ANTHROPIC_API_KEY": "sk-a"},
            ["OPENAI_API_KEY", "api.openai.com", "--openai.api_key_env"],
        ),
        (
            ("--env.judge_api_key_env=MINE",),
            {"ANTHROPIC_API_KEY": "sk-a"},
            ["MINE", "api.anthropic.com"],
        ),
        (
            ("--env.judge_base_url=https://judge.example/v1",),
            {"ANTHROPIC_API_KEY": "sk-a"},
            ["judge.example", "--env.judge_api_key_env"],
        ),
        (
            (
                "--env.judge_base_url=http://localhost:1/v1",
                "--openai.base_url=http://localhost:1,http://other.example",
            ),
            {"OPENAI_API_KEY": "sk-a"},
            ["other.example", "--openai.api_key_env"],
        ),
    ],
    ids=["judge", "policy", "another variable", "another judge", "another policy"],
)
def test_a_missing_key(
    arena: Arena, flags: tuple[str, ...], env: dict[str, str], words: list[str]
) -> None:
    """A key goes to no host but its own: the variable of one is not good enough for another."""
    run = arena.path / "run"
    ended = in_process(
        "evaluate", *arena.flags, *flags, f"--env.data_dir_to_save_evals={run}", env=env
    )
    # A judge whose key is there says first in which form it is asked, and at which price.
    refused(ended, *words, lines=1 + ended.err.count(" INFO "))
    assert not run.exists()


@pytest.mark.parametrize(
    ("prompts", "answers", "words"),
    [
        (
            [PROMPT, {"prompt": "Why not?"}],
            [ANSWER],
            ["prompts.jsonl, row 2", "an id in uid", "found: prompt\n"],
        ),
        (
            [{"uid": "row-0", "text": "Why?"}],
            [ANSWER],
            ["prompts.jsonl, row 1", "text in prompt", "uid, text"],
        ),
        (
            [PROMPT, {"uid": "row-0", "prompt": "Again?"}],
            [ANSWER],
            ["prompts.jsonl, row 2", "'row-0'", "row 1"],
        ),
        ([PROMPT], [ANSWER, ANSWER], ["baseline.jsonl, row 2", "'row-0'", "row 1"]),
        (
            [PROMPT],
            [{"uid": "row-0", "text": "?"}],
            ["baseline.jsonl, row 1", "text in answer", "uid, text"],
        ),
        (
            [PROMPT],
            [{"uid": "row-9", "answer": "BASELINE"}],
            ["baseline.jsonl", "1 prompts", "prompts.jsonl"],
        ),
    ],
    ids=["no id", "no prompt", "id twice", "answer twice", "no answer", "no baseline at all"],
)
def test_wrong_data(
    arena: Arena, prompts: list[Json], answers: list[Json], words: list[str]
) -> None:
    for name, rows in (("prompts.jsonl", prompts), ("baseline.jsonl", answers)):
        write_lines(arena.path / name, rows)
    run = arena.evaluate()
    refused(run.ended, *words)
    assert run.judge.requests == run.policy.requests == []
    assert not run.files.path.exists()


@pytest.mark.slow
def test_prompts_without_a_baseline_are_left_out_and_that_is_said_in_one_line(arena: Arena) -> None:
    uids = ["328c149ed45a41c0b9d6f14659e63599", "row-1", "row-2", "row-3", "row-4"]
    write_lines(
        arena.path / "prompts.jsonl", [{"uid": uid, "prompt": f"Question of {uid}"} for uid in uids]
    )
    answered = [{"uid": uid, "answer": f"BASELINE answer to {uid}"} for uid in ("row-1", "row-4")]
    write_lines(arena.path / "baseline.jsonl", answered)
    run = arena.evaluate()
    assert run.code == 0, run.said
    assert [sample["uid"] for sample in run.files.samples] == ["row-1", "row-4"]
    (said,) = (line for line in run.ended.err.splitlines() if "baseline" in line)
    assert "3 of 5 prompts " in said and f"such as '{uids[0]}'" in said
    assert run.files.metrics["total_samples"] == 2


def test_answers_from_a_file_must_be_there_for_each_row(arena: Arena) -> None:
    answers = write_lines(
        arena.path / "mine.jsonl", [{"uid": f"row-{n}", "answer": "mine"} for n in (0, 1, 2, 5)]
    )
    run = arena.evaluate(f"--env.model_answers={answers}")
    refused(run.ended, "mine.jsonl", "2 of 6 rows", "'row-3'")
    assert run.judge.requests == []
