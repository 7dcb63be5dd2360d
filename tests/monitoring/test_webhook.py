"""A webhook that is told of alarms, away, slow, or refusing; and its URL, which nobody may see."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from judgegym.llm.errors import SettingsError
from judgegym.monitoring import webhook
from judgegym.monitoring.alarms import Alarm, RolloutPlace
from judgegym.monitoring.webhook import Webhook
from tests.scripted import Reply
from tests.trainer import ScriptedServer, free_port

ALARM = Alarm("gap", 7, 5, "something was seen", "Do something.", (RolloutPlace(3, "row-1", 2),))
SECRET = "T0KEN"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_FIRST_PAUSE_S", 0.0)


async def told(url: str, monkeypatch: pytest.MonkeyPatch, within_s: float = 30.0) -> None:
    monkeypatch.setenv("HOOK", f"{url}/{SECRET}")
    async with aiohttp.ClientSession() as session:
        hook = Webhook("HOOK", session, run="a-run", setting="--hook")
        hook.tell(ALARM)
        await hook.close(within_s)


async def test_it_gets_the_alarm_in_the_end(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    replies = [Reply(status=503), Reply(drop=True), Reply(status=200)]
    async with ScriptedServer(lambda request, number: replies[number - 1]) as server:
        await told(server.url, monkeypatch)
    assert [request.path for request in server.requests] == [f"/{SECRET}"] * 3
    body = server.requests[-1].json
    assert body["run"] == "a-run"
    assert body["text"].startswith(
        "a-run: ALARM gap at step 7: something was seen, since step 5. Do something. Look at"
    )
    assert body["alarm"]["rollouts"] == [{"group": 3, "uid": "row-1", "rollout": 2}]
    assert caplog.text == ""


@pytest.mark.parametrize(("status", "posts", "why"), [(500, 5, "HTTP 500"), (404, 1, "HTTP 404"), (302, 5, "HTTP 302")])
async def test_it_is_given_up(
    status: int, posts: int, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer(lambda request, number: Reply(status=status)) as server:
        await told(server.url, monkeypatch)
    assert len(server.requests) == posts
    assert f"the webhook of HOOK was not told of the alarm, which is on disk: {why}" in caplog.text
    assert SECRET not in caplog.text


async def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    await told(f"http://127.0.0.1:{free_port()}", monkeypatch)
    assert "was not told of the alarm, which is on disk: Client" in caplog.text
    assert SECRET not in caplog.text


async def test_the_end_of_a_run_does_not_wait_for_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer(lambda request, number: Reply(hang=True)) as server:
        monkeypatch.setenv("HOOK", f"{server.url}/{SECRET}")
        async with aiohttp.ClientSession() as session:
            hook = Webhook("HOOK", session, run="a-run", setting="--hook")
            for _ in range(20):
                hook.tell(ALARM)
            await server.arrived(16)
            await hook.close(0.0)
    assert len(asyncio.all_tasks()) == 1
    assert caplog.text.count("16 alarms wait for it") == 4
    assert "could not be told of an alarm in time" in caplog.text


@pytest.mark.parametrize(("value", "why"), [(None, "it is not set"), (f"{SECRET}.example", "what it holds is none")])
async def test_a_variable_without_a_url(value: str | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if value is not None:
        monkeypatch.setenv("HOOK", value)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(SettingsError, match=rf"^--hook: expected a URL in .* HOOK; {why}$"):
            Webhook("HOOK", session, run="a-run", setting="--hook")
