"""A judge that is so lean that it is not the limit: a fixed answer after a fixed time, on a bare protocol.

    python -m benchmarks.reward_server.judge LATENCY_MS

`GET /last` answers with the body of the last call, `GET /calls` with the number of calls so far.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from typing import cast

from benchmarks.reward_server.processes import allow_descriptors
from judgegym.judges.core import event_loop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_FEEDBACK = (
    "The response answers what was asked and says why, and leaves out one of the cases that the "
    "rubric names. " * 4 + "The best is [[A]]."  # for the kind that compares
)


def _http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


_MESSAGE = {"role": "assistant", "content": f"[FEEDBACK] {_FEEDBACK}\n[SCORE] 4"}
_CHOICE = {"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}
_USAGE = {"prompt_tokens": 600, "completion_tokens": 100, "total_tokens": 700}
_ANSWER = _http(
    json.dumps(
        {
            "id": "c-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [_CHOICE],
            "usage": _USAGE,
        }
    ).encode()
)


@dataclass
class Calls:
    """What all connections share."""

    latency: float
    count: int = 0
    last: bytes = b""


class Connection(asyncio.Protocol):
    """One connection of a caller that waits for each answer before it sends the next request."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        if self._received.startswith(b"GET "):
            told = (
                self._calls.last
                if self._received.startswith(b"GET /last")
                else b"%d" % self._calls.count
            )
            self._received = b""
            self._transport.write(_http(told))
            return
        length = _LENGTH.search(self._received, 0, head)
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        self._calls.count += 1
        self._calls.last, self._received = self._received[head + 4 :], b""
        self._loop.call_later(self._calls.latency, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def _serve(latency: float) -> None:
    calls = Calls(latency)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(calls), "127.0.0.1", 0, backlog=4096
    )
    print(f"listens at http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    allow_descriptors()
    event_loop.run(_serve(float(sys.argv[1]) / 1000))
