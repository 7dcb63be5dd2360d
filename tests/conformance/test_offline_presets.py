"""`--offline` with each preset of `configs/`: no endpoint is asked but stand-ins, and the hub is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from judgegym.engine.settings.verbs import Verb
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.command import ROOT, in_process

ENVIRONMENTS: list[type[JudgedEnv[Any, Any, Any]]] = [
    ArenaHardEnv, PairwiseJudgementEnv, SelfCritiqueEnv, RubricAbsoluteEnv, AspectCritiqueEnv, MTBenchEnv
]  # fmt: skip
RUNS: dict[str, tuple[Verb, tuple[str, ...]]] = {
    "evaluate": ("evaluate", ("--limit=2",)),
    "train": (
        "process",
        ("--env.total_steps=1", "--env.group_size=2", "--env.ensure_scores_are_not_same=False"),
    ),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int | None]]:
    """Hosts and ports of all requests."""
    hosts: set[tuple[str, int | None]] = set()
    request = aiohttp.ClientSession._request

    async def recorded(self: aiohttp.ClientSession, method: str, url: Any, **options: Any) -> Any:
        parts = urlsplit(str(url))
        hosts.add((parts.hostname or "", parts.port))
        return await request(self, method, url, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", recorded)
    return hosts


@pytest.mark.parametrize("purpose", RUNS)
@pytest.mark.parametrize("env_type", ENVIRONMENTS, ids=lambda env_type: env_type.spec.name)
def test_offline_run_with_a_preset_asks_stand_ins_only_and_says_what_it_overrides(
    env_type: type[JudgedEnv[Any, Any, Any]],
    purpose: str,
    asked: set[tuple[str, int | None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    preset = ROOT / "configs" / f"{env_type.spec.name}_{purpose}.yaml"
    verb, flags = RUNS[purpose]
    # A preset with only the default endpoint, and an environment that names two more.
    names = {
        "JUDGEGYM_OPENAI__BASE_URL": "http://127.0.0.1:9/v1",
        "JUDGEGYM_ENV__JUDGE_BASE_URL": "http://127.0.0.1:9/v1",
    }
    ended = in_process(
        verb, "--offline", f"--config={preset}", *flags, env=names, env_type=env_type
    ).successful()
    assert {host for host, _ in asked} == {"127.0.0.1"}
    assert not {port for _, port in asked} & {9, 8000, 9001}
    said = [line for line in ended.err.splitlines() if "--offline overrides" in line]
    assert len(said) == 2, "one line for the variables, one for the file"
    assert "openai.base_url" in said[0] and "(environment variable)" in said[0]
    assert str(preset) in said[1]
    assert "no benchmark result" in ended.out
