"""The folder `examples/own_environment`, copied out of the checkout: its tests and its README's commands run there."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT, RunFiles, clean_environment
from tests.core.cli.command import judgegym
from tests.docs.blocks import blocks
from tests.trainer import training

FOLDER = ROOT / "examples" / "own_environment"
_COMMANDS = [command for block in blocks(FOLDER / "README.md") for command in block.commands()]
COMMANDS = {
    command.words[0]: command.words[1:] for command in _COMMANDS if command.program == "judgegym"
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What `cp -r` makes of the folder, without what runs have left in it."""
    left = shutil.ignore_patterns("__pycache__", "runs", "data", "*.sqlite")
    return Path(shutil.copytree(FOLDER, tmp_path / "constitution", ignore=left))


def test_copy_passes_its_own_tests_where_the_checkout_is_not_on_the_path(copy: Path) -> None:
    variables = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    ended = subprocess.run(
        command, cwd=copy, env=variables, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0 and " passed" in ended.stdout, ended.stdout + ended.stderr


def test_copy_is_evaluated_and_processed_by_the_commands_of_its_readme(copy: Path) -> None:
    for verb in ("evaluate", "process"):
        ended = judgegym(verb, *COMMANDS[verb], cwd=copy)
        assert ended.code == 0, ended.err
        assert "reward" in ended.out
    (run,) = (copy / "runs").iterdir()
    assert len(RunFiles(run).samples) == 8 and RunFiles(run).metrics["broken_1"] >= 0
    assert len((copy / "data" / "constitution.jsonl").read_bytes().splitlines()) == 4


async def test_copy_serves_a_trainer_by_the_command_of_its_readme(copy: Path) -> None:
    async with training(8) as trainer:
        flags = (
            f"--env.rollout_server_url={trainer.url}",
            "--env.group_size=4",
            "--env.total_steps=2",
        )
        serving = asyncio.create_task(
            asyncio.to_thread(judgegym, "serve", *COMMANDS["serve"], *flags, cwd=copy)
        )
        batch, _ = await trainer.take(2)
        assert len(batch) == 2 and all(
            0 <= score <= 1 for group in batch for score in group["scores"]
        )
        ended = await serving
    assert ended.code == 0, ended.err


def test_settings_file_of_the_copy_is_understood_by_every_verb(copy: Path) -> None:
    for verb in ("evaluate", "process", "serve"):
        words = (
            "constitution_environment.py",
            "--config",
            "constitution.yaml",
            "--show_config=changed",
        )
        ended = judgegym(verb, *words, cwd=copy, env={"ANTHROPIC_API_KEY": "k"})
        assert ended.code == 0 and "constitution.yaml" in ended.out, ended.said


def test_whole_environment_takes_31_lines_and_one_import_line() -> None:
    lines = (FOLDER / "brief_environment.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 31
    assert [line for line in lines if "import " in line] == [lines[2]]
    assert lines[2] == "from judgegym import environments as envs"


@pytest.mark.parametrize(
    "judge", [(), ("--env.judge=aspect", "--env.aspects=coherence"), ("--env.judge=short.yaml",)]
)
def test_whole_environment_is_judged_by_any_judge_and_its_rule(
    copy: Path, judge: tuple[str, ...]
) -> None:
    (copy / "short.yaml").write_text(
        "prompt: |\n  Is it short?\n\n  {response}\nscale: [1, 5]\nverdict: {within: brackets}\n",
        encoding="utf-8",
    )
    scores: list[list[float]] = []
    for words in ("1000", "1"):
        flags = (*judge, f"--env.most_words={words}", f"--env.data_dir_to_save_evals=run-{words}")
        ended = judgegym("evaluate", "brief_environment.py", "--offline", *flags, cwd=copy)
        assert ended.code == 0, ended.err
        scores.append([sample["score"] for sample in RunFiles(copy / f"run-{words}").samples])
    assert (
        len(scores[0]) == 8 and any(scores[0]) and scores[1] == [score / 2 for score in scores[0]]
    )
    ended = judgegym(
        "process", "brief_environment.py", "--offline", *judge, "--env.total_steps=2", cwd=copy
    )
    assert ended.code == 0, ended.err
    groups = [
        json.loads(line) for line in (copy / "data" / "brief.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(groups) == 2 and all(
        0 <= score <= 1 for group in groups for score in group["scores"]
    )


def test_row_that_the_chosen_judge_cannot_judge_is_told_before_the_first_call(copy: Path) -> None:
    ended = judgegym(
        "evaluate", "brief_environment.py", "--offline", "--env.judge=checklist", cwd=copy
    )
    assert (ended.code, ended.out) == (2, "")
    assert re.search(r"questions\.jsonl: the row thanks: criteria: .*are none", ended.err)
