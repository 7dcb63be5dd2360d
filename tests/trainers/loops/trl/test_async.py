"""TRL's asynchronous trainer: its `AsyncRolloutWorker`, started for real, and its trainer's own loss."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.core.server.running import running
from tests.scripted import Json, ScriptedEndpoint
from tests.trainers.judges import NO_VERDICT
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import offline_judge
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
    for text, advantage, gradient in zip(
        result["texts"], result["advantages"], result["gradients"], strict=True
    ):
        assert advantage == pytest.approx(expected.get(text, 0.0), abs=1e-5), text
        assert (gradient == 0.0) is (expected.get(text, 0.0) == 0.0), text
    assert math.isfinite(result["loss"])


# Losses: TRL | asynchronous GRPO | one function, or `combined_reward` | safe
# Losses: TRL | asynchronous GRPO | several functions | refused
@pytest.mark.timeout(620)
async def test_a_failed_judgment_adds_nothing_in_the_worker(tmp_path: Path) -> None:
    """In functions over HTTP and with the judge in the worker's process; several functions are refused."""
    async with (
        running("--judge=rubric", judge=judge) as server,
        offline_judge() as (judge_url, _),
        ScriptedEndpoint(NO_VERDICT) as down,
        sampling(TEXTS) as url,
    ):
        here = {"judge": "rubric", "judge_base_url": server.judge.base_url, "judge_model_name": "m"}
        served = {"kind": "judge", "given": {"url": server.url, "name": "helpful"}}
        rows = {"kind": "environment", "given": environment("self_critique", judge_url)}
        runs = {
            "served": served,
            "here": {"kind": "judge", "given": {"judge": here}},
            "combined": {**served, "combined": [2.0, 1.0]},
            "beside": {**served, "beside": True, "refused": True},
            "rows": rows,
            "rows beside": {**rows, "beside": True, "refused": True},
            "down": {
                "kind": "judge",
                "given": {"judge": {**here, "judge_base_url": down.base_url}},
                "fails": True,
            },
        }
        ended = await trainers.run("trl", "async_program.py", tmp_path, url, runs, patience_s=600)
        rewards = await environments_rewards(rows["given"], [TEXTS])  # type: ignore[arg-type]  # keywords
    assert ended.code == 0, ended.err
    result = ended.result
    check(result["served"], SCORES)
    check(result["here"], SCORES)
    check(result["combined"], {text: 2 * score + HALVES[0] for text, score in SCORES.items()})
    assert all("rewards/helpful" in metrics for metrics in result["served"]["metrics"])
    of_rows = zip(result["rows"]["texts"], result["rows"]["metrics"], strict=True)
    assert {text: metrics["reward"] for text, metrics in of_rows} == pytest.approx(
        dict(zip(TEXTS, rewards, strict=True))
    )
    for name in ("beside", "rows beside"):
        assert "combined_reward(" in result[name]["error"]
    assert re.search(
        r"NoRewardError: .*failed for 32 samples .*last with: \S", result["down"]["error"]
    )
    assert re.search(
        r"completions .*judge failed, .*last one with: \S", ended.err
    )  # the reason, in the worker's log
