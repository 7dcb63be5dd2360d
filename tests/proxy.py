"""A misbehaving proxy before a real server, such as Atropos' rollout API.

    async with RunApi() as real, MisbehavingProxy(real.url) as proxy:
        proxy.rate = 0.7          # of the requests is answered by 500
        proxy.lost = 0.5          # of those after it was passed on: the server has done what it
        asks proxy.away = True         # every connection breaks without an answer

What a request meets is a function of the seed and the order of the requests.
"""

from __future__ import annotations

import random
from types import TracebackType

import aiohttp

from tests.scripted import Recorded, Reply
from tests.trainer import ScriptedServer, passing_on


class MisbehavingProxy(ScriptedServer):
    """Passes requests on to a real server, or fails.

    Attributes:
        rate: the share of the requests that fail.
        lost: the share of the failing ones that are passed on all the same, so that only the answer
            is lost.
        away: all fail, and none is passed on.
        failure: what a failing request is answered with.
        only: the paths that fail; all if empty.
        failed: how many have failed, by path, as (not passed on, passed on).
    """

    def __init__(self, url: str, *, seed: int = 0) -> None:
        super().__init__(self._script)
        self.rate = 0.0
        self.lost = 0.5
        self.away = False
        self.failure = Reply(status=500, body="Internal Server Error")
        self.only: tuple[str, ...] = ()
        self.failed: dict[str, tuple[int, int]] = {}
        self._random = random.Random(seed)
        self._real = url
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> MisbehavingProxy:
        self._session = aiohttp.ClientSession()
        await super().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)
        assert self._session is not None
        await self._session.close()

    async def _script(self, request: Recorded, number: int) -> Reply:
        assert self._session is not None
        fails, is_lost = self._random.random() < self.rate, self._random.random() < self.lost
        if self.away:
            return Reply(drop=True)
        fails = fails and (not self.only or request.path in self.only)
        if fails:
            before, after = self.failed.get(request.path, (0, 0))
            self.failed[request.path] = (before + (not is_lost), after + is_lost)
            if not is_lost:
                return self.failure
        answer = passing_on(self._real, self._session)(request, number)
        assert not isinstance(answer, Reply)
        passed_on = await answer
        return self.failure if fails else passed_on
