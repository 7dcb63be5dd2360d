"""Scores from a reward server over HTTP."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp

from judgegym.judges.core.tasks import BUDGET_SPENT
from judgegym.llm import wire
from judgegym.llm.errors import BudgetError, SettingsError
from judgegym.llm.http.connector import CheckedConnector
from judgegym.llm.retries.retry import REQUEST_DEADLINE, retry_after_seconds
from judgegym.llm.urls import redact_credentials
from judgegym.llm.wire import JSON
from judgegym_trainers.scores.requests import CompletionRow, make_request_body
from judgegym_trainers.scores.results import OK, CompletionReward, RefusedError, make_failures

logger = logging.getLogger(__name__)

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Seconds before each retry at an unreachable reward server."""

_HINTS = {
    401: "set token to one of the server's bearer tokens",
    403: "the token may not be used here",
    404: "there is no such judge at the server: check url and mount",
    405: "this is not a reward server: check url",
}
_REFUSED = (400, 413, 422)
_BUSY = 503
_MAX_MESSAGE_LENGTH = 200
_TOKEN_IN_PATH = re.compile(r"(?<=/token/)[^/]+")


class ServerSource:
    """A reward server, with one session."""

    def __init__(
        self, url: str, *, token: str | None, mount: str, timeout_s: float, deadline_s: float
    ) -> None:
        """Score through the server at `url`.

        Args:
            url: the server's URL, such as `http://127.0.0.1:8400`; a token in it is never shown.
            token: a bearer token, if the server needs one.
            mount: the name of a mounted judge; empty for the judge at the root.
            timeout_s: seconds for one attempt; after them an unreachable server is not retried.
            deadline_s: seconds for a request with all its attempts, at a server that asks for
                retries (503).

        Raises:
            SettingsError: `url` is not the URL of a server, or no header can hold the token.
        """
        if not _is_http(url):
            raise SettingsError(
                "url: expected the URL of a reward server, such as http://127.0.0.1:8400"
            )
        token = (token or "").strip()  # a secret read from a file ends with a line break
        if not all("!" <= character <= "~" for character in token):
            raise SettingsError(
                "token: it has a character that no HTTP header can hold, such as a space"
            )
        if token and redact_credentials(url) != url:
            raise SettingsError(
                "token: the url has a user or a password already; expected a token or these, not "
                "both"
            )
        base_url = url.rstrip("/")
        if mount:
            base_url += f"/{mount}"
        self._url = f"{base_url}/v1/score"
        self._redacted_url = _TOKEN_IN_PATH.sub("…", redact_credentials(self._url))
        self._headers = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._session: aiohttp.ClientSession | None = None
        self._is_away = False
        self._is_proven = False

    async def score(self, group: Sequence[CompletionRow]) -> list[CompletionReward]:
        """Score a group, as `Source` says; retry after each of `PAUSES_S` while it is unreachable.

        A busy server (503) is called again after its `Retry-After`, until the deadline: judgments
        in progress continue, and are not paid for twice. If a server that has responded before now
        rejects the judge or the token, it is retried like an unreachable one: a proxy responds so
        while the server restarts.

        Raises:
            BudgetError: a budget at the server is spent: no later request would get a score.
        """
        request = wire.dumps(make_request_body(group))
        started = time.monotonic()
        pauses = iter(PAUSES_S)
        while True:
            left_s = self._deadline_s - (time.monotonic() - started)
            pause_s = next(pauses, math.inf)
            until_s = self._timeout_s
            hint = ""
            try:
                code, data, retry_after_s = await self._post(request, min(self._timeout_s, left_s))
                if code == 200:
                    results = _parse_results(wire.loads(data), len(group))
                    self._is_proven = True
                    self._log_change(is_back=True)
                    if spent := next(
                        (result for result in results if result.status == BUDGET_SPENT), None
                    ):
                        raise BudgetError(
                            f"the reward server at {self._redacted_url}: {spent.explanation}"
                        )
                    return results
                problem = f"HTTP {code}: " + wire.shorten(wire.error_text(data))
                hint = _HINTS.get(code, "")
                if code == _BUSY and retry_after_s is not None:
                    pause_s = retry_after_s
                    until_s = self._deadline_s
                    pauses = iter(PAUSES_S)
            except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
                kind = type(error).__name__
                code = 0
                problem = f"{kind}: {error}"
            problem = f"the reward server at {self._redacted_url}: {problem}"
            if code in _REFUSED:
                raise RefusedError(problem)
            is_over = time.monotonic() - started + pause_s >= until_s or (
                hint and not self._is_proven
            )
            if is_over and hint:
                raise SettingsError(f"{problem} ({hint})")
            self._log_change(problem)
            if is_over:
                logger.warning("no score: %s", problem)
                return make_failures(problem, len(group))
            await asyncio.sleep(pause_s)

    def _log_change(self, problem: str = "", *, is_back: bool = False) -> None:
        """Log once that the server does not respond and is retried, and once that it is back."""
        if is_back is self._is_away:
            self._is_away = not is_back
            message = f"{problem}; asking again"
            if is_back:
                message = f"the reward server at {self._redacted_url} is back"
            logger.warning("%s", message)

    async def _post(self, request: bytes, within_s: float) -> tuple[int, bytes, float | None]:
        """Send a request; return the status, the body, and the seconds of `Retry-After`."""
        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            self._session = aiohttp.ClientSession(connector=CheckedConnector(), timeout=timeout)
        deadline_s = max(0.001, within_s)
        headers = {**self._headers, REQUEST_DEADLINE: f"{deadline_s:.3f}"}
        async with self._session.post(self._url, data=request, headers=headers) as response:
            data = await response.read()
            return response.status, data, retry_after_seconds(response.headers.get("Retry-After"))

    async def close(self) -> None:
        """Close the session."""
        session = self._session
        self._session = None
        if session is not None:
            await session.close()


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = not parts.query and not parts.fragment  # a judge's path is appended
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and is_whole
        )
    except ValueError:  # malformed brackets or port
        return False


def _parse_results(body: JSON, count: int) -> list[CompletionReward]:
    items = None
    if isinstance(body, Mapping):
        items = body.get("results", [body])
    if not isinstance(items, Sequence) or len(items) != count:
        raise ValueError(f"expected an object with {count} results")
    return [_parse_result(result) for result in items]


def _parse_result(result: JSON) -> CompletionReward:
    if not isinstance(result, Mapping) or not isinstance(result.get("status"), str):
        raise ValueError("expected a result with score and status")
    score = result.get("score")
    label = result.get("label")
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1
    ):
        raise ValueError(
            f"expected a score from 0 to 1, found {score!r}"[:_MAX_MESSAGE_LENGTH]
        )  # NaN is none of these
    return CompletionReward(
        reward=None if score is None or result["status"] != OK else float(score),
        status=str(result["status"]),
        label=label if isinstance(label, str) else None,
        explanation=str(result.get("explanation", "")),
    )
