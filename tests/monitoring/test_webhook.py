"""A webhook that is told of alarms, away, slow, or refusing; and its URL, which nobody may see."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from judgegym.llm.errors import RunDirectoryError, SettingsError
from judgegym.monitoring import line_file, webhook
from judgegym.monitoring.alarms import Alarm, RolloutPlace
from judgegym.monitoring.line_file import LineFile, earlier_lines
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


def test_lines_of_a_process_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "monitor.jsonl"
    file = LineFile(path)
    file.append(b'{"a":1}\n')
    with pytest.raises(RunDirectoryError, match="is in use by another process"):
        LineFile(path)
    file.close()
    with path.open("ab") as torn:
        torn.write(b'{"b":')
    again = LineFile(path)
    again.append(b'{"c":3}\n')
    again.close()
    assert path.read_bytes() == b'{"a":1}\n{"c":3}\n'
    path.write_bytes(path.read_bytes() + b"\x00\xff\n[1]\n")
    assert [*earlier_lines(path)] == [{"a": 1}, {"c": 3}]
    assert [*earlier_lines(tmp_path / "none")] == []


def test_a_full_disk_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "monitor.jsonl"
    monkeypatch.setattr(line_file, "_MOST_WAITING", 3)
    file = LineFile(path)
    real, room = file._file, [5]

    class Full:
        def write(self, line: bytes) -> int:
            written = real.write(line[: room[0]])
            room[0] -= written
            return written

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    monkeypatch.setattr(file, "_file", Full())
    for number in range(5):
        file.append(b"%d\n" % number)
    assert path.read_bytes() == b"0\n1\n", "no half line"
    room[0] = 100
    file.append(b"5\n")
    file.close()
    assert path.read_bytes() == b"0\n1\n3\n4\n5\n", "the latest three were kept"
    assert caplog.text.count("cannot be written to") == 1
