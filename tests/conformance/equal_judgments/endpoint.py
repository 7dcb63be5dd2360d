"""The endpoint that both checkouts ask: a real HTTP server whose answers are made from seed, request and repetition.

Each setting has a path of its own, so that what one of them asks is recorded by itself. An answer
depends on nothing
else: neither on the order of arrival nor on what other settings ask.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from aiohttp import web
from typing_extensions import Self

from tests.conformance.equal_judgments.replies import Asked, is_refused_format, reply_to

_LONGEST = 256 * 1024 * 1024


class Endpoint:
    """Serves on a thread of its own while its `with` block lasts.

    Attributes:
        address: `http://HOST:PORT`; the base URL of a setting is `ADDRESS/SETTING/v1`.
    """

    def __init__(self, seed: int) -> None:
        self.address = ""
        self._seed = seed
        self._asked: dict[str, Counter[str]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def base_url(self, setting: str) -> str:
        """Where a setting asks."""
        return f"{self.address}/{setting}/v1"

    def take_asked(self, setting: str) -> Mapping[str, int]:
        """The requests of a setting, each with how often it came; they are forgotten here."""
        return self._asked.pop(setting, Counter())

    async def _open(self) -> None:
        app = web.Application(client_max_size=_LONGEST)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        _, setting, path = request.path.split("/", 2)
        if request.method != "POST":
            return web.json_response({"error": {"message": "not found"}}, status=404)
        body = json.loads(raw)
        text = json.dumps({"path": path, **body}, sort_keys=True, ensure_ascii=False)
        of_setting = self._asked.setdefault(setting, Counter())
        if "batched" in setting:
            of_setting.update(_inputs(body))
        elif not is_refused_format(
            setting, body
        ):  # who is the first to find it out depends on time
            of_setting[text] += 1
        digest = hashlib.sha256(f"{self._seed} {text}".encode()).hexdigest()
        reply = reply_to(Asked(setting, path, self._seed, body, digest, max(1, of_setting[text])))
        if reply.is_dropped:
            assert request.transport is not None
            request.transport.close()
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        return web.Response(
            status=reply.status,
            body=content,
            headers={"Content-Type": "application/json", **reply.headers},
        )


def _inputs(body: Mapping[str, Any]) -> list[str]:
    """The inputs of a request to a reward model that calls share as time has it, as requests of one each."""
    lists = {name: value for name, value in body.items() if isinstance(value, list)}
    count = min(map(len, lists.values()))
    return [
        json.dumps(
            {**body, **{name: value[place] for name, value in lists.items()}}, ensure_ascii=False
        )
        for place in range(count)
    ]
