"""`judgegym` as a whole: its commands, its help, and what a wrong word says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from judgegym.cli.commands import COMMANDS
from judgegym.cli.environments import built_in_modules
from tests.core.cli.command import PROGRAM, judgegym

ENVIRONMENTS = {
    "arena_hard",
    "mt_bench",
    "pairwise_judgement",
    "aspect_critique",
    "self_critique",
    "rubric_absolute",
    "rubric_checklist",
    "prompts",
}
HEAVY = ("aiohttp", "argparse", "numpy", "pydantic", "rich", "yaml")


def test_built_in_environments_are_those_of_the_packages() -> None:
    assert set(built_in_modules()) == ENVIRONMENTS


@pytest.mark.slow
def test_help_names_every_command_and_the_exit_codes_within_80_columns(tmp_path: Path) -> None:
    ended = judgegym("--help", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    names = [*COMMANDS, "audit", "attack", "label", "replay"]
    assert [name for name in names if f"\n  {name} " not in ended.out] == []
    assert "cannot be used" not in ended.out
    assert {"0", "1", "2", "130", "143", "141"} - set(ended.out.split()) == set()
    shown = ended.out.replace(PROGRAM, "judgegym")
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert judgegym("help", cwd=tmp_path).out == ended.out


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["evaluate", "--help"], ["evaluate", "no_such"]]
)
def test_help_and_errors_load_no_heavy_package(words: list[str], tmp_path: Path) -> None:
    code = f"import sys; from judgegym.cli.commands import main; main({words!r})"
    code += f"; print('loaded', *(name for name in {HEAVY!r} if name in sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert ended.stdout.rpartition("loaded")[2].split() == []


@pytest.mark.slow
def test_version_is_that_of_the_installation(tmp_path: Path) -> None:
    ended = judgegym("--version", cwd=tmp_path)
    assert ended.code == 0
    name, version = ended.out.split()
    assert name == "judgegym" and (version[0].isdigit() or version == "unknown")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "serve", "process"])
def test_help_of_a_verb_names_every_environment(verb: str, tmp_path: Path) -> None:
    ended = judgegym(verb, "--help", cwd=tmp_path)
    assert ended.code == 0
    assert set(ended.out.split()) >= ENVIRONMENTS


@pytest.mark.slow
def test_help_of_an_environments_verb_is_that_of_its_settings(tmp_path: Path) -> None:
    ended = judgegym("serve", "arena-hard", "--help", cwd=tmp_path)
    assert ended.code == 0
    assert ended.out.startswith(f"usage: {PROGRAM} serve arena-hard [--name=value …]\n")
    assert "--env.train_prompt_dataset" in ended.out and "--env.eval_max_tokens" not in ended.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected a command"),
        (["evalute", "arena_hard"], "no command 'evalute', did you mean evaluate?"),
        (["zzz"], "no command 'zzz'\n"),
        (["arena-hard", "evaluate"], f"{PROGRAM} evaluate|serve|process arena-hard …"),
        (["evaluate"], "environment after evaluate, found nothing"),
        (["evaluate", "--offline"], "environment after evaluate, found '--offline'"),
        (["evaluate", "arena-hrad"], "no environment 'arena-hrad', did you mean arena_hard?"),
        (["list", "rubric"], "no environment 'rubric'"),
        (
            ["process", "arena_hard", "--env.sed=1"],
            "unknown flag --env.sed, did you mean --env.seed?",
        ),
        (["list", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["judge-server", "--nonsense"], "unknown flag --nonsense"),
        (
            ["offline-server", "--nonsense"],
            f"{PROGRAM} offline-server: unrecognized arguments: --nonsense",
        ),
    ],
)
def test_wrong_word_is_said_with_exit_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    ended = judgegym(*words, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err and "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []
