"""A judge that sends a second answer after the first: no answer is taken for that of another request."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from judgegym.llm.http import connector
from tests.arena import Arena, RunFiles, answering, judge
from tests.command import in_process
from tests.faults.bench import Loop
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

ROWS, GAMES = 60, 2
BOUND_S = 20.0
"""For a client that loses a request; never a measure."""
LABELS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


def verdict(uid: str, as_a: bool) -> str:
    """A judge whose verdict is a function of row and order."""
    return f"Because of {uid}. [[{LABELS[zlib.crc32(f'{uid} {as_a}'.encode()) % len(LABELS)]}]]"


class StrayPeer:
    """A judge over plain TCP with keep-alive, which answers at times twice.

    If `waits`, the policy beside it answers a row when all games of the row before have been judged
    and all second answers have been sent, so they come while their connection is idle. Otherwise a
    second answer is sent when the next request has arrived, on whatever connection, so that the
    client has read the first one, and is busy.
    """

    def __init__(self, every: int, *, waits: bool) -> None:
        self._every, self._waits = every, waits
        self._script = judge(verdict)
        self.base_url, self.connections, self.strays = "", 0, 0
        self._begun = self._answered = 0
        self._news, self._arrival = asyncio.Event(), asyncio.Event()

    async def policy(self, request: Json, number: int) -> Reply | str:
        while self._waits and self._answered < (number - 1) * GAMES:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), BOUND_S)
        return answering(request, number)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            coming = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
            while True:
                head = await coming
                (length,) = [
                    line
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ]
                self._begun += 1
                number = self._begun
                given = self._script(
                    json.loads(await reader.readexactly(int(length.split(b":")[1]))), 0
                )
                self._arrival.set()
                next_arrival = self._arrival = asyncio.Event()
                assert isinstance(given, str)
                body = json.dumps(completion(given)).encode()
                sent = (
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                    b"\r\n" % len(body)
                )
                writer.write(sent + body)
                await writer.drain()
                coming = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
                if self._every and number % self._every == 0:
                    if self._waits:
                        await asyncio.sleep(0.05)  # usually the client has read the first answer
                    else:
                        elsewhere = asyncio.ensure_future(next_arrival.wait())
                        await asyncio.wait({coming, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
                        elsewhere.cancel()
                    writer.write(sent + body)
                    await writer.drain()
                    self.strays += 1
                self._answered += 1
                self._news.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield
        server.close()


def evaluated(
    path: Path, loop: Loop, every: int, *flags: str
) -> tuple[Sequence[bytes], StrayPeer, str]:
    """The samples of a run against a judge that answers every so manieth request twice; 0: never."""
    arena, peer = Arena(path).rows(ROWS), StrayPeer(every, waits=not flags)
    with ExitStack() as stack:
        stack.enter_context(loop.entered(peer.serving()))
        policy = stack.enter_context(loop.entered(ScriptedEndpoint(peer.policy)))
        flags = flags or ("--openai.num_requests_for_eval=1",)
        argv = arena.argv(peer.base_url, policy.base_url, *flags, run=f"run-{every}")
        ended = in_process(*argv)
    assert ended.code == 0, ended.said
    return RunFiles(path / f"run-{every}").without_run(), peer, ended.said


@pytest.mark.slow
def test_second_answers_of_an_idle_connection_shift_no_answer(tmp_path: Path, loop: Loop) -> None:
    undisturbed, _, _ = evaluated(tmp_path, loop, 0)
    disturbed, peer, said = evaluated(tmp_path, loop, 10)
    assert peer.strays >= ROWS * GAMES // 10 - 1, "the run may be over before the last one"
    assert disturbed == undisturbed
    assert said.count("sent a response") == 1


@pytest.mark.slow
def test_second_answers_to_a_busy_client_shift_no_answer(
    tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        connector, "_REST_S", BOUND_S
    )  # however slow the machine is, they come during the rest
    undisturbed, _, _ = evaluated(tmp_path, loop, 0, "--env.judge_max_concurrency=1")
    disturbed, peer, _ = evaluated(tmp_path, loop, 10, "--env.judge_max_concurrency=1")
    assert peer.strays >= 1
    assert disturbed == undisturbed
