"""Where a reward function gets its scores: from a reward server over HTTP, or from the same core in this process.

Trainers call from any event loop, some from a new one each time. Therefore sessions and cores are stored by loop.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import aiohttp

from judges.llm import wire
from judges.llm.wire import JSON
from judges.server.core import Core, OverloadError
from judges.server.items import ResponseScore, failure
from judges.server.protocols.native import Native, ScoreBody
from judges.server.settings import JudgeMount

logger = logging.getLogger(__name__)

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each retry of a reward server that cannot be reached or is full."""


class Scoring(Protocol):
    """Scores requests of the native protocol."""

    async def score(self, request: Mapping[str, JSON]) -> list[ResponseScore]:
        """A result for each response of a `POST /v1/score` body. A failed judge is a result, not an error.

        Raises:
            ValueError: the request cannot be judged (a missing baseline, a rubric of another scale, …).
        """

    async def close(self) -> None:
        """Close the session or the core of this event loop."""


class ServerScoring:
    """Scores of a reward server, with a session for each event loop."""

    def __init__(self, url: str, *, token: str | None = None, judge: str = "", timeout_s: float = 150.0) -> None:
        """Score through the server at `url`.

        Args:
            url: the server's URL, such as `http://127.0.0.1:8400`.
            token: a bearer token, if the server needs one.
            judge: the name of a mounted judge; empty for the judge at the root.
            timeout_s: seconds for one attempt; more than the server's deadline.
        """
        self._url = f"{url.rstrip('/')}{f'/{judge}' if judge else ''}/v1/score"
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            weakref.WeakKeyDictionary()
        )

    async def score(self, request: Mapping[str, JSON]) -> list[ResponseScore]:
        """See `Scoring`. Retry after each of `PAUSES_S` while the server cannot be reached or is full."""
        responses = request.get("responses")
        count = len(responses) if isinstance(responses, Sequence) else 1
        failed = ""
        for pause_s in (0.0, *PAUSES_S):
            await asyncio.sleep(pause_s)
            try:
                code, body = await self._post(request)
            except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
                failed = f"the reward server at {self._url}: {type(error).__name__}: {error}"
                continue
            if code == 200:
                return _results(body)
            failed = f"the reward server at {self._url}: HTTP {code}: {wire.error_text(wire.dumps(body))}"
            if code in (400, 401, 404, 405, 413, 422):
                raise ValueError(failed)
        logger.warning("no score: %s", failed)
        return [failure(failed)] * count

    async def _post(self, request: Mapping[str, JSON]) -> tuple[int, JSON]:
        session = self._session()
        async with session.post(self._url, data=wire.dumps(request), headers=self._headers) as response:
            return response.status, wire.loads(await response.read())

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            connector = aiohttp.TCPConnector(limit=0)
            session = self._sessions[loop] = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return session

    async def close(self) -> None:
        """Close this event loop's session."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()


class InProcessScoring:
    """Scores of a judge in this process, with a core for each event loop."""

    def __init__(self, judge: JudgeMount, *, deadline_s: float = 900.0) -> None:
        """Score with `judge`, configured as in the server.

        Args:
            judge: the settings of the judge.
            deadline_s: seconds within which a score is returned.
        """
        self._judge = judge
        self._deadline_s = deadline_s
        self._cores: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Core] = weakref.WeakKeyDictionary()
        self._native = Native()

    async def score(self, request: Mapping[str, JSON]) -> list[ResponseScore]:
        """See `Scoring`; a request that the core cannot judge raises a `ValueError`."""
        items = self._native.items(ScoreBody.model_validate(dict(request)), request)
        core = await self._core()
        try:
            results = await core.score("", items)
        except OverloadError:
            results = [[failure("too many judgments are under way")] * len(item.responses) for item in items]
        return [result for results_of_item in results for result in results_of_item]

    async def _core(self) -> Core:
        loop = asyncio.get_running_loop()
        if loop not in self._cores:
            core = Core({"": self._judge}, deadline_s=self._deadline_s, max_pending=100_000)
            self._cores[loop] = core  # before it is open, so that no concurrent call opens another
            try:
                await core.__aenter__()
            except BaseException:  # any error: forget the core, which is not open, and raise
                del self._cores[loop]
                raise
        return self._cores[loop]

    async def close(self) -> None:
        """Close this event loop's core."""
        core = self._cores.pop(asyncio.get_running_loop(), None)
        if core is not None:
            await core.__aexit__(None, None, None)


def _results(body: JSON) -> list[ResponseScore]:
    if not isinstance(body, Mapping):
        raise ValueError("expected an object")
    several = body.get("results")
    results = several if isinstance(several, Sequence) else [body]
    return [_of_json(cast("Mapping[str, JSON]", result)) for result in results]


def _of_json(result: Mapping[str, JSON]) -> ResponseScore:
    score, components = result.get("score"), result.get("components")
    return ResponseScore(
        score=float(score) if isinstance(score, int | float) else None,
        status=str(result.get("status")),
        explanation=str(result.get("explanation", "")),
        components={
            name: float(value)
            for name, value in (components.items() if isinstance(components, Mapping) else ())
            if isinstance(value, int | float)
        },
    )


def scoring(url: str | None, judge: JudgeMount | None, *, token: str | None, mount: str, timeout_s: float) -> Scoring:
    """Score with the server at `url`, or with `judge` in this process.

    Raises:
        ValueError: neither or both are given.
    """
    if (url is None) == (judge is None):
        raise ValueError("expected either url (of a reward server) or judge (to run in this process)")
    if judge is not None:
        return InProcessScoring(judge)
    assert url is not None
    return ServerScoring(url, token=token, judge=mount, timeout_s=timeout_s)
