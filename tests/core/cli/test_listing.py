"""`judgegym list`: what each environment needs, as its class declares it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from judgegym.cli.environments import built_in_modules, load_environment
from judgegym.judges.config.extras import TRAINERS
from tests.command import ROOT
from tests.core.cli.command import judgegym

HEAVY = (
    "atroposlib",
    "datasets",
    "matplotlib",
    "numpy",
    "rich",
    "scipy",
    "sklearn",
    "tiktoken",
    "transformers",
)


def parts(said: str) -> dict[str, str]:
    """The paragraph of each environment, on one line."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in said.split("\n\n"))
    return {paragraph.partition(":")[0]: paragraph for paragraph in paragraphs}


def test_list_shows_every_environment_with_its_data_and_endpoints_within_80_columns(
    tmp_path: Path,
) -> None:
    ended = judgegym("list", cwd=tmp_path)
    assert ended.code == 0
    assert [line for line in ended.out.splitlines() if len(line) > 80] == []
    listed = parts(ended.out)
    assert [*listed] == [*built_in_modules(), "judge-server", "extras"]
    for name in built_in_modules():
        declared = load_environment(name)
        assert [
            setting
            for setting in declared.spec.offline_samples
            if f"--env.{setting} " not in listed[name]
        ] == []
        assert f"presets --config {name}_evaluate --config {name}_train" in listed[name]
        assert "evaluate, serve, process" in listed[name] and "OPENAI_API_KEY" in listed[name]
    assert "--config reward_server_group --config reward_server_rubric" in listed["judge-server"]
    assert "NousResearch/arena-hard-v1-prompts" in listed["arena_hard"]
    assert (
        "ANTHROPIC_API_KEY" in listed["arena_hard"] and "is the judge)" not in listed["arena_hard"]
    )
    assert "ANTHROPIC_API_KEY" not in listed["pairwise_judgement"]
    assert "is the judge)" in listed["pairwise_judgement"]
    assert "ANTHROPIC_API_KEY (serve, process)" in listed["self_critique"]
    assert "--env.candidates (a list) --env.judges (a list)" in listed["self_critique"]
    trainers = listed["extras"].partition(" trainers ")[2].replace(",", "").split()
    assert {*trainers} - {"not", "installed:"} == {*TRAINERS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "word",
    ["arena-hard", str(ROOT / "examples" / "own_environment" / "constitution_environment.py")],
)
def test_list_of_one_environment_shows_it_alone(word: str, tmp_path: Path) -> None:
    ended = judgegym("list", word, cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    first = ended.out.split("\n\n")[0].replace("\n  ", "")  # a long path goes on in the next line
    assert first.startswith(f"{word}:") and ended.out.count("policy  ") == 1


@pytest.mark.slow
def test_list_loads_no_heavy_package(tmp_path: Path) -> None:
    code = "import sys; from judgegym.cli.commands import main; main(['list'])"
    code += f"; print('loaded', *(name for name in {HEAVY!r} if name in sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert ended.stdout.rpartition("loaded")[2].split() == []
