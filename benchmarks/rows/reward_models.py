"""Responses a second that a reward model's judge scores, as a share of what a plain aiohttp loop gets.

A scripted server in another process speaks vLLM's `/classify`. Ours is the whole judge: the
conversation of a row, the client with retries, limits, metering and equal calls in flight, the
ledger of a run directory, the number and its
scale. The plain loop is what one writes by hand: it sends the same bodies with `post(url, json=…)`,
as many at once, and takes the numbers of `await response.json()`. Both run in turn, round by round,
on the event loop and with the garbage collector of commands; the ratio is that of the medians.

The target is that of a server which takes 50 ms for an answer: with 32 requests at once these are
at most 640 responses
a second, the pace of a reward model on a GPU: on an H200 classifiers of 0.5, 1.5 and 7 billion
parameters took 25, 57 and 205 ms for 32 responses of 250 tokens, and ours got 0.99, 0.99 and 1.00
of the plain loop's responses. A server that answers at once shows what the client costs, with one
response in a request and with 16; no target is set for it.

    python -m benchmarks.rows.reward_models [--responses 10000] [--concurrency 32] [--rounds 2]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import aiohttp
import orjson
import uvloop
from aiohttp import web

from benchmarks.measured import Measured, report, results_option
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.judges.core import event_loop
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.reward_models.judge import RewardModelJudge, RewardModelSettings
from judgegym.llm.client import ChatClient, open_session
from judgegym.llm.ledger import record_calls

TARGET = 0.6
WARM_UP = 640
PROMPT = "How do I keep a small vegetable garden alive through a dry summer? "
RESPONSE = (
    "Water early in the morning, cover the soil with straw, and choose plants that like the heat. "
    * 8
)


def serve(listener: socket.socket, latency_s: float) -> None:
    """Answer `/classify` with a number for each text, after so many seconds."""

    async def classify(request: web.Request) -> web.Response:
        count = len(orjson.loads(await request.read()).get("input", "1"))
        data = [
            {"index": place, "label": "LABEL_0", "probs": [1.25], "num_classes": 1}
            for place in range(count)
        ]
        usage = {"prompt_tokens": 200 * count, "total_tokens": 200 * count, "completion_tokens": 0}
        body = {
            "id": "classify-1",
            "object": "list",
            "created": 1,
            "model": "rm",
            "data": data,
            "usage": usage,
        }
        if latency_s:
            await asyncio.sleep(latency_s)
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/classify", classify)
    uvloop.install()
    web.run_app(app, sock=listener, print=None, access_log=None)


@contextmanager
def server(latency_s: float) -> Iterator[str]:
    """A server in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(
            target=serve, args=(listener, latency_s), daemon=True
        )
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            process.terminate()
            process.join()


def task(number: int) -> JudgeTask:
    """A row with a response of its own."""
    return JudgeTask(f"{number}. {PROMPT}", (f"{number}. {RESPONSE}",))


def body(numbers: Sequence[int], *, is_batch: bool) -> dict[str, object]:
    """What the judge sends for these rows."""
    tasks = [task(number) for number in numbers]
    if is_batch:
        shown: dict[str, object] = {"input": [f"{each.prompt}\n{each.response}" for each in tasks]}
    else:
        (one,) = tasks
        turns = (("user", one.prompt), ("assistant", one.response))
        shown = {"messages": [{"role": role, "content": content} for role, content in turns]}
    return {"model": "rm", **shown, "use_activation": False}


async def seconds(work: Callable[[int], Awaitable[None]], items: int, at_once: int) -> float:
    """How long the items take, `at_once` at a time."""
    left = iter(range(items))

    async def worker() -> None:
        for number in left:
            await work(number)

    began = time.monotonic()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return time.monotonic() - began


async def measure(
    url: str,
    responses: int,
    concurrency: int,
    rounds: int,
    batch: int,
    folder: Path,
    latency_s: float,
) -> Measured:
    """Ours and the plain loop, with so many responses in a request."""
    is_batch = batch > 1
    settings = RewardModelSettings(
        judge_base_url=url,
        judge_model_name="rm",
        judge_max_concurrency=concurrency,
        reward_batch=batch,
        reward_tokenizer="none" if is_batch else None,
    )
    numbers = range(responses)
    bodies = [
        body(numbers[start : start + batch], is_batch=is_batch)
        for start in range(0, responses, batch)
    ]
    ours, plain, numbers_of = list[float](), list[float](), dict[int, list[float]]()
    event_loop.reduce_garbage_collection()
    async with (
        open_session() as session,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as bare,
    ):

        async def post(number: int) -> None:
            async with bare.post(url.replace("/v1", "/classify"), json=bodies[number]) as response:
                numbers_of[number] = [
                    entry["probs"][0] for entry in (await response.json())["data"]
                ]

        for turn in range(rounds + 1):  # the first warms connections and caches
            count = responses if turn else min(responses, WARM_UP)
            taken = await seconds(post, -(-count // batch), concurrency)
            run = RunDirectory(
                folder / f"{latency_s}-{batch}-{turn}", config={}, matters={}, resume=False
            )
            client = ChatClient(settings.chat_settings(), session=session)
            judge = RewardModelJudge(settings, client)
            with closing(run), closing(CallLedger(run, finished=(), keep_texts=False)) as ledger:

                async def score(
                    number: int, judge: RewardModelJudge = judge, ledger: CallLedger = ledger
                ) -> None:
                    with record_calls(ledger.row(str(number))):
                        (result,) = await judge.score(task(number))
                    assert result.score is not None

                own = await seconds(score, count, 2 * concurrency * batch)
            assert client.meter.answered == -(-count // batch)
            if turn:
                plain.append(taken)
                ours.append(own)
    each = f"{batch} responses a request" if is_batch else "one response a request"
    pace = (
        f"a server that takes {1000 * latency_s:g} ms"
        if latency_s
        else "a server that answers at once"
    )
    return Measured(
        "reward model",
        f"{responses:,} responses, {each}, {concurrency} requests at once, {pace}",
        "responses/s",
        responses / statistics.median(ours),
        "plain aiohttp loop, the same requests",
        responses / statistics.median(plain),
        at_least=TARGET if latency_s else None,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--responses", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument(
        "--concurrency", type=int, default=32, help="requests at once (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="(default: %(default)s)")
    results_option(parser)
    options = parser.parse_args(argv)
    given = options.responses, options.concurrency, options.rounds
    for latency_s, batch in ((0.05, 1), (0.0, 1), (0.0, 16)):
        with server(latency_s) as url, tempfile.TemporaryDirectory() as folder:
            work = measure(url, *given, batch, Path(folder), latency_s)
            report([event_loop.run(work)], options.results)


if __name__ == "__main__":
    main()
