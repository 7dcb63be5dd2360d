"""What a reward server, or what stands in its place, may answer; and settings of its client that cannot work."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from judgegym.llm.errors import BudgetError, SettingsError
from judgegym_trainers.scores import server as server_source
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.results import REFUSED_AT_START
from judgegym_trainers.scores.sources import JudgeSource, RewardScorer
from tests.core.server.running import running
from tests.trainers.plugins.scoring_server import answering

ROW = CompletionRow({"prompt": "Why?"}, "Because.")


def scoring(url: str, **settings: Any) -> RewardScorer:
    return JudgeSource(url, **{"timeout_s": 0.5, "deadline_s": 5.0, **settings}).make_scorer()


BODIES = [
    '{"score": NaN, "status": "ok"}',
    '{"score": Infinity, "status": "ok"}',
    '{"score": 7, "status": "ok"}',
    '{"score": -0.1, "status": "ok"}',
    '{"score": true, "status": "ok"}',
    '{"score": "0.5", "status": "ok"}',
    '{"score": 0.5, "status": "judge_failed"}',
    '{"score": 0.5, "status": "unparsable"}',
    '{"score": null, "status": "ok"}',
    '{"score": 0.5}',
    "[]",
    "not JSON",
]


async def test_what_is_no_score_from_0_to_1_is_a_failure() -> None:
    async def answer(request: web.Request) -> web.Response:
        number = int((await request.json())["response"])
        return web.Response(text=BODIES[number], content_type="application/json")

    async with answering(answer) as url:
        source = scoring(url)
        rows = [replace(ROW, response=str(number)) for number in range(len(BODIES))]
        results = await source.score_each([*rows, replace(ROW, response="0")])
        await source.close()
    assert all(result.reward is None and result.is_failed for result in results)


async def test_a_spent_budget_ends_the_training_which_would_go_on_without_any_reward() -> None:
    async with running("--budget_calls=2", judge="[FEEDBACK] fine [SCORE] 5") as server:
        source = scoring(server.url)
        first = await source.score_each([replace(ROW, response=f"{number}") for number in range(2)])
        with pytest.raises(BudgetError, match=r"/v1/score: the budget of 2 calls is spent"):
            await source.score_each([replace(ROW, response="2")])
        await source.close()
    assert [result.reward for result in first] == [1.0, 1.0]


@pytest.mark.parametrize("status", [401, 404])
async def test_a_proxy_that_knows_nothing_while_the_server_starts_again_ends_no_training(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_source, "PAUSES_S", (0.0, 0.0))
    codes = [200, status, 200, *[status] * 9]

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"score": 0.5, "status": "ok"}, status=codes.pop(0))

    async with answering(answer) as url:
        source = scoring(url)
        for _ in range(2):
            [result] = await source.score_each([ROW])
            assert result.reward == 0.5
        with pytest.raises(
            SettingsError, match=str(status)
        ):  # it stays away: a setting of the server has changed
            await source.score_each([ROW])
        await source.close()


async def test_batches_at_the_same_time_do_not_count_each_others_refusals() -> None:
    """One row of each cannot be judged, and the others have no score for another reason: that is no wrong setting."""

    async def answer(request: web.Request) -> web.Response:
        status = 422 if "BAD" in await request.text() else 503
        return web.json_response({"error": {"message": "no"}}, status=status)

    async with answering(answer) as url:
        source = scoring(url, timeout_s=0.2)
        batches = [
            [replace(ROW, response=text) for text in (f"BAD {batch}", batch)] for batch in "ab"
        ]
        results = await asyncio.gather(*map(source.score_each, batches))
        assert [[result.status for result in of_one] for of_one in results] == [
            ["refused", "judge_failed"]
        ] * 2
        with pytest.raises(SettingsError, match=r"were refused: .*HTTP 422"):
            await source.score_each(
                [CompletionRow({"prompt": f"Why {number}?"}, "BAD") for number in range(2)]
            )
        await source.close()


async def test_one_prompt_that_is_refused_ends_no_training_and_several_do() -> None:
    """A process of a training may have one prompt in a batch, or a part of its group."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "too long"}}, status=422)

    async with answering(answer) as url:
        source = scoring(url)
        group = [replace(ROW, response=str(number)) for number in range(2 * REFUSED_AT_START)]
        for _ in range(REFUSED_AT_START - 1):
            assert {result.status for result in await source.score_each(group)} == {"refused"}
        with pytest.raises(
            SettingsError,
            match=f"first {REFUSED_AT_START} requests .*refused: .*HTTP 422",
        ):
            await source.score_each(group)
        await source.close()
        other = scoring(url)
        with pytest.raises(SettingsError, match=r"first 2 requests .*refused: .*HTTP 422"):
            await other.score_each([*group, replace(ROW, shared={"prompt": "Who?"})])
        unreadable = [
            make_completion_row(prompt, "Because.", {"criteria": "[1"}) for prompt in "PPQ"
        ]
        with pytest.raises(SettingsError, match=r"first 2 requests .*: criteria: .*list in JSON"):
            await scoring(url).score_each(unreadable)
        await other.close()


async def test_refusals_of_one_prompt_wait_for_the_first_verdicts_of_others() -> None:
    """A refusal comes sooner than a verdict: samples that are scored one by one end no training before it."""
    asked, may_judge = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if "BAD" in await request.text():
            return web.json_response({"error": {"message": "too long"}}, status=422)
        asked.set()
        await may_judge.wait()
        return web.json_response({"score": 0.5, "status": "ok"})

    async with answering(answer) as url:
        source = scoring(url, timeout_s=5.0)
        judged = asyncio.ensure_future(source.score_each([ROW]))
        await asked.wait()
        for number in range(REFUSED_AT_START + 1):
            [result] = await source.score_each([replace(ROW, response=f"BAD {number}")])
            assert result.status == "refused"
        may_judge.set()
        [result] = await judged
        assert result.status == "ok"
        await source.close()
