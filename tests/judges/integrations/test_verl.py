"""verl's reward function: always the same keys, and nothing raised for a judge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from judges.integrations.scoring import PAUSES_S
from judges.integrations.verl import close, compute_score
from tests.judges.server.running import asked, running
from tests.scripted import Reply, ScriptedEndpoint, refusing

KEYS = {"score", "judge_failed"}


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    await close()


async def test_row_gives_a_score_and_its_fields_reach_the_judge() -> None:
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


async def test_a_server_that_is_away_is_tried_again_and_has_the_same_keys(pauses: list[float]) -> None:
    with refusing() as url:
        result = await compute_score("data", "A", "B", {}, url=url.removesuffix("/v1"))
    assert pauses == list(PAUSES_S)
    assert PAUSES_S[0] == 0.5
    assert result == {"score": 0.0, "judge_failed": 1.0}


async def test_judge_in_this_process_gives_scores() -> None:
    async with ScriptedEndpoint("[FEEDBACK] fine [SCORE] 9") as endpoint:
        judge = {"judge": "rubric", "scale_max": 9, "judge_base_url": endpoint.base_url, "judge_model_name": "m"}
        results = [await compute_score("data", f"A{each}", "R", None, judge=judge) for each in range(3)]
        assert len(endpoint.requests) == 3
        assert await compute_score(
            "data", "A", "R", {"rubric": {"criteria": "C", "score99_description": "?"}}, judge=judge
        )
        await close()
    assert results == [{"score": 1.0, "judge_failed": 0.0}] * 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"judge": {"judge": "no such judge"}},
        {"judge": {"judge": "rubric", "judge_temprature": 0.1}},
        {"judge": {"judge": "rubric", "scale_min": 5, "scale_max": 1}},
        {"judge": {"judge": "rubric", "judge_base_url": "https://judge.invalid/v1", "judge_api_key_env": "NOT_SET"}},
        {"judge": {"judge": "rubric"}, "url": "http://127.0.0.1:1"},
    ],
)
async def test_settings_that_are_wrong_have_the_same_keys(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """For each sample, the first and those after it, with the reason in the log."""
    for _ in range(2):
        caplog.clear()
        assert await compute_score("data", "A", "B", {}, fallback_score=0.5, **wrong) == {
            "score": 0.5,
            "judge_failed": 1.0,
        }
        (record,) = (each for each in caplog.records if each.name == "judges.integrations.verl")
        assert record.exc_info is not None
        assert not isinstance(record.exc_info[1], KeyError)


async def test_fields_as_a_data_frame_has_them() -> None:
    """Arrays for lists, and structs in which what is missing is null."""
    info = {
        "prompt": np.array([{"role": "user", "content": "Why?"}]),
        "rubric": {"criteria": "Is it good?", "score1_description": "Bad.", "score2_description": None},
        "context": np.array(["one", "two"]),
        "reference": "Since.",
    }
    async with running(judge="[FEEDBACK] fine [SCORE] 3") as server:
        result = await compute_score("data", "Because.", np.float64(1.0), info, url=server.url)
        (request,) = server.judge.bodies
    assert result == {"score": 0.5, "judge_failed": 0.0}
    for shown in ("Why?", "Is it good?", "Bad.", "Since.", "Because."):
        assert shown in asked(request)


async def test_aspects_of_a_row() -> None:
    async with running("--judge=aspect", judge='{"reason": "since", "verdict": 1}') as server:
        info = {"question": "Why?", "aspects": ["coherence", {"name": "brief", "definition": "Is it brief?"}]}
        result = await compute_score("data", "Because.", None, info, url=server.url)
        shown = [asked(body) for body in server.judge.bodies]
    assert result == {"score": 1.0, "judge_failed": 0.0}
    assert len(shown) == 2
    assert any("Is it brief?" in each for each in shown)
