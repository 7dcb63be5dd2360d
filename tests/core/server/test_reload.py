"""SIGHUP: tokens and judges change while requests are in flight, and none of them is lost."""

from __future__ import annotations

import asyncio
import logging
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from judgegym.judges.config.sources import load
from judgegym.server.command import Reloader
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.command import PATIENCE_S, eventually
from tests.core.server.running import PLACE, Running, asked, judged_by, running
from tests.core.server.served import started
from tests.scripted import Json

ASK = {"prompt": "Q", "response": "A"}
OLD, NEW = {"Authorization": "Bearer old"}, {"Authorization": "Bearer new"}
LOG = "judgegym.server.command"


def reloader(server: Running, path: Path, *flags: str) -> Reloader:
    judged = (f"--{name}={value}" for name, value in judged_by(server.judge).items())
    argv = [*PLACE, *judged, f"--config={path}", *flags]
    return Reloader(
        server.service, lambda: load(RewardServerSettings, argv, prog="test", reshape=add_preset)
    )


def write(path: Path, **values: object) -> Path:
    path.write_text(yaml.safe_dump(values))
    return path


async def test_requests_in_flight_succeed_and_what_comes_after_meets_the_new_settings(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()

    async def judge(request: Json, number: int) -> str:
        if "Evaluate\n\nslow" in asked(request):
            await opened.wait()
        return (
            '{"reason": "no", "verdict": 0}'
            if "harm" in asked(request)
            else "[FEEDBACK] fine [SCORE] 5"
        )

    mount = {"old": {"rubric": "Is it short?"}}
    path = write(tmp_path / "server.yaml", tokens={"a": "old"}, mounts=mount)
    async with running(f"--config={path}", judge=judge) as server:
        slow = [
            asyncio.create_task(
                server.post(where, {"prompt": "Q", "response": f"slow {number}"}, **OLD)
            )
            for number in range(4)
            for where in ("/v1/score", "/old/v1/score")
        ]
        await server.judge.arrived(len(slow))
        new = {"safety": {"judge": "aspect", "aspects": ["harmfulness"]}}
        write(path, tokens={"b": "new"}, mounts=new, rubric="Is it kind?", judge_max_concurrency=5)
        await reloader(server, path).reload()
        refused = await server.post("/v1/score", ASK, **OLD)
        gone = await server.post("/old/v1/score", ASK, **NEW)
        fresh = await server.post("/v1/score", {"prompt": "Q", "response": "quick"}, **NEW)
        mounted = await server.post("/safety/v1/score", ASK, **NEW)
        shown = (await server.get("/openapi.json")).text
        opened.set()
        answers = await asyncio.gather(*slow)
        again = await server.post("/v1/score", {"prompt": "Q", "response": "slow 0"}, **NEW)
        kinds = [asked(request.json) for request in server.judge.requests]
    assert [(answer.status, answer.json["score"]) for answer in answers] == [(200, 1.0)] * 8
    assert (refused.status, gone.status, fresh.status, mounted.status) == (401, 404, 200, 200)
    assert mounted.json["status"] == "ok"
    assert "/safety/v1/score" in shown and "/old/v1/score" not in shown
    assert again.status == 200 and "Is it kind?" in kinds[-1], (
        "no result of the judge before is taken for the new one's"
    )


async def test_judges_that_stay_the_same_keep_their_scores_and_others_judge_anew(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "server.yaml", mounts={"a": {"rubric": "one"}, "b": {"rubric": "two"}})
    async with running(f"--config={path}") as server:
        for mount in "ab":
            await server.post(f"/{mount}/v1/score", ASK)
        write(path, mounts={"a": {"rubric": "one"}, "b": {"rubric": "three"}})
        await reloader(server, path).reload()
        shared = [(await server.post(f"/{mount}/v1/score", ASK)).json["shared"] for mount in "ab"]
        assert (shared, len(server.judge.requests)) == ([True, False], 3)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"mounts": {"Bad Name": {}}}, "mounts: 'Bad Name' "),
        ({"mounts": {"m": {"judge": "nonsense"}}}, "mounts.m.judge"),
        (
            {
                "mounts": {
                    "m": {
                        "judge_api_key_env": "NO_SUCH_KEY",
                        "judge_base_url": "https://x.example/v1",
                    }
                }
            },
            "NO_SUCH_KEY",
        ),
        ({"mounts": {"m": {"judge": "listwise", "group_size": 4}}}, "restart only"),
        ({"tokens": {"a": ""}}, "token is empty"),
        ({"no_such_setting": 1}, "no_such_setting"),
    ],
)
async def test_wrong_settings_change_nothing_and_are_one_line(
    values: dict[str, object], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "server.yaml", tokens={"a": "old"})
    async with running(f"--config={path}") as server:
        table, settings = server.service.core.judges.table, server.service.settings
        write(path, **values)
        with caplog.at_level(logging.WARNING, logger=LOG):
            await reloader(server, path).reload()
        assert (server.service.core.judges.table, server.service.settings) == (table, settings)
        assert (await server.post("/v1/score", ASK, **OLD)).status == 200
    (line,) = [record.getMessage() for record in caplog.records if record.name == LOG]
    assert "settings are refused" in line and why in line
    assert "\n" not in line


async def test_what_needs_a_restart_is_named_and_the_rest_is_reloaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "server.yaml", tokens={"a": "old"})
    async with running(f"--config={path}") as server:
        write(path, tokens={"a": "new"}, host="0.0.0.0", workers=3, deadline=7, max_pending=9)
        with caplog.at_level(logging.WARNING, logger=LOG):
            await reloader(server, path).reload()
        assert (await server.post("/v1/score", ASK, **NEW)).status == 200
        settings = server.service.settings
    assert (settings.host, settings.workers, settings.deadline) == ("127.0.0.1", 1, 100.0)
    assert "--host, --workers, --deadline, --max_pending need a restart" in caplog.text


async def test_budgets_of_clients_go_on_over_a_reload(tmp_path: Path) -> None:
    path = write(tmp_path / "server.yaml", tokens={"a": "old"}, client_budgets={"*": {"calls": 1}})
    async with running(f"--config={path}") as server:
        first = await server.post("/v1/score", ASK, **OLD)
        write(path, tokens={"a": "old", "b": "new"}, client_budgets={"*": {"calls": 1}})
        await reloader(server, path).reload()
        spent = await server.post("/v1/score", {**ASK, "response": "B"}, **OLD)
        other = await server.post("/v1/score", {**ASK, "response": "C"}, **NEW)
    assert (first.json["status"], spent.json["status"], other.json["status"]) == (
        "ok",
        "budget_spent",
        "ok",
    )


def code(url: str, token: str) -> int:
    request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
    try:
        return int(urllib.request.urlopen(request, timeout=PATIENCE_S).status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_sighup_reloads_the_process_and_all_its_workers(workers: int, tmp_path: Path) -> None:
    path = write(tmp_path / "server.yaml", tokens={"a": "old"})
    with started("--offline", f"--config={path}", f"--workers={workers}") as (process, url):
        process.first_lines(workers, PATIENCE_S)
        assert {code(url, "old") for _ in range(8)} == {200}
        write(path, tokens={"b": "new"})
        process.send_signal(signal.SIGHUP)
        eventually(lambda: {code(url, "new") for _ in range(16)} == {200}, "all take the new token")
        assert {code(url, "old") for _ in range(8)} == {401}
        process.send_signal(signal.SIGTERM)
        process.communicate(PATIENCE_S)
        assert process.returncode == 0
