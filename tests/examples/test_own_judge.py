"""`examples/own_judge/language.py` and a line of the registry make a kind of judge, in a copy of the package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from examples.own_judge.language import (
    LanguageDetail,
    LanguageJudge,
    LanguageJudgeSettings,
    same_language,
)
from judgegym import OwnJudge, Status
from tests.command import ROOT, RunFiles, clean_environment
from tests.core.cli.command import judgegym

FOLDER = ROOT / "examples" / "own_judge"
MODULE = FOLDER / "language.py"
REGISTRY = "judgegym/judges/scorers/registry.py"
ROW = {"prompt": "Why is the sky blue?", "response": "The sky is blue because air scatters blue light."}
REQUEST = """
import asyncio
from aiohttp import ClientSession
from judgegym.server.asgi import RewardServer
from benchmarks.row_path import _request

async def ask():
    server = RewardServer(offline=True, judge="language")
    async with server.lifespan():
        await _request(server, "Why is the sky blue?")

asyncio.run(ask())
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the module, and its line."""
    house = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "judgegym", house / "judgegym", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(MODULE, house / "judgegym" / "judges" / "language.py")
    path = house / REGISTRY
    text = path.read_text(encoding="utf-8")
    for line, with_it in (
        (
            "from judgegym.judges import pairwise, peers",
            "from judgegym.judges import language, pairwise, peers",
        ),
        ('    "peer": peers.JUDGE,', '    "peer": peers.JUDGE,\n    "language": language.JUDGE,'),
    ):
        assert text.count(line) == 1
        text = text.replace(line, with_it)
    path.write_text(text)
    return house


def run(house: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = {"PYTHONPATH": f"{house}:{ROOT}"}
    return subprocess.run(
        [sys.executable, *words], cwd=house, env={**clean_environment(), **paths}, capture_output=True, text=True
    )


def test_it_is_a_module_of_120_lines() -> None:
    assert len(MODULE.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.slow
def test_rows_are_scored(house: Path) -> None:
    (house / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    words = ("-m", "judgegym", "score", "rows.jsonl", "--judge=language", "--offline", "--out=judged.jsonl")
    ended = run(house, *words)
    assert ended.returncode == 0, ended.stderr
    (judged,) = map(json.loads, (house / "judged.jsonl").read_text().splitlines())
    assert (judged["judge/status"], judged["judge/score"], judged["judge/label"]) == ("ok", 1.0, "same")
    assert judged["judge/explanation"] == f'"{ROW["response"][:40]}"'


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_a_policy_is_judged(house: Path, verb: str) -> None:
    (house / "asked.jsonl").write_text("".join(json.dumps({"prompt": f"Why is {it} blue?"}) + "\n" for it in "ab"))
    flags = {
        "evaluate": ("--env.eval_dataset=asked.jsonl", "--env.data_dir_to_save_evals=run"),
        "process": ("--env.train_dataset=asked.jsonl", "--env.total_steps=2"),
    }[verb]
    ended = run(house, "-m", "judgegym", verb, "prompts", "--env.judge=language", "--offline", *flags)
    assert ended.returncode == 0, ended.stderr
    if verb == "evaluate":
        files = RunFiles(house / "run")
        labels = [sample["label"] for sample in files.samples]
        assert len(labels) == 2 and set(labels) <= {"same", "other"}
        assert files.metrics["mean_score"] == labels.count("same") / 2
    else:
        groups = [json.loads(line) for line in (house / "data" / "prompts.jsonl").read_text().splitlines()]
        assert len(groups) == 2 and all(0.0 <= score <= 1.0 for group in groups for score in group["scores"])


@pytest.mark.slow
def test_help_and_server_know_it(house: Path) -> None:
    shown = run(house, "-m", "judgegym", "score", "--help")
    assert "language: is it in the question's language" in " ".join(shown.stdout.split())
    ended = run(house, "-c", REQUEST)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_its_environment_asks_texts_and_conversations(tmp_path: Path, verb: str) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__", "runs", "data"))
    lines = (folder / "language_environment.py").read_text(encoding="utf-8").splitlines()
    modules = {line.split()[1] for line in lines if line.startswith(("from ", "import "))}
    assert len(lines) <= 40 and len(modules) <= 3
    to_make = {"evaluate": "--env.data_dir_to_save_evals=run", "process": "--env.total_steps=3"}[verb]
    ended = judgegym(verb, "language_environment.py", "--offline", to_make, cwd=folder)
    assert ended.code == 0, ended.err
    if verb == "evaluate":
        samples = RunFiles(folder / "run").samples
        assert [sample["status"] for sample in samples] == ["ok"] * 3
        assert samples[2]["question"].startswith("user: Nenne eine Primzahl.\n\nassistant: Sieben.")
    else:
        groups = [json.loads(line) for line in (folder / "data" / "language.jsonl").read_text().splitlines()]
        assert len(groups) == 3 and all(0.0 <= score <= 1.0 for group in groups for score in group["scores"])


def test_it_judges_in_a_notebook() -> None:
    own = partial(LanguageJudge, LanguageJudgeSettings())
    with OwnJudge(own, offline=True, offline_prompts=[f"{MODULE}:PROMPT"]) as judge:
        table = judge.judge_sync(ROW["prompt"], [ROW["response"], ""])
    assert [judgment.status for judgment in table] == [Status.OK, Status.INVALID_COMPLETION]
    assert isinstance(table[0].detail, LanguageDetail) and table[0].detail.same


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('"Der Himmel"\n\nLANGUAGE: other', False),
        ("LANGUAGE: other\n**LANGUAGE: same**", True),
        ("The answer says LANGUAGE: same, but", None),
        ("LANGUAGE: same\nor rather language = other", None),
        ("LANGUAGE: both", None),
    ],
)
def test_verdict_is_read_or_there_is_none(text: str, verdict: bool | None) -> None:
    assert same_language(text) == verdict
