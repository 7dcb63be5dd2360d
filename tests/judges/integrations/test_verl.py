"""verl's reward function: always the same keys, and nothing raised for a judge."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from judges.integrations.verl import close, compute_score
from tests.judges.server.running import asked, running
from tests.scripted import Reply, refusing

KEYS = {"score", "judge_failed"}


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    await close()


async def test_a_score() -> None:
    async with running(judge="[FEEDBACK] fine [SCORE] 3") as server:
        info = {"question": "Why?", "rubric": "Is it good?", "index": 7}
        result = await compute_score("data", "Because.", "Since.", info, url=server.url, reward_model=None)
        (request,) = server.judge.bodies
    assert result == {"score": 0.5, "judge_failed": 0.0}
    for shown in ("Why?", "Is it good?", "Since.", "Because."):
        assert shown in asked(request)


@pytest.mark.parametrize("judge", ["I cannot say.", Reply(status=500)])
async def test_a_failed_judge_has_the_same_keys(judge: str | Reply) -> None:
    async with running(judge=judge) as server:
        result = await compute_score("data", "A", None, None, url=server.url, fallback_score=0.25)
    assert result == {"score": 0.25, "judge_failed": 1.0}


async def test_a_request_that_is_refused_has_the_same_keys() -> None:
    async with running("--judge=choice") as server:
        result = await compute_score("data", "A", "B", {}, url=server.url)
    assert set(result) == KEYS
    assert result["judge_failed"] == 1.0


async def test_a_server_that_is_away_has_the_same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.integrations.scoring._FIRST_PAUSE_S", 0.0)
    with refusing() as url:
        result = await compute_score("data", "A", "B", {}, url=url.removesuffix("/v1"))
    assert result == {"score": 0.0, "judge_failed": 1.0}
