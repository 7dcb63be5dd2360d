"""The folder `examples/own_environment`, copied out of the checkout: its tests and its README's commands run there."""

from __future__ import annotations

import asyncio
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
COMMANDS = {command.words[0]: command.words[1:] for command in _COMMANDS if command.program == "judgegym"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What `cp -r` makes of the folder, without what runs have left in it."""
    left = shutil.ignore_patterns("__pycache__", "runs", "data", "*.sqlite")
    return Path(shutil.copytree(FOLDER, tmp_path / "constitution", ignore=left))


def test_copy_passes_its_own_tests_where_the_checkout_is_not_on_the_path(copy: Path) -> None:
    variables = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    ended = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)
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
        flags = (f"--env.rollout_server_url={trainer.url}", "--env.group_size=4", "--env.total_steps=2")
        serving = asyncio.create_task(asyncio.to_thread(judgegym, "serve", *COMMANDS["serve"], *flags, cwd=copy))
        batch, _ = await trainer.take(2)
        assert len(batch) == 2 and all(0 <= score <= 1 for group in batch for score in group["scores"])
        ended = await serving
    assert ended.code == 0, ended.err


def test_settings_file_of_the_copy_is_understood_by_every_verb(copy: Path) -> None:
    for verb in ("evaluate", "process", "serve"):
        words = ("constitution_environment.py", "--config", "constitution.yaml", "--show_config=changed")
        ended = judgegym(verb, *words, cwd=copy, env={"ANTHROPIC_API_KEY": "k"})
        assert ended.code == 0 and "constitution.yaml" in ended.out, ended.said
