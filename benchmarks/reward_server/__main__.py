"""The reward server beside a bare aiohttp forwarder, and beside a peer as users write it today.

All of them serve OpenRLHF's `/get_reward` with one query in a request and send the same bytes to
the same judge, which answers after `latency_ms` and is a lean process of its own. Measured are the
CPU (user and system) of the server's process for a request while `in_flight` are under way, the
99th percentile of the latency when `at_once` requests are sent at once, the memory, and the
requests per second by `--workers`. Servers take turns within each round; each figure is the median
of the rounds.

    python -m benchmarks.reward_server
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import numpy as np
import orjson

from benchmarks.measured import Measured, report, results_option
from benchmarks.reward_server.forwarder import PROMPT, RESPONSE
from benchmarks.reward_server.load import all_at_once, reward_request, steady, texts
from benchmarks.reward_server.processes import Running, allow_descriptors, running
from judgegym.judges.core.event_loop import run
from judgegym.llm.wire import JSON

PART = "reward server"
OURS, FORWARDER, FASTAPI = "reward server", "aiohttp forwarder", "FastAPI + AsyncOpenAI"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--requests", type=int, default=2000, help="requests of a round of steady load"
    )
    parser.add_argument(
        "--peer_requests", type=int, default=300, help="the same, for the FastAPI peer"
    )
    parser.add_argument("--in_flight", type=int, default=128)
    parser.add_argument("--at_once", type=int, default=2000)
    parser.add_argument("--latency_ms", type=float, default=100)
    parser.add_argument("--characters", type=int, default=1000, help="length of a response")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--workers_in_flight", type=int, default=1024, help="requests under way for all workers"
    )
    results_option(parser)
    options = parser.parse_args()
    allow_descriptors()
    with running("benchmarks.reward_server.judge", str(options.latency_ms)) as judge:
        lines = [*beside_peers(judge, options), *by_workers(judge, options)]
    report(lines, options.results)


@contextmanager
def ours(
    judge: Running, options: argparse.Namespace, workers: int = 1, /, **more: JSON
) -> Iterator[Running]:
    """The reward server."""
    settings = {
        "judge": "rubric",
        "judge_base_url": f"{judge.url}/v1",
        "judge_model_name": "m",
        "judge_max_concurrency": max(options.at_once, options.in_flight, options.workers_in_flight),
        "workers": workers,
        "port": 0,
        **more,
    }
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    with running("judgegym.server", *arguments, listeners=workers) as server:
        yield server


def call_of(judge: Running, server: Running, prompt: str, response: str) -> bytes:
    """The call of the judge that a server makes for a prompt and a response."""
    body = reward_request(prompt, response).partition(b"\r\n\r\n")[2]
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{server.url}/get_reward", body, headers)).read()
    told: bytes = urllib.request.urlopen(f"{judge.url}/last").read()
    return told


def beside_peers(judge: Running, options: argparse.Namespace) -> Iterator[Measured]:
    """CPU, latency and memory of the reward server and its peers."""
    with ExitStack() as stack:
        own = stack.enter_context(ours(judge, options))
        template = call_of(judge, own, PROMPT, RESPONSE).decode()
        servers = {
            OURS: own,
            FORWARDER: stack.enter_context(
                running("benchmarks.reward_server.forwarder", judge.url, template)
            ),
            FASTAPI: stack.enter_context(
                running("benchmarks.reward_server.fastapi_peer", judge.url, template)
            ),
        }
        check_same_call(judge, servers, options.characters)
        before = {name: server.mib("VmRSS") for name, server in servers.items()}
        cpu = cpu_a_request(servers, options)
        p99 = latencies({name: servers[name] for name in (OURS, FORWARDER)}, options)
        for name, server in servers.items():
            now, top = server.mib("VmRSS"), server.mib("VmHWM")
            print(
                f"{name}: memory {before[name]:.0f} MiB before, {now:.0f} after, {top:.0f} at its "
                "most"
            )
        most = {name: servers[name].mib("VmHWM") for name in (OURS, FORWARDER)}
    load = f"one query a request, {options.in_flight} in flight"
    unit = "ms of CPU a request"
    yield Measured(PART, load, unit, cpu[OURS], f"bare {FORWARDER}", cpu[FORWARDER], at_most=1.5)
    yield Measured(
        PART,
        f"{load}: {FASTAPI} (its figure, to ours)",
        unit,
        cpu[FASTAPI],
        OURS,
        cpu[OURS],
        at_least=9,
    )
    burst = f"{options.at_once} requests at once"
    yield Measured(
        PART, f"{burst}: p99", "s", p99[OURS], f"bare {FORWARDER}", p99[FORWARDER], at_most=1.5
    )
    yield Measured(
        PART,
        f"{burst}: memory at its most",
        "MiB",
        most[OURS],
        f"bare {FORWARDER}",
        most[FORWARDER],
    )


def check_same_call(judge: Running, servers: Mapping[str, Running], characters: int) -> None:
    """Check that all servers ask the judge the same.

    Raises:
        AssertionError: one asks something else.
    """
    prompt, response = texts(characters)
    calls = {
        name: orjson.loads(call_of(judge, server, prompt, response))
        for name, server in servers.items()
    }
    assert calls[OURS] == calls[FORWARDER] == calls[FASTAPI], calls


def in_rounds(
    count: int, names: Mapping[str, Running], measure: Callable[[str, Running], float]
) -> dict[str, float]:
    """The median of the rounds for each server; in each round they take turns, after a round that does not count."""
    figures: dict[str, list[float]] = {name: [] for name in names}
    for number in range(count + 1):
        for name, server in names.items():
            figure = measure(name, server)
            if number:
                figures[name].append(figure)
    for name, each in figures.items():
        print(f"{name}: " + ", ".join(f"{figure:.3f}" for figure in each))
    return {name: statistics.median(each) for name, each in figures.items()}


def cpu_a_request(servers: Mapping[str, Running], options: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of CPU a request under steady load."""

    def measure(name: str, server: Running) -> float:
        count = options.peer_requests if name == FASTAPI else options.requests
        before = server.cpu()
        run(steady(server.url, count, options.in_flight, options.characters))
        return float(1000 * (server.cpu() - before) / count)

    print("ms of CPU a request, by round")
    return in_rounds(options.rounds, servers, measure)


def latencies(servers: Mapping[str, Running], options: argparse.Namespace) -> dict[str, float]:
    """The 99th percentile of the seconds of requests that are sent at once."""

    def measure(name: str, server: Running) -> float:
        seconds = run(all_at_once(server.url, options.at_once, options.characters))
        return float(np.quantile(np.asarray(seconds), 0.99))

    print(f"p99 of {options.at_once} requests at once in s, by round")
    return in_rounds(options.rounds, servers, measure)


def by_workers(judge: Running, options: argparse.Namespace) -> Iterator[Measured]:
    """Requests per second with several workers, to those of one."""

    def measure(name: str, server: Running) -> float:
        started = time.perf_counter()
        run(steady(server.url, options.requests, options.workers_in_flight, options.characters))
        return float(options.requests / (time.perf_counter() - started))

    with ExitStack() as stack:
        servers = {
            f"--workers={count}": stack.enter_context(ours(judge, options, count))
            for count in options.workers
        }
        print("requests/s, by round")
        rates = in_rounds(options.rounds, servers, measure)
    first, *others = rates
    for name in others:
        work = f"{options.workers_in_flight} in flight, {os.cpu_count()} cores: {name}"
        yield Measured(PART, work, "requests/s", rates[name], first, rates[first])


if __name__ == "__main__":
    main()
