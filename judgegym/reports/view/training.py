"""Training runs in `judgegym view`: the page, and its requests while the run is in progress.

While a browser shows a run, its files are checked twice a second; changes are sent as a server-sent
event with the whole state, whose size is bounded. So a line shows within a second of being written,
and a browser that was disconnected misses nothing.

Guarantees: nothing in the folder is changed, except that a paused run is resumed by a request with
the token of its page, which no other site can read. Each run has one reader for all browsers. A
slow browser delays only itself, and nothing is queued for it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from judgegym.llm.errors import UserError
from judgegym.llm.wire import JSON
from judgegym.monitoring.pause import request_resume
from judgegym.reports.document import as_json
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.folder import is_training_run
from judgegym.reports.training.page import group_calls_by_rollout, training_page
from judgegym.reports.training.run import TrainingRun
from judgegym.reports.view.loopback import html_response
from judgegym.reports.view.reports import in_thread

POLL_S = 0.5
_STANDING_S = 5.0
"""How often the state is sent without a change: a run that writes nothing becomes silent."""
_MOST_RUNS = 8
TOKEN = "X-JudgeGym-Token"


class _Reader:
    """Reads one run for all browsers."""

    def __init__(self, path: Path) -> None:
        self.run = TrainingRun(path)
        self.version = 0
        self._lock = asyncio.Lock()
        self._read_at = self._standing_at = 0.0
        self._state = b""

    async def state(self) -> bytes:
        """Return the state as JSON, at most half a second old; a change increases `version`."""
        async with self._lock:
            now = time.monotonic()
            if not self.version or now - self._read_at >= POLL_S / 2:
                is_new = await in_thread(self.run.poll)
                self._read_at = now
                if is_new or not self.version or now - self._standing_at >= _STANDING_S:
                    self._state, self._standing_at = (
                        await in_thread(lambda: as_json(self.run.state())),
                        now,
                    )
                    self.version += 1
        return self._state


class TrainingViews:
    """The responses about training runs."""

    def __init__(self, paths: Callable[[], Mapping[str, Path]]) -> None:
        """Show the runs that `paths` returns by their ids."""
        self._paths = paths
        self._readers: OrderedDict[str, _Reader] = OrderedDict()
        self._ledger_slot = asyncio.Semaphore(1)  # reading a ledger takes long
        self._token = secrets.token_urlsafe()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the page's requests."""
        run = "/run/{id:[0-9a-f]{16}}"
        return [
            web.get(f"{run}/events", self.events, allow_head=False),
            web.post(f"{run}/resume", self.resume),
            web.get(run + "/group/{group:[0-9a-f]{1,8}-[0-9]{1,12}}", self.group, allow_head=False),
            web.get(run + "/calls/{group:[0-9a-f]{1,8}-[0-9]{1,12}}", self.calls, allow_head=False),
        ]

    async def page(self, key: str, path: Path) -> web.StreamResponse:
        """Return the page of a run."""
        reader = self._reader(key, path)
        await reader.state()
        state = reader.run.state()
        page = training_page(state, live=f"/run/{key}", token=self._token)
        return html_response(await in_thread(lambda: b"".join(page)))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send the state whenever it changes, until the browser leaves."""
        reader = await self._requested_reader(request)
        response = web.StreamResponse()
        response.content_type = "text/event-stream"
        await response.prepare(request)
        sent = 0
        with suppress(ConnectionError):  # the browser has left
            while True:
                try:
                    state = await reader.state()
                except UserError:  # the directory was removed; the browser keeps what it has
                    return response
                if reader.version != sent:
                    sent = reader.version
                    await response.write(b"event: state\ndata: " + state + b"\n\n")
                await asyncio.sleep(POLL_S)
        return response

    async def group(self, request: web.Request) -> web.StreamResponse:
        """Return a kept group with its texts."""
        _, group = await self._requested_group(request)
        return _json(as_json(group))

    async def calls(self, request: web.Request) -> web.StreamResponse:
        """Return the calls of a kept group, by rollout, as far as the ledger has them."""
        reader, group = await self._requested_group(request)
        uid = str(group.get("uid"))
        async with self._ledger_slot:
            calls = await in_thread(lambda: CallsOfRows.read(reader.run.path, {uid}))
        return _json(as_json(group_calls_by_rollout(calls, group)))

    async def resume(self, request: web.Request) -> web.StreamResponse:
        """Resume a paused run."""
        token = request.headers.get(TOKEN, "")
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return web.Response(
                status=403,
                text="the token is not that of a page of this server: load the page again\n",
            )
        reader = await self._requested_reader(request)
        if reader.run.state()["standing"] != "paused":
            return web.Response(status=409, text="the run is not paused\n")
        try:
            await in_thread(lambda: request_resume(reader.run.path))
        except OSError as error:
            return web.Response(
                status=500, text=f"{reader.run.path} cannot be written to: {error.strerror}\n"
            )
        return web.Response(status=202, text="it goes on within a second\n")

    async def _requested_reader(self, request: web.Request) -> _Reader:
        key = request.match_info["id"]
        path = (await in_thread(self._paths)).get(key)
        if path is None or not is_training_run(path):
            raise web.HTTPGone(text="this run is not in the folder any more\n")
        reader = self._reader(key, path)
        if not reader.version:
            await reader.state()
        return reader

    async def _requested_group(self, request: web.Request) -> tuple[_Reader, Mapping[str, JSON]]:
        reader = await self._requested_reader(request)
        group = reader.run.group(request.match_info["group"])
        if group is None:
            raise web.HTTPGone(text="this group is not kept any more\n")
        return reader, group

    def _reader(self, key: str, path: Path) -> _Reader:
        """Return the reader of a run; the last used ones are kept, event streams keep theirs."""
        reader = self._readers.setdefault(key, _Reader(path))
        self._readers.move_to_end(key)
        if len(self._readers) > _MOST_RUNS:
            self._readers.popitem(last=False)
        return reader


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
