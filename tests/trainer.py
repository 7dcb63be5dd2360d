"""The other side of `serve`: Atropos' real rollout API as a process, a trainer that takes batches from it, and a server
whose script answers any path (a rollout API made up by the test, or a stretch of bad road before
the real one).
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import json
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from tests.command import PATIENCE_S, ROOT, clean_environment
from tests.forking import Forked
from tests.scripted import Json, Recorded, Reply, ScriptedEndpoint

Group = dict[str, Any]
Batch = list[Group]
PathScript = Callable[[Recorded, int], "Reply | Awaitable[Reply]"]

POSTS = ("/scored_data", "/scored_data_list")
"""Where groups are posted: one, or several together."""
_POLL_S = 0.01


async def until(happened: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait until something has happened."""

    async def poll() -> None:
        while True:
            answer = happened()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(_POLL_S)

    try:
        await asyncio.wait_for(poll(), PATIENCE_S)
    except asyncio.TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


def free_port() -> int:
    """A port that stays free while nobody listens: below those that the system gives to anyone, another one for each
    worker of the test run."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    lowest = 15_000 + 500 * (int(worker or 0) % 30)
    for port in random.sample(range(lowest, lowest + 500), 500):
        with socket.socket() as bound:
            try:
                bound.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no free port from {lowest} on")


class RunApi:
    """`run-api` as a process; started again, it has forgotten everything and has the same port."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: Forked | None = None

    async def start(self) -> None:
        words = ("-m", "atroposlib.cli.run_api", "--host=127.0.0.1", f"--port={self.port}")
        self._process = Forked(words, cwd=ROOT, env=clean_environment(), kept=())
        async with aiohttp.ClientSession() as session:
            await until(lambda: self._answers(session), "the rollout API answers")

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the rollout API does not start"
        try:
            async with session.get(f"{self.url}/info") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process.close()
            self._process = None

    async def __aenter__(self) -> RunApi:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.kill()


_shared: list[RunApi] = []
"""The one rollout API of the tests that neither stop it nor need its start."""


async def shared_run_api() -> RunApi:
    """A rollout API that has forgotten all earlier tests; one for each process that runs tests."""
    if not _shared:
        api = RunApi()
        await api.start()
        atexit.register(api.kill)
        _shared.append(api)
    (api,) = _shared
    async with aiohttp.ClientSession() as session, session.get(f"{api.url}/reset_data") as response:
        assert response.status == 200
    return api


class Trainer:
    """A trainer: registers, asks for batches, remembers them."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.batches: list[Batch] = []
        self._session = session

    async def register(self, batch_size: int, **other: Any) -> None:
        """Register, and ask for the first batch, which is what lets environments in; `other` as in `Registration`."""
        await self.call("POST", "/register", {**registration(batch_size), **other})
        await self.poll()

    async def poll(self) -> Batch | None:
        """Ask for a batch once."""
        batch: Batch | None = (await self.call("GET", "/batch"))["batch"]
        if batch:
            self.batches.append(batch)
        return batch or None

    async def take(self, count: int = 1) -> list[Batch]:
        """The next batches, as soon as they are there."""
        wanted = len(self.batches) + count

        async def taken() -> bool:
            await self.poll()
            return len(self.batches) == wanted

        await until(taken, f"batch {wanted} of the trainer")
        return self.batches[-count:]

    async def queued(self) -> int:
        """Groups that wait at the API."""
        return int((await self.call("GET", "/status"))["queue_size"])

    async def call(self, method: str, path: str, body: Json | None = None) -> Json:
        async with self._session.request(method, self.url + path, json=body) as response:
            assert response.status == 200, (
                f"{method} {path}: {response.status}: {await response.text()}"
            )
            answer: Json = await response.json()
            return answer


def posted(request: Recorded) -> list[Group]:
    """The groups of a post."""
    groups: list[Group] = request.json if isinstance(request.json, list) else [request.json]
    return groups


def registration(batch_size: int) -> Json:
    """What a trainer registers with."""
    return {
        "wandb_group": "the-group",
        "wandb_project": "the-project",
        "batch_size": batch_size,
        "max_token_len": -1,
        "checkpoint_dir": "",
        "save_checkpoint_interval": -1,
        "starting_step": 0,
        "num_steps": 1000,
    }


@asynccontextmanager
async def training(batch_size: int, **other: Any) -> AsyncIterator[Trainer]:
    """The real API with a trainer that is ready for batches."""
    api = await shared_run_api()
    async with aiohttp.ClientSession() as session:
        trainer = Trainer(api.url, session)
        await trainer.register(batch_size, **other)
        yield trainer


class ScriptedServer(ScriptedEndpoint):
    """Answers every path by a script that sees the request as it arrived.

    Attributes:
        url: without a path.
    """

    def __init__(self, script: PathScript) -> None:
        super().__init__()
        self._path_script = script

    @property
    def url(self) -> str:
        return self.base_url.removesuffix("/v1")

    def asked(self, *paths: str) -> list[Recorded]:
        """The requests for these paths."""
        return [request for request in self.requests if request.path in paths]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else {}
        recorded = Recorded(
            request.method, request.path, request.headers, body, raw, time.monotonic()
        )
        self.requests.append(recorded)
        self._arrival.set()
        try:
            reply = self._path_script(recorded, len(self.requests))
            given = await reply if inspect.isawaitable(reply) else reply
        except Exception as error:  # noqa: BLE001  # a failed assertion in a script must fail the test
            self._script_error = error
            given = Reply(
                status=400, body={"error": {"message": f"the test's script raised {error!r}"}}
            )
        return await self._answer(request, given)


def passing_on(
    url: str,
    session: aiohttp.ClientSession,
    instead: Callable[[Recorded], Reply | None] = lambda request: None,
) -> PathScript:
    """A script that passes requests on to a real server, but for those that `instead` answers.

    Where the real server is gone, the connection breaks, as it would without us.
    """

    async def script(request: Recorded, _: int) -> Reply:
        reply = instead(request)
        if reply is not None:
            return reply
        try:
            async with session.request(
                request.method,
                url + request.path,
                data=request.raw,
                headers=_json_headers(request.headers),
            ) as response:
                return Reply(status=response.status, body=await response.read())
        except aiohttp.ClientError:
            return Reply(drop=True)

    return script


def _json_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        "Content-Type": headers.get("Content-Type", "application/json")
    }  # the body is decompressed by now
