"""Train the tiny policy for a task from several seeds in parallel, each with its own processes.

    judge ◄── judgegym serve ──► rollout API (run-api) ──► trainer
                     └─────────► endpoint of the policy ◄─────┘ weights

A seed has a rollout API, one process with endpoint and trainer, and `judgegym serve`; the judge is
shared. All of them are the real programs, over HTTP; only the model is tiny.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from examples.processes import free_port
from examples.tiny_grpo.children import Child, Children
from examples.tiny_grpo.curve import Curve, SeedRun, Step
from examples.tiny_grpo.hacking import add_gold
from examples.tiny_grpo.progress import Progress
from examples.tiny_grpo.tasks import Task
from examples.tiny_grpo.training.events import FinishedEvent, ServedEvent, StepEvent, read_event
from examples.tiny_grpo.training.settings import SeedSettings, TrainingSettings
from judgegym.monitoring.live_file import MONITOR

_GROUP = 8
_END_S = 5.0
_DROPPED = re.compile(r"WARNING group .* is dropped")
_READY = b"listening on "


@dataclass(frozen=True)
class Plan:
    """The plan of a training.

    Attributes:
        task: the task.
        training: the trainer's settings.
        seeds: the seeds.
        folder: the folder of the processes' logs.
        command: the command that reproduces the curve.
    """

    task: Task
    training: TrainingSettings
    seeds: tuple[int, ...]
    folder: Path
    command: str


async def train_seeds(plan: Plan) -> Curve:
    """Train all seeds at once.

    Raises:
        ChildFailed: a process ended too early.
    """
    progress = Progress(plan.task.title, plan.seeds, plan.training.steps)
    async with Children() as children:
        judge = await _judge(children, plan, "judge", plan.task.judge)
        others = {
            name: await _judge(children, plan, f"{name} judge", words)
            for name, words in plan.task.others
        }
        runs = asyncio.gather(
            *(_SeedTraining(plan, seed, judge, others, progress).run() for seed in plan.seeds)
        )
        return Curve(plan.task.title, plan.command, tuple(await children.wait_unless_failed(runs)))


async def _judge(children: Children, plan: Plan, name: str, words: Sequence[str]) -> str:
    """Start a judge, and return its URL."""
    log = plan.folder / f"{name.replace(' ', '-')}.log"
    judge = await children.start(f"the {name}", *words, "--port=0", log=log, reads=True)
    line = await children.wait_unless_failed(_first_line(judge))
    if not line.startswith(_READY):
        raise judge.failure(f"said {line!r} instead of where it listens")
    return line.removeprefix(_READY).decode().strip()


async def _first_line(child: Child) -> bytes:
    async for line in child.lines():
        return line
    return b""


class _SeedTraining:
    """The training of one seed, from the start of its processes to its record."""

    def __init__(
        self, plan: Plan, seed: int, judge: str, others: Mapping[str, str], progress: Progress
    ) -> None:
        self._plan = plan
        self._seed = seed
        self._judge = judge
        self._others = others
        self._progress = progress
        self._folder = plan.folder / f"seed-{seed}"

    async def run(self) -> SeedRun:
        """Train; the children end with it."""
        began = time.monotonic()
        async with Children() as children:
            steps, recomputed, groups = await children.wait_unless_failed(self._train(children))
            with suppress(asyncio.TimeoutError):  # `serve` ends by itself after the last step
                await asyncio.wait_for(children.wait_ended(), _END_S)
        dropped = len(
            _DROPPED.findall(
                (self._folder / "serve.log").read_text(encoding="utf-8", errors="replace")
            )
        )
        run = SeedRun(
            self._seed, tuple(steps), recomputed, groups, dropped, time.monotonic() - began
        )
        if "gold" not in self._others:
            return run
        return add_gold(run, self._folder / "serve" / MONITOR)

    async def _train(self, children: Children) -> tuple[list[Step], float, int]:
        port = free_port()
        words = ("atroposlib.cli.run_api", "--host=127.0.0.1", f"--port={port}")
        await children.start(
            f"the rollout API of seed {self._seed}", *words, log=self._folder / "run-api.log"
        )
        api = f"http://127.0.0.1:{port}"
        trainer = await children.start(
            f"the trainer of seed {self._seed}",
            *("examples.tiny_grpo.training.seed", self._settings(api).to_json()),
            log=self._folder / "trainer.log",
            ends=True,
            reads=True,
        )
        steps: list[Step] = []
        recomputed = 0.0
        async for line in trainer.lines():
            match read_event(line):
                case ServedEvent(url):
                    await self._serve(children, api, url)
                case StepEvent(step, _, share):
                    recomputed = recomputed if steps else share
                    steps.append(step)
                    self._progress.step(self._seed, step)
                case FinishedEvent(groups):
                    return steps, recomputed, groups
        raise trainer.failure(f"ended with exit code {await trainer.process.wait()}")

    def _settings(self, api: str) -> SeedSettings:
        plan, task = self._plan, self._plan.task
        threads = max(1, (os.cpu_count() or 1) // len(plan.seeds))
        return SeedSettings(
            self._seed, api, task.alphabet, task.letter, task.warm_up, threads, plan.training
        )

    async def _serve(self, children: Children, api: str, policy: str) -> None:
        task = self._plan.task
        words = (
            *("judgegym", "serve", task.environment),
            f"--openai.base_url={policy}",
            "--openai.model_name=tiny",
            f"--env.judge_base_url={self._judge}",
            f"--env.judge_model_name={task.name}",
            f"--env.rollout_server_url={api}",
            *(f"--env.{name}={task.rows}" for name in task.row_settings),
            f"--env.seed={self._seed}",
            f"--env.group_size={_GROUP}",
            "--env.total_steps=-1",  # those of the trainer
            "--env.steps_per_eval=-1",
            f"--env.train_max_tokens={task.max_tokens}",
            "--env.token_source=chat",  # require the endpoint's own ids and logprobs
            "--env.max_batches_offpolicy=2",  # one batch is trained on, one is sampled
            "--env.ensure_scores_are_not_same=False",  # keep groups without a signal in the curve
            f"--env.data_dir_to_save_evals={self._folder / 'serve'}",
            *(self._insert_urls(word) for word in task.serve),
        )
        await children.start(
            f"judgegym serve of seed {self._seed}",
            *words,
            log=self._folder / "serve.log",
            ends=True,
        )

    def _insert_urls(self, word: str) -> str:
        for name, url in self._others.items():
            word = word.replace(f"{{{name}}}", url)
        return word
