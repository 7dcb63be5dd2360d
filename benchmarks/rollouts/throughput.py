"""Sequences a second of `serve` beside the bound of its schedule, and the CPU of a sequence.

`serve` runs as its command does, in a process of its own, against Atropos' `run-api`. Policy and
judge are an endpoint that answers after a fixed latency and costs next to nothing, the trainer
takes batches as they come. A group of G takes one generation and one judgment when all is judged at
once; with W workers the bound is W·G sequences in that time. CPU is user and system time of the
`serve` process alone, from the first batch that is measured to the last.

The same groups judged one call after another have the bound W·G sequences in one generation and 2·G
judgments.

    python -m benchmarks.rollouts.throughput [--policy_ms 200] [--judge_ms 300] [--group_size 8]
    [--workers 16]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
from dataclasses import dataclass

from benchmarks.measured import Measured, report, results_option
from benchmarks.rollouts.processes import cpu_seconds, endpoint, running
from benchmarks.rollouts.trainer import BATCH, Trainer, rollout_api
from judgegym.judges.core.event_loop import run
from judgegym.llm.http.exchange import open_session

AT_ONCE = ("eval_environments/arena_hard_environment.py",)
ONE_AFTER_ANOTHER = ("-m", "benchmarks.rollouts.one_after_another")
CPU_MS = 1.3
WARM_UP = 3
"""Batches before the first that is measured: connections open, and the first groups come in one wave."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one `serve` did.

    Attributes:
        rate: sequences a second.
        cpu_ms: milliseconds of CPU a sequence.
    """

    rate: float
    cpu_ms: float


async def measure(
    command: tuple[str, ...], steps: int, warm_up: int, options: argparse.Namespace
) -> Throughput:
    """Serve this many batches beyond the first."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_session() as session,
            rollout_api(session) as api,
            endpoint(options.policy_ms, options.judge_ms, options.tokens) as base_url,
        ):
            trainer = Trainer(api, session)
            await trainer.register(warm_up + steps + 2)
            words = [
                *command,
                "serve",
                "--offline",
                f"--openai.base_url={base_url}",
                f"--env.judge_base_url={base_url}",
                f"--env.rollout_server_url={api}",
                f"--env.group_size={options.group_size}",
                f"--env.max_num_workers={options.workers}",
                f"--env.data_dir_to_save_evals={folder}/run",
                "--env.steps_per_eval=-1",
                "--env.ensure_scores_are_not_same=False",
                *options.flag,
            ]
            async with running(
                *words, out=None if options.verbose else asyncio.subprocess.DEVNULL
            ) as serve:
                await trainer.take(warm_up)
                before = cpu_seconds(serve.pid)
                await trainer.take(steps)
                cpu = cpu_seconds(serve.pid) - before
                assert serve.returncode is None, "serve has ended"
    seconds = trainer.times[-1] - trainer.times[-1 - steps]
    return Throughput(BATCH * steps / seconds, 1000 * cpu / (BATCH * steps))


async def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    sequences = options.workers * options.group_size
    bound = sequences / (options.policy_ms + options.judge_ms) * 1000
    work = f"groups of {options.group_size}, {options.workers} workers"
    fast = await measure(AT_ONCE, options.steps, WARM_UP, options)
    lines = [
        Measured(
            "serve", work, "sequences/s", fast.rate, "bound of the schedule", bound, at_least=0.9
        ),
        Measured("serve", work, "ms of CPU a sequence", fast.cpu_ms, "bound", CPU_MS, at_most=1),
    ]
    if options.sequential_steps:
        slow = await measure(ONE_AFTER_ANOTHER, options.sequential_steps, 1, options)
        lines.append(
            Measured(
                "serve", work, "sequences/s", fast.rate, "judged one call after another", slow.rate
            )
        )
    report(lines, options.results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy_ms", type=float, default=200)
    parser.add_argument("--judge_ms", type=float, default=300)
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a completion")
    parser.add_argument("--group_size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument(
        "--steps", type=int, default=40, help=f"batches of {BATCH} sequences that are measured"
    )
    parser.add_argument(
        "--sequential_steps",
        type=int,
        default=2,
        help="those judged one call after another; 0: none",
    )
    parser.add_argument("--flag", action="append", default=[], help="a further flag of serve")
    parser.add_argument("--verbose", action="store_true", help="show what serve says")
    results_option(parser)
    with contextlib.suppress(KeyboardInterrupt):
        run(main(parser.parse_args()))
