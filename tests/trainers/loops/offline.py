"""The offline judge as an endpoint in the test's own process, with or without planted failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from judgegym.offline.answers import make_answers
from judgegym.offline.request import parse_request
from tests.scripted import Json, Reply, ScriptedEndpoint

_EVERY = 3


class OfflineJudge:
    """A script for `ScriptedEndpoint` that answers as `--offline` does.

    With planted failures, every third distinct request is refused, whenever it comes; so it is
    known which texts have no verdict, in whatever order a trainer sends them.

    Attributes:
        failed: the texts of the requests that were refused.
        asked: how many requests there were.
    """

    def __init__(self, *, every_third_fails: bool = False) -> None:
        self.failed: list[str] = []
        self.asked = 0
        self._fails = every_third_fails
        self._numbers: dict[str, int] = {}

    def __call__(self, request: Json, number: int) -> Reply | str:
        self.asked += 1
        body = json.dumps(request, sort_keys=True)
        place = self._numbers.setdefault(body, len(self._numbers) + 1)
        if self._fails and place % _EVERY == 0:
            self.failed.append("\n".join(message["content"] for message in request["messages"]))
            return Reply(status=400, body={"error": {"message": "planted"}})
        return make_answers(parse_request(body.encode()), judge_only=True)[0]

    @property
    def distinct(self) -> int:
        """How many distinct requests there were."""
        return len(self._numbers)

    def has_failed(self, *texts: str) -> bool:
        """Whether a request was refused that showed all of these texts."""
        return any(all(text in asked for text in texts) for asked in self.failed)


@asynccontextmanager
async def offline_judge(
    *, every_third_fails: bool = False
) -> AsyncIterator[tuple[str, OfflineJudge]]:
    """The base URL of the endpoint, for judges that run in a trainer's process, and the judge behind it."""
    judge = OfflineJudge(every_third_fails=every_third_fails)
    async with ScriptedEndpoint(judge) as endpoint:
        yield endpoint.base_url, judge


@asynccontextmanager
async def judging_all_at_once(count: int) -> AsyncIterator[ScriptedEndpoint]:
    """The endpoint of an offline judge that answers nobody before `count` requests have come."""
    everybody = asyncio.Event()
    offline = OfflineJudge()

    async def judge(request: Json, number: int) -> Reply | str:
        if number >= count:
            everybody.set()
        await everybody.wait()
        return offline(request, number)

    async with ScriptedEndpoint(judge) as endpoint:
        yield endpoint
