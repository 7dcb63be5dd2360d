"""verl's reward function: always the same keys; an error for settings that cannot work, none for a judge that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from judgegym.integrations import verl
from judgegym.integrations.scores.results import REFUSED_AT_START
from judgegym.integrations.scores.server import PAUSES_S
from judgegym.integrations.verl import close, function
from judgegym.llm.errors import SettingsError
from tests.judgegym.integrations.scoring_server import answering
from tests.scripted import Reply, ScriptedEndpoint, refusing
from tests.server.running import asked, running

KEYS = {"score", "judge_failed", "invalid_completion"}
ROW = {"question": "Why?"}
compute_score = partial(verl.compute_score, on_failure="score")
compute_score_sync = partial(verl.compute_score_sync, on_failure="score")


def given(score: float, *, failed: float = 0.0, invalid: float = 0.0) -> dict[str, float]:
    return {"score": score, "judge_failed": failed, "invalid_completion": invalid}


@pytest.fixture(autouse=True)
async def closed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setitem(function._SEEN, "prompt", False)
    yield
    await close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "on_failure: expected score: .* every estimator trains as a reward"),
        ({"on_failure": "leave_out"}, "on_failure: expected score"),
        ({"on_failure": "zero"}, "on_failure: expected leave_out or score, found 'zero'"),
    ],
)
async def test_a_function_that_would_train_failures_as_scores_is_told_to(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        await verl.compute_score("data", "A", None, ROW, url="http://127.0.0.1:1", **settings)


async def test_row_gives_a_score_and_its_fields_reach_the_judge() -> None:
    async with running(judge="[FEEDBACK] fine [SCORE] 3") as server:
        info = {"question": "Why?", "rubric": "Is it good?", "index": 7}
        result = await compute_score("data", "Because.", "Since.", info, url=server.url, reward_router_address="h:1")
        (request,) = server.judge.bodies
    assert result == given(0.5)
    for shown in ("Why?", "Is it good?", "Since.", "Because."):
        assert shown in asked(request)


@pytest.mark.parametrize("judge", ["I cannot say.", Reply(status=500)])
async def test_a_failed_judge_has_the_same_keys(judge: str | Reply) -> None:
    async with running(judge=judge) as server:
        result = await compute_score("data", "A", None, ROW, url=server.url, fallback_score=0.25)
    assert result == given(0.25, failed=1.0)


async def test_a_row_that_is_refused_has_the_same_keys_after_one_that_was_judged() -> None:
    async with running() as server:
        await compute_score("data", "A", "B", ROW, url=server.url)
        wrong = {**ROW, "rubric": {"criteria": "C", "score99_description": "?"}}
        results = [await compute_score("data", "A", "B", wrong, url=server.url) for _ in range(REFUSED_AT_START + 1)]
    assert results == [given(0.0, failed=1.0)] * len(results)


async def test_a_judge_that_refuses_all_rows_ends_the_training() -> None:
    async with running("--judge=choice") as server:
        for _ in range(REFUSED_AT_START - 1):
            assert set(await compute_score("data", "A", "B", ROW, url=server.url)) == KEYS
        with pytest.raises(SettingsError, match="2 to 26"):
            await compute_score("data", "A", "B", ROW, url=server.url)


@pytest.mark.parametrize(
    ("info", "group"),
    [
        ({"uid": "u", "index": 3}, "u"),
        ({"index": np.int64(3)}, 3),
        ({"index": True, "uid": ""}, None),
        ({"index": "x" * 257}, None),
        ({}, None),
    ],
)
async def test_a_sample_names_its_group_and_itself(info: dict[str, Any], group: Any) -> None:
    """The retries of one call are one member, and equal answers of several calls are several."""
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"score": 1.0, "status": "ok"})

    async with answering(answer) as url:
        for _ in range(2):
            assert await compute_score("data", "A", "B", {**ROW, **info}, url=url) == given(1.0)
        await close()
    assert [body.get("group") for body in bodies] == [group] * 2
    assert len({body["member"] for body in bodies}) == 2


@pytest.mark.parametrize("judge", [{"judge": "listwise"}, {"judge": "tournament"}, {"group_size": 4}])
async def test_a_judge_that_compares_is_refused_in_the_reward_workers(judge: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"cannot run in verl's reward workers.* set url"):
        await compute_score("data", "A", "B", ROW, judge=judge)


async def test_a_server_that_is_away_is_tried_again_and_has_the_same_keys(pauses: list[float]) -> None:
    with refusing() as url:
        result = await compute_score("data", "A", "B", ROW, url=url.removesuffix("/v1"))
    assert pauses == list(PAUSES_S)
    assert PAUSES_S[0] == 0.5
    assert result == given(0.0, failed=1.0)


async def test_a_server_that_is_away_is_said_once_and_once_that_it_is_back(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    codes = [503, 503, 200]

    async def answer(request: web.Request) -> web.Response:
        code = codes.pop(0) if codes else 200
        return web.json_response({"score": 1.0, "status": "ok"} if code == 200 else {"error": "full"}, status=code)

    async with answering(answer) as url:
        results = [await compute_score("data", "A", "B", ROW, url=url) for _ in range(2)]
        await close()
    assert results == [given(1.0)] * 2
    said = [record.message for record in caplog.records if record.name == "judgegym.integrations.scores.server"]
    assert said == [
        f"the reward server at {url}/v1/score: HTTP 503: full; asking again",
        f"the reward server at {url}/v1/score is back",
    ]


async def test_judge_in_this_process_gives_scores() -> None:
    async with ScriptedEndpoint("[FEEDBACK] fine [SCORE] 9") as endpoint:
        judge = {"judge": "rubric", "scale_max": 9, "judge_base_url": endpoint.base_url, "judge_model_name": "m"}
        results = [await compute_score("data", f"A{each}", "R", ROW, judge=judge) for each in range(3)]
        assert len(endpoint.requests) == 3
        wrong = {**ROW, "rubric": {"criteria": "C", "score99_description": "?"}}
        assert await compute_score("data", "A", "R", wrong, judge=judge) == {
            "score": 0.0,
            "judge_failed": 1.0,
            "invalid_completion": 0.0,
        }
        await close()
    assert results == [given(1.0)] * 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "expected either url .of a reward server. or judge"),
        ({"judge": {"judge": "no such judge"}}, "judge.judge: input should be 'rubric'"),
        ({"judge": {"judge": "rubric", "judge_temprature": 0.1}}, "did you mean judge_temperature"),
        ({"judge": {"judge": "rubric", "scale_min": 5, "scale_max": 1}}, "scale"),
        ({"judge": {"judge_base_url": "https://judge.example/v1", "judge_api_key_env": "NOT_SET"}}, "NOT_SET"),
        ({"judge": {"judge": "rubric"}, "url": "http://127.0.0.1:1"}, "either url"),
        ({"ulr": "http://127.0.0.1:1"}, "reward_kwargs.ulr: unknown setting, did you mean url"),
        ({"url": "127.0.0.1:8400"}, "url: expected"),
        ({"url": "http://127.0.0.1:1", "fallback_score": float("nan")}, "expected a finite number"),
    ],
)
@pytest.mark.parametrize("number", [1, 2])
async def test_settings_that_cannot_work_raise_at_every_sample(wrong: dict[str, Any], said: str, number: int) -> None:
    for _ in range(number):
        with pytest.raises(SettingsError, match=said) as raised:
            await compute_score("data", "A", "B", ROW, **wrong)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("settings", "said"), [({"mount": "nobody"}, "404"), ({"token": "wrong"}, "401")])
async def test_a_mount_or_a_token_that_is_wrong_raises_at_the_first_sample(settings: dict[str, Any], said: str) -> None:
    async with running('--tokens={"trainer": "right"}') as server:
        with pytest.raises(SettingsError, match=f"HTTP {said}"):
            await compute_score("data", "A", "B", ROW, url=server.url, **{"token": "right", **settings})


@pytest.mark.parametrize("info", [None, {}, {"question": ""}, {"prompt": []}, {"question": float("nan"), "index": 1}])
async def test_a_row_without_a_question_is_never_judged(info: dict[str, Any] | None) -> None:
    async with running() as server:
        with pytest.raises(SettingsError, match="expected the question"):
            await compute_score("data", "A", "B", info, url=server.url)
        assert await compute_score("data", "A", "B", ROW, url=server.url) == {
            "score": 0.75,
            "judge_failed": 0.0,
            "invalid_completion": 0.0,
        }
        assert await compute_score("data", "A", "B", info, url=server.url) == {
            "score": 0.0,
            "judge_failed": 1.0,
            "invalid_completion": 0.0,
        }
        assert len(server.judge.requests) == 1


@pytest.mark.parametrize(
    ("ground_truth", "text"),
    [
        (72, "72"),
        (1.5, "1.5"),
        (np.int64(7), "7"),
        (["a", "b"], "['a', 'b']"),
        (np.array(["a", "b"]), "['a', 'b']"),
        ({"answer": "x"}, "{'answer': 'x'}"),
        ({"reference": "Since.", "rubric": "Good?"}, "Since."),
        ('{"reference": 5}', "5"),
    ],
)
async def test_a_ground_truth_of_another_type_becomes_text(ground_truth: object, text: str) -> None:
    async with running() as server:
        await compute_score("data", "A", ground_truth, ROW, url=server.url)
        (request,) = server.judge.bodies
    assert f"### Reference Response\n\n{text}" in asked(request)


async def test_missing_values_of_a_data_frame_are_left_out() -> None:
    info = {**ROW, "reference": None, "context": float("nan"), "rubric": "", "aspects": np.array([])}
    async with running() as server:
        result = await compute_score("data", "A", np.float64("nan"), info, url=server.url)
        (request,) = server.judge.bodies
    assert result == given(0.75)
    assert "### Reference Response" not in asked(request)


def test_the_synchronous_twin_gives_the_same_from_any_thread() -> None:
    async def whole() -> list[dict[str, float]]:
        async with running() as server:
            calls = (
                asyncio.to_thread(compute_score_sync, "data", answer, "B", ROW, url=server.url) for answer in "abc"
            )
            return [await compute_score("data", "a", "B", ROW, url=server.url), *await asyncio.gather(*calls)]

    assert asyncio.run(whole()) == [given(0.75)] * 4


async def test_fields_as_a_data_frame_has_them() -> None:
    """Arrays for lists, and structs in which what is missing is null."""
    info = {
        "prompt": np.array([{"role": "user", "content": "Why?"}]),
        "rubric": {"criteria": "Is it good?", "score1_description": "Bad.", "score2_description": None},
        "context": np.array(["one", "two"]),
        "reference": "Since.",
    }
    async with running(judge="[FEEDBACK] fine [SCORE] 3") as server:
        result = await compute_score("data", "Because.", None, info, url=server.url)
        (request,) = server.judge.bodies
    assert result == given(0.5)
    for shown in ("Why?", "Is it good?", "Bad.", "Since.", "Because."):
        assert shown in asked(request)


@pytest.mark.parametrize(("status", "number"), [(401, 1), (403, 1), (404, 1), (400, REFUSED_AT_START)])
@pytest.mark.parametrize("in_process", [True, False])
async def test_a_judge_whose_endpoint_refuses_everything_ends_the_training(
    status: int, number: int, in_process: bool
) -> None:
    """At the first sample, if it is the key or the model; a request that is too long may be a single one."""
    async with running(judge=Reply(status=status, body={"error": {"message": "no"}})) as server:
        judge = {"judge": "rubric", "judge_base_url": server.judge.base_url, "judge_model_name": "m"}
        where: dict[str, Any] = {"judge": judge} if in_process else {"url": server.url}
        for _ in range(number - 1):
            assert (await compute_score("data", "A", "B", ROW, **where))["judge_failed"] == 1.0
        with pytest.raises(SettingsError, match=f"rejected HTTP {status}"):
            await compute_score("data", "A", "B", ROW, **where)
        await close()


async def test_a_sample_without_a_score_by_the_deadline_is_flagged() -> None:
    async with running(judge=Reply(hang=True)) as server:
        judge = {"judge": "rubric", "judge_base_url": server.judge.base_url, "judge_model_name": "m"}
        for where in ({"judge": judge}, {"url": server.url}):
            result = await compute_score("data", "A", "B", ROW, deadline_s=0.3, fallback_score=0.5, **where)
            assert result == given(0.5, failed=1.0)
        await close()


@pytest.mark.parametrize("place", ["http://sesame@{host}", "http://{host}/token/sesame"])
async def test_a_token_in_the_url_opens_the_server_and_is_shown_nowhere(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running('--tokens={"trainer": "sesame"}') as server:
        url = place.format(host=server.url.removeprefix("http://"))
        assert await compute_score("data", "A", "B", ROW, url=url) == given(0.75)
        with pytest.raises(SettingsError, match=r"HTTP 40[14]") as raised:
            await compute_score("data", "A", "B", ROW, url=url, mount="nobody")
    assert "sesame" not in str(raised.value) + caplog.text


async def test_an_empty_response_is_a_wrong_answer_and_costs_no_call() -> None:
    async with running() as server:
        result = await compute_score("data", " ", "B", ROW, url=server.url, invalid_completion_score=-1.0)
    assert result == given(-1.0, invalid=1.0)
    assert server.judge.requests == []


async def test_aspects_of_a_row() -> None:
    async with running("--judge=aspect", judge='{"reason": "since", "verdict": 1}') as server:
        info = {"question": "Why?", "aspects": ["coherence", {"name": "brief", "definition": "Is it brief?"}]}
        result = await compute_score("data", "Because.", None, info, url=server.url)
        shown = [asked(body) for body in server.judge.bodies]
    assert result == given(1.0)
    assert len(shown) == 2
    assert any("Is it brief?" in each for each in shown)
