"""The command that resumes a run: what was given, the interpreter in use, no secrets."""

import shlex
import sys

import pytest

from judgegym.environments.command_line.arguments import drop_retry_failed, make_resume_command
from judgegym.environments.command_line.program import CommandLine, Program
from tests.core.engine.loading import loaded_from

KEY = "sk-very-secret"
ONE = "http://127.0.0.1:1/v1"


@pytest.fixture
def _as_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["eval_environments/my env.py", "evaluate"])


def typed(*settings: str) -> CommandLine:
    return CommandLine(Program.from_script(), "evaluate", settings)


RUN = "--env.data_dir_to_save_evals=runs/x"


@pytest.mark.usefixtures("_as_a_script")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([RUN], [RUN, "--resume"]),
        ([RUN, "--resume"], [RUN, "--resume"]),
        (["--resume", RUN], ["--resume", RUN]),
        (
            ["--env.data_dir_to_save_evals", "a b/$x"],
            ["--env.data_dir_to_save_evals", "a b/$x", "--resume"],
        ),
        (
            [RUN, "--env.custom_system_prompt=It's `x`"],
            [RUN, "--env.custom_system_prompt=It's `x`", "--resume"],
        ),
        (
            [RUN, f"--env.judge_base_url=http://user:{KEY}@127.0.0.1:9/v1"],
            [RUN, "--env.judge_base_url=http://127.0.0.1:9/v1", "--resume"],
        ),
    ],
)
def test_resume_command_is_the_given_one_with_directory_and_flag(
    given: list[str], expected: list[str]
) -> None:
    command = make_resume_command(loaded_from(*given), typed(*given))
    assert shlex.split(command) == [
        sys.executable,
        "eval_environments/my env.py",
        "evaluate",
        *expected,
    ]


@pytest.mark.usefixtures("_as_a_script")
@pytest.mark.parametrize(
    ("given", "expected", "left_out"),
    [
        ([RUN, f"--env.judge_api_key={KEY}"], [RUN], "--env.judge_api_key"),
        ([RUN, "--env.judge_api_key", KEY], [RUN], "--env.judge_api_key"),
        (
            ["--openai.api_key=e", RUN, f"--env.judge_api_key={KEY}"],
            [RUN],
            "--openai.api_key and --env.judge_api_key",
        ),
        (
            ["--openai.api_key", "EMPTY", RUN, "--openai.model_name=EMPTY-1"],
            [RUN, "--openai.model_name=EMPTY-1"],
            "--openai.api_key",
        ),
        (
            [
                RUN,
                f'--openai.replicas=[{{"base_url": "{ONE}", "api_key": "{KEY}", "model_name": '
                f'"m"}}]',
            ],
            [RUN, f'--openai.replicas=[{{"base_url":"{ONE}","model_name":"m"}}]'],
            "the keys of --openai.replicas",
        ),
        ([RUN, f'--env={{"judge_api_key": "{KEY}"}}'], [RUN, "--env={}"], "the keys of --env"),
        (
            [RUN, "--env", f'{{"judge_api_key": "{KEY}"}}'],
            [RUN, "--env", "{}"],
            "the keys of --env",
        ),
    ],
)
def test_resume_command_leaves_keys_out_and_says_so(
    given: list[str], expected: list[str], left_out: str
) -> None:
    """A placeholder would be pasted, and sent as a key."""
    command, hint = make_resume_command(loaded_from(*given), typed(*given)).splitlines()
    assert shlex.split(command)[2:] == ["evaluate", *expected, "--resume"]
    assert hint.startswith(f"  (with {left_out} ") and hint.endswith("not shown)")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--resume", "--retry_failed", RUN], ["--resume", RUN]),
        (["--retry_failed=True", RUN], [RUN]),
        (["--config=retry.yaml", RUN], ["--config=retry.yaml", RUN, "--retry_failed=False"]),
    ],
)
def test_command_that_finishes_a_run_retries_not_only_failed_rows(
    given: list[str], expected: list[str]
) -> None:
    assert drop_retry_failed(typed(*given)).settings == expected


def test_resume_command_of_a_console_script_is_the_one_that_was_typed() -> None:
    program = Program(("judgegym",), ("bin/judgegym",), ("my env.py",))
    command = make_resume_command(loaded_from(RUN), CommandLine(program, "evaluate", [RUN]))
    assert command == f"bin/judgegym evaluate 'my env.py' {RUN} --resume"
