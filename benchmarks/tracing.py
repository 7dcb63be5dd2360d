"""CPU of a request to the reward server with spans, as a multiple of that without.

One process serves, with the event loop and the collector's settings of the server's command; the
load and the judge's endpoint are other processes, and so is the collector, which takes spans over
OTLP as a real one does. Rounds without and with spans (`--trace=spans`: request, judgment and call
of each) alternate in one run, in an order that rotates, with requests that differ; the ratio is the
median of the rounds' own, since what else the machine does changes more
slowly than rounds. All CPU of the serving process counts, that of the thread which encodes and
sends the spans, too: a
round makes whole batches of spans, and ends when the last one is sent. Off is also measured against
itself: what `is None` costs is below that.

    python -m benchmarks.tracing [--batches 3] [--concurrency 64] [--rounds 12]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection

import aiohttp
import orjson

from benchmarks.measured import Measured, report, results_option
from judgegym.judges.config.sources import load
from judgegym.judges.config.tracing import trace_process
from judgegym.judges.core.event_loop import reduce_garbage_collection, run
from judgegym.llm import tracing
from judgegym.offline import StandIn
from judgegym.server.http import listening
from judgegym.server.service import open_service
from judgegym.server.settings import RewardServerSettings

BATCH, SPANS = 512, 3
"""Spans that are sent at once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE), and spans of a request."""
ANSWER = (
    "Water early in the morning, cover the soil with straw, and choose plants that like the heat. "
)


def judge_process(told: Connection) -> None:
    async def serve() -> None:
        async with StandIn(judge_only=True) as stand_in:
            told.send(stand_in.base_url)
            await asyncio.Event().wait()

    asyncio.run(serve())


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def collector_process(told: Connection) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        told.send(f"http://127.0.0.1:{server.server_port}")
        server.serve_forever()


def load_process(told: Connection) -> None:
    """Send rounds of requests, as many as are asked for."""

    async def send(url: str, first: int, count: int, concurrency: int) -> None:
        numbers = iter(range(first, first + count))

        async def sender(session: aiohttp.ClientSession) -> None:
            for number in numbers:
                body = orjson.dumps(
                    {"prompt": f"How do I keep a garden alive, {number}?", "response": ANSWER * 5}
                )
                async with session.post(f"{url}/v1/score", data=body) as response:
                    assert (await response.json())["score"] is not None

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(sender(session) for _ in range(concurrency)))

    while True:
        asyncio.run(send(*told.recv()))
        told.send(None)


@contextmanager
def beside(target: object) -> Iterator[Connection]:
    """A process beside this one, and the connection to it."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=(there,), daemon=True
    )  # type: ignore[arg-type]
    process.start()
    try:
        yield here
    finally:
        process.terminate()
        process.join()


def cpu_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return 1000 * (used.ru_utime + used.ru_stime)


async def measure(
    options: argparse.Namespace, judge: str, sender: Connection
) -> dict[str, list[float]]:
    flags = [
        "--judge=rubric",
        f"--judge_base_url={judge}",
        "--judge_model_name=judge",
        "--judge_max_concurrency=256",
    ]
    flags += ["--port=0", "--drain_timeout=1"]
    found: dict[str, list[float]] = {"off": [], "on": [], "off again": []}
    requests = options.batches * BATCH // SPANS
    async with (
        open_service(load(RewardServerSettings, flags, prog="benchmark")) as service,
        listening(service) as (_, port),
    ):
        reduce_garbage_collection()
        with trace_process("spans"):
            active, first = tracing.active, 0
            for number in range(options.rounds + 1):
                for place in range(len(found)):
                    name = [*found][(number + place) % len(found)]
                    tracing.active = active if name == "on" else None
                    began, first = cpu_ms(), first + requests
                    sender.send((f"http://127.0.0.1:{port}", first, requests, options.concurrency))
                    await asyncio.to_thread(sender.recv)
                    await asyncio.sleep(0.2)  # the last batch is encoded and sent
                    if number:  # the first round warms up
                        found[name].append((cpu_ms() - began) / requests)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    results_option(parser)
    options = parser.parse_args()
    with (
        beside(judge_process) as judge,
        beside(collector_process) as collector,
        beside(load_process) as sender,
    ):
        url = judge.recv()
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.recv()
        found = run(measure(options, url, sender))
    both = [
        (first + again) / 2 for first, again in zip(found["off"], found["off again"], strict=True)
    ]
    off, work, unit = (
        statistics.median(both),
        f"{options.concurrency} at once, one call each",
        "ms of CPU a request",
    )
    on = off * statistics.median(
        each / other for each, other in zip(found["on"], both, strict=True)
    )
    again = off * statistics.median(
        each / other for each, other in zip(found["off again"], found["off"], strict=True)
    )
    lines = [
        Measured("tracing", f"spans on, {work}", unit, on, "off", off, at_most=1.15),
        Measured("tracing", f"spans off, {work}", unit, again, "off", off),
    ]
    report(lines, options.results)


if __name__ == "__main__":
    main()
