"""For how long a large group stops the event loop of `serve`: reading it, tokenizing it, packing it for the API.

A ticker wakes up every millisecond beside the work; reported is the longest time between two of its
ticks, with the work done as `serve` does it and done in the loop itself. A group has 64 completions
of 8,192 tokens.

    python -m benchmarks.rollouts.large_groups [--group_size 64] [--tokens 8192]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from benchmarks.measured import Measured, report, results_option
from judgegym.engine.completions import Completion
from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig
from judgegym.environments.rollouts.groups import JudgedGroup, Rollout, TokenSequence, pack_group
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.judges.core.event_loop import run
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.llm import wire
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Message

CONVERSATION = (Message(role="user", content="Tell me a long story. " * 100),)
_TICK_S = 0.001


async def longest_stop(work: Callable[[], Awaitable[object]]) -> float:
    """The longest time in milliseconds for which the loop ran nothing else beside the work."""
    longest, last, is_over = 0.0, time.perf_counter(), False

    async def tick() -> None:
        nonlocal longest, last
        while not is_over:
            await asyncio.sleep(_TICK_S)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(20 * _TICK_S)
    longest = 0.0
    await work()
    await asyncio.sleep(0)
    is_over = True
    await ticking
    return 1000 * longest


def scored(options: argparse.Namespace) -> JudgedGroup:
    """A group with random tokens and logprobs."""
    drawn = random.Random(0)
    prompt = tuple(drawn.randrange(150_000) for _ in range(512))
    rollouts = []
    for number in range(options.group_size):
        ids = tuple(drawn.randrange(150_000) for _ in range(options.tokens))
        logprobs = tuple(-3 * drawn.random() for _ in ids)
        completion = Completion(f"text {number}")
        rollouts.append(
            Rollout(completion, TokenSequence(prompt, ids, logprobs), completion.answer)
        )
    judgments = tuple(Judgment[Any](1.0, Status.OK) for _ in rollouts)
    values = tuple(float(number % 2) for number, _ in enumerate(rollouts))
    return JudgedGroup(
        CONVERSATION, tuple(rollouts), judgments, values, CallRun(0.0, 1, False, Usage())
    )


async def measure(options: argparse.Namespace) -> list[Measured]:
    """The stops of each piece of work."""
    size = f"{options.group_size} × {options.tokens:,} tokens"
    retokenizer = Retokenizer(str(BUNDLED_TOKENIZER))
    texts = [
        f"{number:08d}" + "x y z, " * (options.tokens // 7) for number in range(options.group_size)
    ]
    stopped = [True] * len(texts)
    await retokenizer.sequences(CONVERSATION, ["once, to load it"], stopped=[True])
    group, config = scored(options), EnvConfig()
    gc.collect()
    gc.freeze()

    async def tokenize_in_the_loop() -> None:
        for text in texts:
            retokenizer.tokenizer.apply_chat_template(list(CONVERSATION), return_dict=False)
            retokenizer.tokenizer.encode(text, add_special_tokens=False)

    async def pack_in_the_loop() -> None:
        wire.dumps(group.data(config))

    assert orjson.loads(pack_group(group.data(config))) == orjson.loads(
        wire.dumps(group.data(config))
    )
    works: list[tuple[str, Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]] = [
        (
            "tokenizing",
            lambda: retokenizer.sequences(CONVERSATION, texts, stopped=stopped),
            tokenize_in_the_loop,
        ),
        ("packing", lambda: group.pack(config), pack_in_the_loop),
    ]
    lines = []
    for name, ours, other in works:
        stops = [
            (await longest_stop(ours), await longest_stop(other)) for _ in range(options.rounds)
        ]
        best, in_the_loop = (min(figures) for figures in zip(*stops, strict=True))
        what = f"{name} a group of {size}"
        lines.append(
            Measured(
                "serve", what, "ms the loop stands still", best, "in the loop itself", in_the_loop
            )
        )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group_size", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5)
    results_option(parser)
    given = parser.parse_args()
    report(run(measure(given)), given.results)
