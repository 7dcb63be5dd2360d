"""The reward server in this process, over real HTTP, before a judge that the test scripts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from judgegym.judges.config.sources import load
from judgegym.server.http import listening
from judgegym.server.service import Service, open_service
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.scripted import Reply, Script, ScriptedEndpoint


@dataclass(frozen=True)
class Answer:
    """What the server answered; `json` is `None` for a body that is none."""

    status: int
    json: Any
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Reached:
    """A server as its callers see it, and the judge behind it."""

    url: str
    judge: ScriptedEndpoint
    session: aiohttp.ClientSession

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        data = body if isinstance(body, bytes | str) else json.dumps(body)
        async with self.session.post(self.url + path, data=data, headers=headers) as response:
            return await answer_of(response)

    async def get(self, path: str, **headers: str) -> Answer:
        async with self.session.get(self.url + path, headers=headers) as response:
            return await answer_of(response)


@dataclass(frozen=True)
class Running(Reached):
    """A server in this process."""

    service: Service


PLACE = ("--port=0", "--drain_timeout=0.1")
"""Of a server in a test: any port, and a short time for requests in flight at its end."""


async def answer_of(response: aiohttp.ClientResponse) -> Answer:
    """What a response says."""
    text = await response.text()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return Answer(response.status, value, response.headers, text)


def judged_by(endpoint: ScriptedEndpoint) -> dict[str, str]:
    """The settings of a server whose judge is scripted, and fails at once where it fails."""
    return {
        "judge_base_url": endpoint.base_url,
        "judge_model_name": "the-judge",
        "judge_max_retries": "0",
    }


@asynccontextmanager
async def running(
    *flags: str, judge: Script | Reply | str = "[FEEDBACK] fine [SCORE] 4"
) -> AsyncIterator[Running]:
    """A server with these flags; its judge is scripted and fails at once where it fails."""
    async with ScriptedEndpoint(judge) as endpoint:
        judged = [f"--{name}={value}" for name, value in judged_by(endpoint).items()]
        argv = [
            *PLACE,
            *([] if "--judge=rule" in flags else judged),
            *flags,
        ]  # a rule asks no endpoint
        loaded = load(RewardServerSettings, argv, prog="test", reshape=add_preset)
        async with (
            open_service(loaded) as service,
            aiohttp.ClientSession() as session,
            listening(service) as (_, port),
        ):
            yield Running(f"http://127.0.0.1:{port}", endpoint, session, service)


def asked(request: dict[str, Any]) -> str:
    """All that a judge was shown."""
    return "\n".join(message["content"] for message in request["messages"])
