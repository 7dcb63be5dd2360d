"""The reward server as its own command and as an ASGI application, in this process and over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.server.asgi import RewardServer
from tests.core.server.running import Reached, judged_by, running
from tests.scripted import Script, ScriptedEndpoint
from tests.trainer import until

PREFIX = "/ours/re wards"


@asynccontextmanager
async def own_command(settings: Mapping[str, JSON], judge: Script) -> AsyncIterator[Reached]:
    text = {
        name: value if isinstance(value, str) else wire.dumps(value).decode()
        for name, value in settings.items()
    }
    async with running(
        *(f"--{name}={value}" for name, value in text.items()), judge=judge
    ) as server:
        yield server


@asynccontextmanager
async def over_asgi(settings: Mapping[str, JSON], judge: Script) -> AsyncIterator[Reached]:
    """The application alone, opened by its lifespan."""
    async with (
        ScriptedEndpoint(judge) as endpoint,
        aiohttp.ClientSession() as session,
        uvicorn_serves(RewardServer(**judged_by(endpoint), **settings)) as url,
    ):
        yield Reached(url, endpoint, session)


@asynccontextmanager
async def mounted(settings: Mapping[str, JSON], judge: Script) -> AsyncIterator[Reached]:
    """The application in somebody's FastAPI, opened by the first request."""
    fastapi = pytest.importorskip("fastapi")
    async with ScriptedEndpoint(judge) as endpoint, aiohttp.ClientSession() as session:
        parent = fastapi.FastAPI()
        parent.mount(PREFIX, RewardServer(**judged_by(endpoint), **settings))
        async with uvicorn_serves(parent) as url:
            yield Reached(url + PREFIX.replace(" ", "%20"), endpoint, session)


@asynccontextmanager
async def uvicorn_serves(app: Any, **options: Any) -> AsyncIterator[str]:
    """The URL of uvicorn with an application, while the context lasts."""
    uvicorn = pytest.importorskip("uvicorn")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, **options))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or serving.done(), "uvicorn serves")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


BINDINGS = {"command": own_command, "asgi": over_asgi, "mounted": mounted}
