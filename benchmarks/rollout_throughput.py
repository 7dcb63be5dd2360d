"""Sequences a second into the real rollout API: judged at once, beside the same groups judged one call after another.

Policy and judge are stand-ins with latencies of their own, the API is Atropos' `run-api`, and the trainer takes batches
as fast as they come. A group of G takes one generation and one judgment when judged at once, and one generation and 2·G
judgments in a row otherwise; with W workers the bound is W·G sequences in that time.

    python benchmarks/rollout_throughput.py [--policy_ms 200] [--judge_ms 300] [--group_size 8] [--workers 16]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import aiohttp

from environments.clients import Clients
from environments.command_line.arguments import load_settings
from environments.completions import Completion
from environments.metrics import Metrics
from environments.training.connection import TrainerConnection
from environments.training.rollout_api import RolloutApi
from environments.training.serve import ServeRun
from eval_environments.arena_hard_environment import ArenaHardEnv, ArenaHardTask
from judges.arena.judge import ArenaDetail, game_prompt, row_result
from judges.core.calls import ask
from judges.core.judgment import Judgment, Status
from judges.llm.transport import open_session
from judges.offline import StandIn
from judges.parsing.verdicts import arena_label

BATCH = 128


class SequentialArena(ArenaHardEnv):
    """The same judgments, each call of a group awaited before the next one is made."""

    def open_judges(self) -> None:
        super().open_judges()
        self._locks: dict[str, asyncio.Lock] = {}

    async def judge(self, task: ArenaHardTask, completions: Sequence[Completion]) -> Judgment[ArenaDetail]:
        (completion,) = completions
        async with self._locks.setdefault(task.uid, asyncio.Lock()):
            labels = []
            for a, b in ((completion.answer, task.baseline), (task.baseline, completion.answer)):
                messages = game_prompt(task.question, a, b, protocol="three_way").messages
                call = await ask(self.clients.judge, messages, arena_label, name="game")
                labels.append(arena_label(call.text))
        first, second = labels
        assert first is not None and second is not None
        row = row_result(first, second, strong_weight=1)
        return Judgment[ArenaDetail](row.reward, Status.OK, label=row.outcome)


@contextlib.asynccontextmanager
async def rollout_api(session: aiohttp.ClientSession) -> AsyncIterator[str]:
    """The real API, as a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (sys.executable, "-m", "atroposlib.cli.run_api", "--host", "127.0.0.1", "--port", str(port))
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url + "/info") as response:
                    if response.status == 200:
                        break
            await asyncio.sleep(0.1)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def train(session: aiohttp.ClientSession, url: str, steps: int) -> float:
    """A trainer that takes batches as fast as they come; sequences a second from its first batch to its last."""
    registration = {
        "wandb_group": "",
        "wandb_project": "",
        "batch_size": BATCH,
        "max_token_len": -1,
        "checkpoint_dir": "",
        "save_checkpoint_interval": -1,
        "starting_step": 0,
        "num_steps": steps,
    }
    async with session.post(url + "/register", json=registration):
        pass
    times: list[float] = []
    while len(times) < steps:
        async with session.get(url + "/batch") as response:
            batch = (await response.json())["batch"]
        if batch is None:
            await asyncio.sleep(0.01)
            continue
        assert sum(len(group["tokens"]) for group in batch) == BATCH
        times.append(time.perf_counter())
    return BATCH * (steps - 1) / (times[-1] - times[0])


async def measure(env_type: type[ArenaHardEnv], steps: int, options: argparse.Namespace) -> float:
    """Sequences a second of one environment."""
    async with (
        open_session() as session,
        rollout_api(session) as url,
        StandIn(options.policy_ms) as policy,
        StandIn(options.judge_ms) as judge,
    ):
        argv = [
            "--offline",
            f"--openai.base_url={policy.base_url}",
            f"--env.judge_base_url={judge.base_url}",
            f"--env.group_size={options.group_size}",
            f"--env.max_num_workers={options.workers}",
            f"--env.total_steps={steps}",
            "--env.steps_per_eval=-1",
            "--env.ensure_scores_are_not_same=False",
        ]
        settings = load_settings(env_type, argv, verb="serve").settings
        env = env_type(settings, Clients(settings, session), verb="serve")

        async def no_evaluation(step: int) -> Metrics:
            return Metrics({}, {})

        serving = ServeRun(env, TrainerConnection(RolloutApi(url, session), settings.env, env_type.name), no_evaluation)
        trained, _ = await asyncio.gather(train(session, url, steps), serving.run())
        return trained


async def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    at_once = (options.policy_ms + options.judge_ms) / 1000
    in_a_row = (options.policy_ms + 2 * options.group_size * options.judge_ms) / 1000
    sequences = options.workers * options.group_size
    gc.collect()
    gc.freeze()  # as the command does
    slow = await measure(SequentialArena, 3, options)
    print(f"one call after another: {slow:.1f} sequences/s (bound {sequences / in_a_row:.1f})")
    fast = await measure(ArenaHardEnv, options.steps, options)
    print(f"all at once:            {fast:.1f} sequences/s (bound {sequences / at_once:.1f})")
    print(f"{fast / slow:.1f} times as many; the bounds' ratio is {in_a_row / at_once:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy_ms", type=float, default=200)
    parser.add_argument("--judge_ms", type=float, default=300)
    parser.add_argument("--group_size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--steps", type=int, default=30, help="batches of 128 sequences for the measurement at once")
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(parser.parse_args()))
