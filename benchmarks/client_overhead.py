"""User CPU of a judge call, as a multiple of that of a bare aiohttp POST.

Ours is the whole call as a user makes it: delimiting, the prompt, the chat client with retries,
limits and metering (at temperature 0, the default, also the search for an equal call in flight),
the verdict's parser and the judgment. The bare loop posts the same bytes, encoded beforehand, to
the same stand-in server (another process), on the same event loop, and reads the answer with
orjson. Both run in turn, round by round; the ratio is that of the medians. Only this process's user
CPU counts. Each case has texts of its own. With the ledger, each call is also recorded in a run
directory, as in `evaluate`.

    python -m benchmarks.client_overhead [--calls 1000] [--concurrency 256] [--rounds 7] [--profile]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import resource
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import orjson
import uvloop

from benchmarks.measured import Measured, report, results_option
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm.client import ChatClient, open_session
from judgegym.llm.ledger import record_calls
from judgegym.offline import StandIn

TARGET = 1.6
QUESTION = "How do I keep a small vegetable garden alive through a dry summer? "
ANSWER = (
    "Water early in the morning, cover the soil with straw, and choose plants that like the heat. "
)

Work = Callable[[int], Awaitable[None]]
"""Does the work of the case with a number."""


@dataclass(frozen=True)
class Subject:
    """A judge under measurement.

    Attributes:
        name: what is measured.
        calls: the calls of one case.
        judge: judges the case with a number.
    """

    name: str
    calls: int
    judge: Work


def subjects(url: str, session: aiohttp.ClientSession, concurrency: int) -> Iterator[Subject]:
    """The judges, which call the endpoint at `url`."""
    common = {
        "judge_base_url": url,
        "judge_model_name": "judge",
        "judge_max_concurrency": concurrency,
    }
    aspects = AspectJudgeSettings(**common)
    aspect = AspectPanel(
        aspects.model_copy(update={"aspects": aspects.aspects[:1]}),
        ChatClient(aspects.chat_settings(), session=session),
    )
    arena_settings = ArenaJudgeSettings(**common)
    arena = ArenaTaskJudge(
        arena_settings, ChatClient(arena_settings.chat_settings(), session=session)
    )

    async def judge_aspect(number: int) -> None:
        question, answer, _ = texts(number)
        judgment = await aspect.judge(JudgeTask(question, (answer,)))
        assert judgment.score is not None

    async def judge_games(number: int) -> None:
        question, answer, baseline = texts(number)
        judgment = await arena.judge(JudgeTask(question, (answer,), baseline=baseline))
        assert judgment.score is not None

    yield Subject("aspect", 1, judge_aspect)
    yield Subject("arena games", 2, judge_games)


def texts(number: int) -> tuple[str, str, str]:
    """A question and two answers of their own."""
    return f"{number}. {QUESTION}", f"{number}. {ANSWER * 10}", f"{number}. {ANSWER * 8}"


async def bodies_of(subject: Callable[[aiohttp.ClientSession], Subject], cases: int) -> list[bytes]:
    """The bodies that a judge sends for so many cases."""
    sent: list[bytes] = []
    trace = aiohttp.TraceConfig()

    async def note(
        _: object, __: SimpleNamespace, chunk: aiohttp.TraceRequestChunkSentParams
    ) -> None:
        sent.append(bytes(chunk.chunk))

    trace.on_request_chunk_sent.append(note)
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        one = subject(session)
        for number in range(cases):
            await one.judge(number)
    assert len(sent) == cases * one.calls
    return sent


async def user_cpu(work: Work, items: int, at_once: int) -> float:
    """This process's user CPU in seconds while the items are worked on, `at_once` at a time."""
    left = iter(range(items))

    async def worker() -> None:
        for number in left:
            await work(number)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


async def measure(
    calls: int, concurrency: int, rounds: int, loop: str, folder: Path
) -> Sequence[Measured]:
    """The ratios of all judges on one event loop."""
    lines: list[Measured] = []
    async with StandIn() as server, open_session() as session:
        url = f"{server.base_url}/chat/completions"
        for place, subject in enumerate(subjects(server.base_url, session, concurrency)):
            cases, at_once = calls // subject.calls, concurrency // subject.calls
            bodies = await bodies_of(
                lambda own, place=place: list(subjects(server.base_url, own, concurrency))[place],
                cases,
            )

            async def bare(number: int, bodies: Sequence[bytes] = bodies) -> None:
                headers = {"Content-Type": "application/json"}
                async with session.post(url, data=bodies[number], headers=headers) as response:
                    orjson.loads(await response.read())

            run = RunDirectory(
                folder / f"{loop}-{subject.name}", config={}, matters={}, resume=False
            )
            ledger = CallLedger(run, finished=(), keep_texts=False)

            async def recorded(
                number: int, subject: Subject = subject, ledger: CallLedger = ledger
            ) -> None:
                with record_calls(ledger.row(str(number))):
                    await subject.judge(number)

            ways = {
                "bare": (bare, len(bodies), concurrency),
                "": (subject.judge, cases, at_once),
                ", with the ledger": (recorded, cases, at_once),
            }
            for way in ways.values():  # connections and caches
                await user_cpu(*way)
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, way in ways.items():
                    seconds[name].append(await user_cpu(*way))
            ledger.close()
            run.close()
            each = {
                name: statistics.median(taken) / len(bodies) * 1000
                for name, taken in seconds.items()
            }
            lines += [
                Measured(
                    part="judge call",
                    work=f"{subject.name}{name}, on {loop}, {concurrency} at once",
                    unit="ms of user CPU a call",
                    ours=each[name],
                    other_name="bare aiohttp POST",
                    other=each["bare"],
                    at_most=None if name else TARGET,
                )
                for name in ways
                if name != "bare"
            ]
    return lines


async def profiled(calls: int, concurrency: int) -> None:
    """Print where a judge's calls take their time, by function."""
    async with StandIn() as server, open_session() as session:
        for subject in subjects(server.base_url, session, concurrency):
            cases, at_once = calls // subject.calls, concurrency // subject.calls
            await user_cpu(subject.judge, cases, at_once)
            with cProfile.Profile() as profile:
                await user_cpu(subject.judge, cases, at_once)
            print(subject.name)
            pstats.Stats(profile).sort_stats("tottime").print_stats(45)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1000, help="calls in a round")
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="print a profile instead")
    results_option(parser)
    options = parser.parse_args()
    if options.profile:
        asyncio.run(profiled(options.calls, options.concurrency))
        return
    for loop, factory in {
        "asyncio": asyncio.new_event_loop,
        "uvloop": uvloop.new_event_loop,
    }.items():
        running = factory()
        with tempfile.TemporaryDirectory() as folder:
            work = measure(options.calls, options.concurrency, options.rounds, loop, Path(folder))
            report(running.run_until_complete(work), options.results)
        running.close()


if __name__ == "__main__":
    main()
