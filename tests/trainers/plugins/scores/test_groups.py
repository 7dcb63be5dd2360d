"""Groups that are spread over the processes of a training run: judged once, whole, and given back in parts."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.trl import RewardFunction, close, judge_reward
from tests.core.server.running import asked, running
from tests.scripted import Json, Reply
from tests.trainers.judges import best
from tests.trainers.plugins import processes


async def in_processes(
    rewards: list[RewardFunction],
    batches: list[tuple[list[str], list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> list[Any]:
    """What each process gets for its batch; an exception in its place."""
    calls = [partial(reward, *batch) for reward, batch in zip(rewards, batches, strict=True)]
    return await processes.in_processes(calls, monkeypatch)


@pytest.mark.parametrize(
    "batches",
    [
        [(["Q"] * 2, ["a", "good"]), (["Q"] * 2, ["c", "d"])],  # one group over two processes
        [
            (["P"] * 3, ["a", "good", "c"]),
            (["P", "Q", "Q"], ["d", "good", "f"]),
            (["Q"] * 2, ["g", "h"]),
        ],
    ],
)
async def test_a_group_in_parts_is_judged_once_and_whole(
    batches: list[tuple[list[str], list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running("--judge=choice", judge=best) as server:
        rewards = [judge_reward(server.url, group_size=4) for _ in batches]
        results = await in_processes(rewards, batches, monkeypatch)
        for reward in rewards:
            await close(reward)
    assert results == [[float(answer == "good") for answer in answers] for _, answers in batches]
    assert len(server.judge.requests) == sum(len(answers) for _, answers in batches) // 4


async def test_an_error_of_one_process_is_raised_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the others would wait for the one that left."""
    async with running("--judge=choice", judge=best) as server:
        rewards = [
            judge_reward(server.url, group_size=2, mount="nobody"),
            judge_reward(server.url, group_size=2),
        ]
        batches = [(["P"] * 2, ["a", "good"]), (["Q"] * 2, ["good", "d"])]
        results = await in_processes(rewards, batches, monkeypatch)
        for reward in rewards:
            await close(reward)
    assert [type(result) for result in results] == [SettingsError] * 2
    assert "HTTP 404" in str(results[0]) == str(results[1])


@pytest.mark.parametrize("others", ["judged", "refused"])
async def test_a_prompt_that_is_refused_ends_the_training_if_those_of_all_processes_are(
    others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process has one prompt, so that none can tell by itself."""

    def judge(request: Json, number: int) -> Reply | str:
        is_refused = others == "refused" or "LONG" in asked(request)
        return (
            Reply(status=400, body={"error": {"message": "no"}})
            if is_refused
            else best(request, number)
        )

    async with running("--judge=choice", judge=judge) as server:
        rewards = [judge_reward(server.url, group_size=2) for _ in range(2)]
        batches = [(["LONG"] * 2, ["a", "good"]), (["Q"] * 2, ["good", "d"])]
        results = await in_processes(rewards, batches, monkeypatch)
        for reward in rewards:
            await close(reward)
    if others == "judged":
        assert results == [[None, None], [1.0, 0.0]]
    else:
        assert [type(result) for result in results] == [SettingsError] * 2
        assert re.search("first 2 requests .*were refused", str(results[0]))
        assert str(results[1]) == str(results[0])


async def test_a_batch_that_holds_a_part_of_a_group_is_refused_by_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewards = [judge_reward("http://127.0.0.1:1", group_size=4) for _ in range(2)]
    results = await in_processes(rewards, [(["Q"] * 2, ["a", "b"]), (["Q"], ["c"])], monkeypatch)
    assert [str(result) for result in results] == [str(results[0])] * 2
    assert re.search("2 processes of 3 completions .*groups of 4", str(results[0]))


@pytest.mark.slow
async def test_a_cell_that_cannot_be_sent_leaves_its_group_without_scores() -> None:
    async with running("--judge=choice", judge=best) as server:
        reward = judge_reward(server.url, group_size=2)
        scores = await reward(
            ["P", "P", "Q", "Q"], ["a", "b", "good", "d"], context=[b"?", b"?", "C", "C"]
        )
        await close(reward)
    assert scores == [None, None, 1.0, 0.0]
