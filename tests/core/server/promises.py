"""What the reward server promises over HTTP, whichever framework it is bound to: one function for each promise.

Each takes a server with the settings `SETTINGS`, before a judge that is `by_response`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from judgegym.llm.wire import JSON
from tests.core.server.bodies import VERIFY, logs
from tests.core.server.running import Reached
from tests.trainer import until

TOKEN = "open-sesame"
SETTINGS: dict[str, JSON] = {
    "tokens": {"trainer-a": TOKEN, "slashed": "with/slash"},
    "mounts": {
        "safety": {"judge": "aspect", "aspects": ["harmfulness"]},
        "pairs": {"judge": "listwise", "group_size": 2},
    },
    "max_body_mb": 1,
}
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
ASK = {"prompt": "What is 2 + 2?", "response": "4"}
MIB = 1024 * 1024
_NOTICED_S = 5.0


async def answers_each_protocol(server: Reached) -> None:
    native = await server.post("/v1/score", ASK, **KNOWN)
    rewards = await server.post(
        "/get_reward", {"query": ["Q: 4"], "prompts": ["Q: "], "labels": None}, **KNOWN
    )
    number = await server.post("/slime", {**ASK, "label": None}, **KNOWN)
    failed = await server.post("/slime", {**ASK, "response": "FAIL", "label": None}, **KNOWN)
    row = await server.post("/verify", VERIFY, **KNOWN)
    assert [each.status for each in (native, rewards, number, row)] == [200] * 4
    assert (native.json["score"], native.json["status"]) == (1.0, "ok")
    assert rewards.json == {"rewards": [1.0], "scores": [1.0], "extra_logs": logs(0.0)}
    assert number.text == "1.0"
    assert (failed.status, failed.json["error"]["type"]) == (503, "judge_failed")
    assert (row.json["reward"], row.json["difficulty"]) == (1.0, 3)
    assert native.headers["Content-Type"] == "application/json"


async def asks_for_a_token(server: Reached) -> None:
    basic = {"Authorization": f"Basic {b64encode(f'{TOKEN}:'.encode()).decode()}"}
    stranger = await server.post("/v1/score", ASK)
    wrong = await server.post("/v1/score", ASK, Authorization="Bearer wrong")
    as_user = await server.post("/v1/score", ASK, **basic)
    in_path = await server.post(f"/token/{TOKEN}/v1/score", ASK)
    quoted = await server.post("/token/with%2Fslash/safety/reverify_mode", ASK)
    assert (stranger.status, wrong.status, as_user.status, in_path.status) == (401, 401, 200, 200)
    assert quoted.status == 405  # known, and of another method
    assert stranger.headers["WWW-Authenticate"] == "Bearer"
    assert stranger.json["error"]["type"] == "unauthorized"


async def tells_errors_in_json_with_a_request_id(server: Reached) -> None:
    cases = [
        (await server.post("/v1/score", "{", **KNOWN), 400, "malformed"),
        (await server.post("/v1/score", "[]", **KNOWN), 422, "invalid"),
        (await server.post("/v1/score", {**ASK, "refrence": "4"}, **KNOWN), 422, "invalid"),
        (await server.post("/v2/score", ASK, **KNOWN), 404, "http_error"),
        (await server.get("/v1/score", **KNOWN), 405, "http_error"),
        (
            await server.post("/v1/score", b"\x00", **KNOWN, **{"Content-Encoding": "br"}),
            415,
            "unsupported",
        ),
    ]
    for answer, status, kind in cases:
        assert (answer.status, answer.json["error"]["type"]) == (status, kind)
        assert answer.json["error"]["request_id"] == answer.headers["X-Request-Id"]
    assert cases[4][0].headers["Allow"] == "POST"
    assert cases[5][0].headers["Accept-Encoding"] == "gzip, deflate"


async def gives_each_request_an_id(server: Reached) -> None:
    given = await server.post("/v1/score", ASK, **KNOWN, **{"X-Request-Id": "step-7"})
    strange = await server.post("/v1/score", ASK, **KNOWN, **{"X-Request-Id": "x" * 65})
    assert given.headers["X-Request-Id"] == "step-7"
    assert len(strange.headers["X-Request-Id"]) == 32


async def bounds_bodies(server: Reached) -> None:
    largest = json.dumps(ASK).ljust(MIB)
    bomb = gzip.compress(b" " * 50 * MIB)
    zipped = {"Content-Encoding": "gzip"}
    assert (await server.post("/v1/score", largest, **KNOWN)).status == 200
    assert (await server.post("/v1/score", f"{largest} ", **KNOWN)).status == 413
    assert (await server.post("/v1/score", bomb, **KNOWN, **zipped)).status == 413
    assert (
        await server.post("/v1/score", gzip.compress(json.dumps(ASK).encode()), **KNOWN, **zipped)
    ).status == 200
    assert (
        await server.post("/v1/score", gzip.compress(b"{}")[:-4], **KNOWN, **zipped)
    ).status == 400
    assert (await server.post("/v1/score", json.dumps(ASK), **KNOWN, **zipped)).status == 400


async def reads_a_body_in_pieces_up_to_its_bound(server: Reached) -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        yield json.dumps(ASK).encode()
        for _ in range(count):
            yield b" " * 1024
            await asyncio.sleep(0)

    async def posted(count: int) -> int:
        async with server.session.post(
            f"{server.url}/v1/score", data=pieces(count), headers=KNOWN
        ) as answer:
            return answer.status

    assert [await posted(10), await posted(1024)] == [200, 413]


async def counts_a_caller_that_leaves_in_its_body(server: Reached) -> None:
    await _leaves(server, lambda number: _head(server, 100) + b"{", judge="")


async def counts_a_caller_that_leaves_while_it_waits_for_its_group(server: Reached) -> None:
    def sent(
        number: int,
    ) -> bytes:  # of another group each time: two callers of one group are answered at once
        content = json.dumps({**ASK, "prompt": f"{ASK['prompt']} ({number})"}).encode()
        return _head(server, len(content), mount="/pairs") + content

    await _leaves(server, sent, judge="pairs")


async def _leaves(server: Reached, sent: Callable[[int], bytes], *, judge: str) -> None:
    """Send what this makes of the number of the try, and leave, until that is counted.

    A caller may leave before Ray's proxy has handed its request on, and nobody ever sees it: the
    next one stays longer.
    """
    line = f'judgegym_requests_total{{code="499",judge="{judge}",protocol="native"}}'

    async def counted() -> bool:
        return line in (await server.get("/metrics", **KNOWN)).text

    for number, stays_s in enumerate((0.05, 0.5, 2.0, 5.0)):
        async with connected(server) as (_, writer):
            writer.write(sent(number))
            await writer.drain()
            await asyncio.sleep(stays_s)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(until(counted, "the request is counted"), _NOTICED_S)
            return
    raise AssertionError("no caller that left was counted")


@asynccontextmanager
async def connected(
    server: Reached,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    parts = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def _head(server: Reached, length: int, mount: str = "") -> bytes:
    path = f"{urlsplit(server.url).path}{mount}/v1/score"
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        f"Authorization: {KNOWN['Authorization']}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def serves_its_pages(server: Reached) -> None:
    page, alive, ready = [await server.get(path) for path in ("/", "/healthz", "/readyz")]
    document = await server.get("/openapi.json")
    recent, counted = await server.get("/v1/recent", **KNOWN), await server.get("/metrics", **KNOWN)
    async with server.session.head(f"{server.url}/healthz") as head:
        of_head = (head.status, head.headers["Content-Length"], await head.read())
    assert [each.status for each in (page, alive, ready, document, recent, counted)] == [200] * 6
    assert page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert {"/v1/score", "/safety/v1/score"} <= set(document.json["paths"])
    assert counted.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "judgegym_requests_total" in counted.text
    assert isinstance(recent.json["judgments"], list)
    assert of_head == (200, str(len(alive.text)), b"")


async def serves_many_at_once(server: Reached) -> None:
    bodies = [
        {"query": [f"Q: {number}"], "prompts": ["Q: "], "labels": None} for number in range(100)
    ]
    answers = await asyncio.gather(*(server.post("/get_reward", body, **KNOWN) for body in bodies))
    assert [answer.status for answer in answers] == [200] * 100
    assert [answer.json["rewards"] for answer in answers] == [
        [1.0 if str(number).startswith("4") else 0.0] for number in range(100)
    ]


PROMISES: tuple[Callable[[Reached], Awaitable[None]], ...] = (
    answers_each_protocol,
    asks_for_a_token,
    tells_errors_in_json_with_a_request_id,
    gives_each_request_an_id,
    bounds_bodies,
    reads_a_body_in_pieces_up_to_its_bound,
    counts_a_caller_that_leaves_in_its_body,
    counts_a_caller_that_leaves_while_it_waits_for_its_group,
    serves_its_pages,
    serves_many_at_once,
)
