"""The documents' commands, run as they stand there, by `python` in a folder with the documents' scripts.

Data sets that this machine cannot load, and the rollout API's port, come from environment variables: they are below
the command line, which stays as it is.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.command import ROOT, Ended, Started
from tests.conformance.specification.promises import COMMANDS, PROMISED
from tests.conformance.specification.providers import KEYS, Providers
from tests.trainer import training

SAMPLES = ROOT / "judgegym" / "data" / "samples"
DATA = {
    "pairwise_judgement_environment.py evaluate": {"EVAL_DATASET": "pairwise"},
    "pairwise_judgement_environment.py serve": {"TRAIN_DATASET": "pairwise", "EVAL_DATASET": "pairwise"},
    "arena_hard_environment.py evaluate": {
        "TRAIN_PROMPT_DATASET": "arena_hard",
        "TRAIN_BASELINE_DATASET": "arena_hard_baseline",
    },
    "arena_hard_environment.py serve": {
        "TRAIN_PROMPT_DATASET": "arena_hard",
        "TRAIN_BASELINE_DATASET": "arena_hard_baseline",
    },
}
"""The bundled samples in place of the data sets that a command loads from the hub, by script and verb."""
EVALUATIONS = [name for name, command in COMMANDS.items() if " evaluate" in command and "base_url" not in command]
SERVED = [name for name, command in COMMANDS.items() if " serve" in command and "/path/to" not in command]
Variables = Mapping[str, str]


def folder(path: Path) -> Path:
    """A folder with the documents' scripts, so that relative paths of a command stay in it."""
    for promised in PROMISED:
        script = ROOT / promised.script
        (path / script.name).symlink_to(script)
    return path


def endpoints(command: str, stand_in_url: str) -> Variables:
    """The stand-in as the policy, and as the judge where there is one."""
    judge = {"JUDGEGYM_ENV__JUDGE_BASE_URL": stand_in_url} if "arena_hard" in command else {}
    return {"JUDGEGYM_OPENAI__BASE_URL": stand_in_url, **judge}


def started(command: str, path: Path, variables: Variables, *, fresh: bool = False) -> Started:
    """A command as it stands, split as a shell does."""
    python, *words = shlex.split(command)
    assert python == "python"
    data = {
        f"JUDGEGYM_ENV__{setting}": str(SAMPLES / f"{name}.jsonl")
        for setting, name in DATA[" ".join(words[:2])].items()
    }
    return Started(*words, cwd=path, env={**data, **variables}, fresh=fresh)


def check_evaluated(command: str, path: Path, ended: Ended) -> None:
    """The command ended well, and its samples are where it says."""
    assert "Traceback" not in ended.said
    assert ended.code == 0, ended.said
    words = shlex.split(command)
    if "--env.data_dir_to_save_evals" in words:
        run = path / words[words.index("--env.data_dir_to_save_evals") + 1]
        samples = [json.loads(line) for line in (run / "samples.jsonl").read_text("utf-8").splitlines()]
        assert len({sample["category"] for sample in samples}) == (2 if "eval_categories" in command else 6)


@pytest.mark.slow("deterministic", "debug")
@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations(name: str, tmp_path: Path, stand_in_url: str) -> None:
    command = COMMANDS[name]
    with started(command, folder(tmp_path), endpoints(command, stand_in_url)) as running:
        check_evaluated(command, tmp_path, running.ended())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rewardbench", "performance"])
async def test_evaluations_by_the_hosts_that_they_name(name: str, tmp_path: Path, stand_in_url: str) -> None:
    command = COMMANDS[name]
    async with Providers(stand_in_url, tmp_path) as providers:
        with started(command, folder(tmp_path), providers.variables, fresh=True) as running:
            ended = await asyncio.to_thread(running.ended)
    check_evaluated(command, tmp_path, ended)
    policy_key = "sk-YOURAPIKEY" if "--openai.api_key" in command else KEYS["OPENAI_API_KEY"]
    judge = {("api.anthropic.com", KEYS["ANTHROPIC_API_KEY"])} if "arena_hard" in command else set()
    assert {(host, key) for host, key, _ in providers.requests} == {("api.openai.com", policy_key)} | judge


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
async def test_training(name: str, tmp_path: Path, stand_in_url: str) -> None:
    await _trained(COMMANDS[name], tmp_path, stand_in_url)


@pytest.mark.slow
async def test_training_with_data_of_ones_own(tmp_path: Path, stand_in_url: str) -> None:
    command = COMMANDS["own data"]
    variables = {**endpoints(command, stand_in_url), "JUDGEGYM_ENV__TOKENIZER_NAME": str(BUNDLED_TOKENIZER)}
    with started(command, folder(tmp_path), variables) as running:
        ended = await asyncio.to_thread(running.ended)
    assert ended.code == 2
    assert "/path/to/custom_prompts.jsonl" in ended.err
    assert "Traceback" not in ended.said
    for placeholder, name in (("prompts", "arena_hard"), ("baselines", "arena_hard_baseline")):
        copied = shutil.copy(SAMPLES / f"{name}.jsonl", tmp_path)
        command = command.replace(f"/path/to/custom_{placeholder}.jsonl", str(copied))
    other = tmp_path / "other"
    other.mkdir()
    await _trained(command, other, stand_in_url)


async def _trained(command: str, path: Path, stand_in_url: str) -> None:
    """Run a command until its trainer has had a batch and the command has ended."""
    flags = (word.partition("=") for word in shlex.split(command))
    size = next((int(value) for name, _, value in flags if name == "--env.group_size"), 4)
    async with training(size) as trainer:
        variables = {
            **endpoints(command, stand_in_url),
            "JUDGEGYM_ENV__ROLLOUT_SERVER_URL": trainer.url,
            "JUDGEGYM_ENV__TOKENIZER_NAME": str(BUNDLED_TOKENIZER),
            "JUDGEGYM_ENV__ENSURE_SCORES_ARE_NOT_SAME": "False",
            "JUDGEGYM_ENV__TOTAL_STEPS": "1",
        }
        with started(command, folder(path), variables) as running:
            taking = asyncio.create_task(trainer.take())
            ended = await asyncio.to_thread(running.ended)
    assert ended.code == 0, ended.said
    ((group,),) = await taking
    assert len(group["scores"]) == size
