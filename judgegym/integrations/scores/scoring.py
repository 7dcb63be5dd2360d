"""Where a reward function gets its scores: from a reward server over HTTP, or from the same core in this process.

Guarantees:

* A result within the deadline, which is a failure if there is no answer by then.
* Any event loop, or none, may ask: the work is done on the background loop of the process, which closes sessions when
  the process ends.
* A setting that cannot work (an unknown judge or mount, a missing key, a wrong token) raises a `SettingsError` at the
  first request.
* A row that cannot be judged is a `TextScore` without a score, with one warning for each reason. If the whole first
  batch, or the first `REFUSED_AT_START` requests, are refused, the settings are at fault: a `SettingsError` says so.
* With a reward server only aiohttp and orjson are imported; a judge in this process needs all packages of the judges.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from judgegym.integrations.scores.results import JUDGE_FAILED, REFUSED, TextScore
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

REFUSED_AT_START = 8
_MOST_WARNINGS = 100

Request = Mapping[str, JSON]
"""A body of `POST /v1/score`."""


class RefusedError(ValueError):
    """A request cannot be judged; the message says why."""

    def __init__(self, message: str, *, responses: int = 1) -> None:
        """Say why, and how many responses the request would have had, each of which gets a result."""
        super().__init__(message)
        self.responses = responses


class Source(Protocol):
    """Scores requests; always used on the background loop."""

    async def score(self, request: Request) -> list[TextScore]:
        """A result for each response of the request. A failed judge is a result, not an error.

        Raises:
            RefusedError: the request cannot be judged (a missing baseline, a rubric of another scale, …).
            SettingsError: no request can be judged.
        """

    async def close(self) -> None:
        """Close what is open; the next request opens it again."""


class RewardScorer:
    """Scores the requests of a trainer's reward function."""

    def __init__(self, source: Source, *, deadline_s: float) -> None:
        """Score with `source`, until the end of the process or until `close`.

        Args:
            source: what scores.
            deadline_s: seconds after which a request without an answer has no score.
        """
        self._source = source
        self._deadline_s = deadline_s
        self._refused = 0
        self._is_proven = False
        self._said: set[str] = set()
        self._is_registered = False

    async def score(self, requests: Sequence[Request | RefusedError]) -> list[list[TextScore]]:
        """A result for each response of each request, in order; all requests are judged at the same time.

        Args:
            requests: an error in the place of a request is a row of which no request can be made.

        Raises:
            SettingsError: a setting cannot work.
        """
        return await BACKGROUND.join(self._all(requests))

    async def close(self) -> None:
        """Close the connections; the next request opens them again."""
        await BACKGROUND.join(self._source.close())

    async def _all(self, requests: Sequence[Request | RefusedError]) -> list[list[TextScore]]:
        if not self._is_registered:
            self._is_registered = True
            BACKGROUND.at_exit(self._source.close)
        keys = [(repr(request), _responses(request)) for request in requests]
        distinct = dict(zip(keys, requests, strict=True))  # equal completions are judged once
        judged = await all_results(self._one(request) for request in distinct.values())
        of_each = dict(zip(distinct, judged, strict=True))
        results = [of_each[key] for key in keys]
        # Counted here: another batch may be under way at the same time.
        is_whole_batch = len(requests) > 1 and all(any(result.refusal for result in of_one) for of_one in judged)
        if not self._is_proven and (is_whole_batch or self._refused >= REFUSED_AT_START):
            refusal = next(refusal for of_one in judged for result in of_one if (refusal := result.refusal))
            raise SettingsError(f"the first {self._refused} requests for a score were refused: {refusal}")
        return results

    async def _one(self, request: Request | RefusedError) -> list[TextScore]:
        count = _responses(request)
        try:
            if isinstance(request, RefusedError):
                raise request
            results = await asyncio.wait_for(self._source.score(request), self._deadline_s)
        except asyncio.TimeoutError:
            logger.warning("no score within %g s", self._deadline_s)
            return [TextScore(None, JUDGE_FAILED, f"no score within {self._deadline_s:g} s")] * count
        except RefusedError as error:
            results = [TextScore(None, REFUSED, str(error))] * count
        refusal = next((result.refusal for result in results if result.refusal), "")
        if refusal:
            if not self._is_proven and any(result.is_unauthorized for result in results):
                raise SettingsError(f"the judge's endpoint refuses its requests: {refusal}")
            self._warn(refusal)
        elif any(result.score is not None for result in results):
            self._is_proven = True
        return results

    def _warn(self, refusal: str) -> None:
        """Count a refusal, and warn once for each reason."""
        self._refused += 1
        if refusal not in self._said and len(self._said) < _MOST_WARNINGS:
            self._said.add(refusal)
            logger.warning("a row has no score, because it cannot be judged (said once for each reason): %s", refusal)


def _responses(request: Request | RefusedError) -> int:
    """How many responses a request has."""
    if isinstance(request, RefusedError):
        return request.responses
    responses = request.get("responses")
    return len(responses) if isinstance(responses, Sequence) else 1
