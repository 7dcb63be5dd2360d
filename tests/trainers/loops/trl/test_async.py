"""TRL's asynchronous trainer: its `AsyncRolloutWorker`, started for real, and its trainer's own loss."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.core.server.running import running
from tests.scripted import Json
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
from tests.trainers.loops.trl.asked import TEXTS as ANSWERS
from tests.trainers.loops.trl.asked import environment, environments_rewards
from tests.trainers.loops.trl.test_loss import HALVES, SCORES, TEXTS, judge
from tests.trainers.plugins.scoring_server import answering

END = 258
"""The token of the bundled tokenizer that ends a text."""


@asynccontextmanager
async def sampling(texts: Sequence[str]) -> AsyncIterator[str]:
    """An endpoint in the place of vLLM, which writes these texts in turn."""
    following = itertools.cycle(texts)

    async def answer(request: web.Request) -> web.Response:
        ids = [*next(following).encode(), END]
        choice = {"token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids)}}
        return web.json_response({"choices": [choice]})

    async with answering(answer, path="/v1/completions") as url:
        yield url


def normalized(scores: dict[str, float]) -> dict[str, float]:
    """The advantages of this trainer."""
    mean, deviation = statistics.fmean(scores.values()), statistics.pstdev(scores.values())
    return {text: (score - mean) / (deviation + 1e-8) for text, score in scores.items()}


def check(result: Json, scores: dict[str, float]) -> None:
    """Check that what has a score is trained by it, and that the other texts add nothing to the loss."""
    expected = normalized(scores)
    assert sorted(result["texts"]) == sorted(TEXTS)
    for text, advantage, gradient in zip(result["texts"], result["advantages"], result["gradients"], strict=True):
        assert advantage == pytest.approx(expected.get(text, 0.0), abs=1e-5), text
        assert (gradient == 0.0) is (expected.get(text, 0.0) == 0.0), text
    assert math.isfinite(result["loss"])


@pytest.mark.timeout(620)
async def test_a_failed_judgment_adds_nothing_in_the_worker(tmp_path: Path) -> None:
    async with running("--judge=rubric", judge=judge) as server, sampling(TEXTS) as url:
        here = {"judge": "rubric", "judge_base_url": server.judge.base_url, "judge_model_name": "m"}
        runs = {
            "served": {"kind": "judge", "given": {"url": server.url, "name": "helpful"}},
            "here": {"kind": "judge", "given": {"judge": here}},
            "combined": {"kind": "judge", "given": {"url": server.url}, "combined": [2.0, 1.0]},
            "beside": {"kind": "judge", "given": {"url": server.url}, "beside": True, "refused": True},
        }
        ended = await trainers.run("trl", "async_program.py", tmp_path, url, runs, patience_s=600)
    assert ended.code == 0, ended.err
    check(ended.result["served"], SCORES)
    check(ended.result["here"], SCORES)
    check(ended.result["combined"], {text: 2 * score + HALVES[0] for text, score in SCORES.items()})
    named = ended.result["served"]["metrics"]
    assert all("rewards/helpful" in metrics for metrics in named)
    assert "combined_reward(" in ended.result["beside"]["error"]
    assert "the judge failed, the last one with: " in ended.err  # the reason, in the worker's log


@pytest.mark.timeout(620)
async def test_a_judge_that_fails_completely_ends_the_worker_with_its_reason(tmp_path: Path) -> None:
    async with running("--judge=rubric", judge="I cannot say.") as server, sampling(TEXTS) as url:
        runs = {"down": {"kind": "judge", "given": {"url": server.url}, "fails": True}}
        ended = await trainers.run("trl", "async_program.py", tmp_path, url, runs, patience_s=600)
    assert ended.code == 0, ended.err
    assert "NoRewardError: the judge failed for 32 samples in a row, last with: " in ended.result["down"]["error"]


@pytest.mark.timeout(620)
async def test_an_environment_opens_again_in_the_worker(tmp_path: Path) -> None:
    async with offline_judge() as (judge_url, _), sampling(ANSWERS) as url:
        given = environment("self_critique", judge_url)
        beside = {"kind": "environment", "given": given, "beside": True, "refused": True}
        runs = {"reward": {"kind": "environment", "given": given}, "beside": beside}
        ended = await trainers.run("trl", "async_program.py", tmp_path, url, runs, patience_s=600)
        expected = await environments_rewards(given, [ANSWERS])
    assert ended.code == 0, ended.err
    result = ended.result["reward"]
    by_text = {text: of_text["reward"] for text, of_text in zip(result["texts"], result["metrics"], strict=True)}
    assert by_text == pytest.approx(dict(zip(ANSWERS, expected, strict=True)))
    assert "combined_reward(" in ended.result["beside"]["error"]
