"""Requests leave no reference cycles behind: the server puts garbage collection off, and bodies are large."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from judgegym.judges.config.sources import load
from judgegym.server.request import Message, ServerRequest
from judgegym.server.service import Service, open_service
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.core.server.running import judged_by
from tests.scripted import Reply, ScriptedEndpoint

MARK = "a text that nobody else has"


@pytest.mark.parametrize(
    ("body", "judge", "status"),
    [
        (f'{{"prompt": "Q", "response": "{MARK}"}}', "[FEEDBACK] fine [SCORE] 4", 200),
        (
            f'{{"prompt": "Q", "response": "{MARK}"}}',
            Reply(status=400, body={"error": {"message": "no"}}),
            200,
        ),
        (
            f'{{"prompt": "Q", "response": "{MARK}"}}',
            Reply(status=500, body={"error": {"message": "no"}}),
            200,
        ),
        (f'{{"prompt": "Q", "refrence": "{MARK}"}}', "unused", 422),
        (f'["{MARK}', "unused", 400),
    ],
    ids=["judged", "refused by the judge", "judge failed", "unknown field", "no JSON"],
)
async def test_a_request_leaves_no_cycle_that_holds_its_body(
    body: str, judge: Any, status: int
) -> None:
    async with ScriptedEndpoint(judge) as endpoint:
        argv = [f"--{name}={value}" for name, value in judged_by(endpoint).items()]
        async with open_service(
            load(RewardServerSettings, argv, prog="test", reshape=add_preset)
        ) as service:
            await _asked(service, body, status)  # caches are filled
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                await _asked(service, body, status)
                await asyncio.sleep(0)
                gc.collect()
                left = [
                    item for item in gc.garbage if isinstance(item, BaseException) or holds(item)
                ]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
    assert left == []


def holds(item: object) -> bool:
    return isinstance(item, dict | list | tuple) and MARK in repr(item)


async def _asked(service: Service, body: str, status: int) -> None:
    async def receive() -> Message:
        if not sent:
            sent.append(body)
            return {"type": "http.request", "body": body.encode()}
        await asyncio.Event().wait()
        raise AssertionError

    sent: list[str] = []
    request = ServerRequest({"method": "POST", "path": "/v1/score", "headers": []}, receive)
    response = await service.respond(request)
    request.close()
    assert response.status == status
