"""Requests to a reward server from bare protocols, in this process: a steady number in flight, or all at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import cast
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_NUMBERS = itertools.count()
_HEAD = (
    b"POST /get_reward HTTP/1.1\r\nHost: judge\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)
_SENTENCE = (
    "The tide is higher twice a day because the water on the near side is drawn more than the sea "
    "below it. "
)


class Refused(Exception):
    """An answer without a reward."""


def texts(characters: int) -> tuple[str, str]:
    """A prompt and a response that no request before had, so that none is joined with another."""
    number = next(_NUMBERS)
    filler = (_SENTENCE * (characters // len(_SENTENCE) + 1))[:characters].rstrip()
    return f"Question {number}: why is it so?", f"It is so, number {number}. {filler}"


def reward_request(prompt: str, response: str) -> bytes:
    """A request of OpenRLHF's client, as it goes over the connection."""
    body = json.dumps(
        {"query": [prompt + response], "prompts": [prompt], "labels": [None]}
    ).encode()
    head = (
        "POST /get_reward HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: %d\r\n\r\n"
    )
    return (head % len(body)).encode() + body


class _Caller(asyncio.Protocol):
    """Sends its next request when the answer of the last one is there, until there are none left."""

    def __init__(
        self, requests: Iterator[bytes], seconds: list[float], started: float | None
    ) -> None:
        self._requests, self._seconds, self._started = requests, seconds, started
        self._received = b""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            if not self.finished.done():
                self.finished.set_result(None)
            return
        self._sent = time.perf_counter() if self._started is None else self._started
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, head) if head >= 0 else None
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        answer, self._received = self._received, b""
        if not _is_judged(answer, head + 4):
            self._fail(Refused(answer.decode()))
            return
        self._seconds.append(time.perf_counter() - self._sent)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(Refused("the connection was closed before an answer"))

    def _fail(self, error: Refused) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


def _is_judged(answer: bytes, start: int) -> bool:
    return answer.startswith(b"HTTP/1.1 200") and json.loads(answer[start:])["extra_logs"][
        "judge_failed"
    ] == [0.0]


async def _call(
    url: str, requests: Iterable[bytes], connections: int, *, at_once: bool
) -> list[float]:
    address, left, seconds = urlsplit(url), iter(requests), list[float]()
    host, port = str(address.hostname), int(address.port or 80)
    loop = asyncio.get_running_loop()
    started = time.perf_counter() if at_once else None

    async def connection() -> None:
        _, caller = await loop.create_connection(
            lambda: _Caller(left, seconds, started), host, port
        )
        await caller.finished

    await asyncio.gather(*(connection() for _ in range(connections)))
    return seconds


async def steady(url: str, count: int, in_flight: int, characters: int) -> list[float]:
    """Send `count` requests, always `in_flight` of them at once; seconds of each.

    Raises:
        Refused: a request got no reward.
    """
    requests = [reward_request(*texts(characters)) for _ in range(count)]
    return await _call(url, requests, in_flight, at_once=False)


async def all_at_once(url: str, count: int, characters: int) -> list[float]:
    """Send `count` requests at once, each on a new connection; seconds of each from the start of all.

    Raises:
        Refused: a request got no reward.
    """
    requests = [reward_request(*texts(characters)) for _ in range(count)]
    return await _call(url, requests, count, at_once=True)
