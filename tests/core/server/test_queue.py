"""The queue before a judge: deadlines begin with a place, who waits too long asks again, and nothing is paid twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from judgegym_trainers.scores.requests import CompletionRow
from judgegym_trainers.scores.sources import JudgeSource
from tests.core.server.running import asked, running
from tests.scripted import Json

VERDICT = "[FEEDBACK] fine [SCORE] 5"
AT_ONCE, COUNT = 16, 128


def ask(number: int) -> Json:
    return {"prompt": "Q", "response": f"a response with the number {number}."}


class Judge:
    """Answers as many requests as it is allowed to."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.allowed = asyncio.Semaphore(0)

    async def __call__(self, request: Json, number: int) -> str:
        self.asked[asked(request)] += 1
        await self.allowed.acquire()
        return VERDICT

    def allow(self, count: int) -> None:
        for _ in range(count):
            self.allowed.release()


@pytest.mark.slow
async def test_busy_judge_scores_all_completions_of_a_batch_and_none_is_paid_twice() -> None:
    """128 at once at 16 places; a caller with less time is told to ask again."""
    judge = Judge()
    flags = f"--judge_max_concurrency={AT_ONCE}", "--deadline=60"
    async with running(*flags, judge=judge) as server:
        scoring = JudgeSource(server.url, deadline_s=120).make_scorer()
        groups = [
            [CompletionRow({"prompt": "Q"}, ask(number)["response"])] for number in range(COUNT)
        ]
        running_ = asyncio.create_task(asyncio.to_thread(asyncio.run, scoring.score(groups)))
        for wave in range(COUNT // AT_ONCE):
            await server.judge.arrived((wave + 1) * AT_ONCE)
            if not wave:  # all others wait
                queued = await server.post(
                    "/v1/score", ask(COUNT - 1), **{"X-Request-Deadline": "0.05"}
                )
                assert (queued.status, queued.json["error"]["type"]) == (503, "queued")
                assert int(queued.headers["Retry-After"]) > 0
            judge.allow(AT_ONCE)
        results = await running_
        await scoring.close()
    assert [result.reward for (result,) in results] == [1.0] * COUNT
    assert len(judge.asked) == COUNT and set(judge.asked.values()) == {1}


async def test_deadline_of_the_client_bounds_a_request_and_its_repeat_finds_the_result() -> None:
    judge = Judge()
    async with running("--deadline=60", judge=judge) as server:
        first = await server.post("/v1/score", ask(0), **{"X-Request-Deadline": "0.05"})
        assert (first.status, first.json["error"]["type"]) == (503, "unfinished")
        judge.allow(1)
        while server.service.core.pending:  # noqa: ASYNC110  # the state that is tested: it has ended, and nobody waited
            await asyncio.sleep(0)
        again = await server.post("/v1/score", ask(0))
        assert (again.status, again.json["score"]) == (200, 1.0)
        assert len(server.judge.requests) == 1
        wrong = await server.post("/v1/score", ask(1), **{"X-Request-Deadline": "soon"})
    assert wrong.status == 422
    assert "X-Request-Deadline: " in wrong.text and "seconds, found 'soon'" in wrong.text
