"""verl's reward function: always the same keys; an error for settings that cannot work, none for a judge that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from judgegym.llm.errors import SettingsError
from judgegym_trainers import verl
from judgegym_trainers.scores.results import REFUSED_AT_START
from judgegym_trainers.scores.server import PAUSES_S
from judgegym_trainers.verl import close, function
from tests.core.server.running import asked, running
from tests.scripted import Reply, refusing
from tests.trainers.plugins.scoring_server import answering

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


def test_the_file_can_be_loaded_by_its_path_without_an_entry_among_the_modules() -> None:
    """As verl's `load_extern_object` loads it; a dataclass would look for its module there."""
    spec = spec_from_file_location("custom_module", function.__file__)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert {*module.__all__} == {*verl.__all__}


async def test_row_gives_a_score_and_its_fields_reach_the_judge() -> None:
    async with running(judge="[FEEDBACK] fine [SCORE] 3") as server:
        info = {"question": "Why?", "rubric": "Is it good?", "index": 7}
        result = await compute_score(
            "data", "Because.", "Since.", info, url=server.url, reward_router_address="h:1"
        )
        (request,) = server.judge.bodies
    assert result == given(0.5)
    for shown in ("Why?", "Is it good?", "Since.", "Because."):
        assert shown in asked(request)


@pytest.mark.parametrize("judge", ["I cannot say.", Reply(status=500)])
async def test_a_failed_judge_has_the_same_keys(judge: str | Reply) -> None:
    async with running(judge=judge) as server:
        result = await compute_score("data", "A", None, ROW, url=server.url, fallback_score=0.25)
    assert result == given(0.25, failed=1.0)


async def test_a_sample_names_its_group_and_itself() -> None:
    """The retries of one call are one member, and equal answers of several calls are several."""
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"score": 1.0, "status": "ok"})

    infos = [
        {"uid": "u", "index": 3},
        {"index": np.int64(3)},
        {"index": True, "uid": ""},
        {"index": "x" * 257},
        {},
    ]
    async with answering(answer) as url:
        for info in [*infos, *infos]:
            assert await compute_score("data", "A", "B", {**ROW, **info}, url=url) == given(1.0)
        await close()
    assert [body.get("group") for body in bodies] == ["u", 3, None, None, None] * 2
    assert len({body["member"] for body in bodies}) == len(bodies)


async def test_a_server_that_is_away_is_tried_again_and_has_the_same_keys(
    pauses: list[float],
) -> None:
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
        return web.json_response(
            {"score": 1.0, "status": "ok"} if code == 200 else {"error": "full"}, status=code
        )

    async with answering(answer) as url:
        results = [await compute_score("data", "A", "B", ROW, url=url) for _ in range(2)]
        await close()
    assert results == [given(1.0)] * 2
    said = [
        record.message
        for record in caplog.records
        if record.name == "judgegym_trainers.scores.server"
    ]
    lost, back = said
    assert f"{url}/v1/score: HTTP 503: full; asking again" in lost
    assert f"{url}/v1/score is back" in back


@pytest.mark.parametrize(
    ("settings", "said"), [({"mount": "nobody"}, "404"), ({"token": "wrong"}, "401")]
)
async def test_a_mount_or_a_token_that_is_wrong_raises_at_the_first_sample(
    settings: dict[str, Any], said: str
) -> None:
    async with running('--tokens={"trainer": "right"}') as server:
        with pytest.raises(SettingsError, match=f"HTTP {said}"):
            await compute_score(
                "data", "A", "B", ROW, url=server.url, **{"token": "right", **settings}
            )


async def test_a_row_without_a_question_is_never_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    given_rows: list[dict[str, Any] | None] = [
        None,
        {},
        {"question": ""},
        {"prompt": []},
        {"question": float("nan")},
    ]
    async with running() as server:
        for info in given_rows:
            with pytest.raises(SettingsError, match="expected the question"):
                await compute_score("data", "A", "B", info, url=server.url)
        assert await compute_score("data", "A", "B", ROW, url=server.url) == given(0.75)
        for info in given_rows:
            assert await compute_score("data", "A", "B", info, url=server.url) == given(
                0.0, failed=1.0
            )
        assert len(server.judge.requests) == 1


@pytest.mark.parametrize(
    ("status", "number", "in_process"),
    [
        (401, 1, True),
        (400, REFUSED_AT_START, True),
        (403, 1, False),
        (400, REFUSED_AT_START, False),
    ],
)
async def test_a_judge_whose_endpoint_refuses_everything_ends_the_training(
    status: int, number: int, in_process: bool
) -> None:
    """At the first sample, if it is the key or the model; a request that is too long may be a single one."""
    async with running(judge=Reply(status=status, body={"error": {"message": "no"}})) as server:
        judge = {
            "judge": "rubric",
            "judge_base_url": server.judge.base_url,
            "judge_model_name": "m",
        }
        where: dict[str, Any] = {"judge": judge} if in_process else {"url": server.url}
        for _ in range(number - 1):
            assert (await compute_score("data", "A", "B", ROW, **where))["judge_failed"] == 1.0
        with pytest.raises(SettingsError, match=f"rejected HTTP {status}"):
            await compute_score("data", "A", "B", ROW, **where)
        await close()


async def test_a_row_that_is_refused_has_the_same_keys() -> None:
    wrong = {**ROW, "rubric": {"criteria": "C", "score99_description": "?"}}
    async with running() as server:
        await compute_score("data", "A", "B", ROW, url=server.url)
        results = [
            await compute_score("data", "A", "B", wrong, url=server.url)
            for _ in range(REFUSED_AT_START + 1)
        ]
    assert results == [given(0.0, failed=1.0)] * len(results)


async def test_a_sample_without_a_score_by_the_deadline_is_flagged() -> None:
    async with running(judge=Reply(hang=True)) as server:
        judge = {
            "judge": "rubric",
            "judge_base_url": server.judge.base_url,
            "judge_model_name": "m",
        }
        for where in ({"judge": judge}, {"url": server.url}):
            result = await compute_score(
                "data", "A", "B", ROW, deadline_s=0.3, fallback_score=0.5, **where
            )
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
