"""Judge calls of groups in which a share of the completions is equal, beside the number of distinct completions.

Groups go through the pipeline of `serve` and `process` (rubric_absolute, one vote), and as requests
with `responses`
through the reward server. The calls are those that arrive at the judge. Beside them: the bound, a
call for each distinct completion, and the same completions judged one by one, as a group of its own
each.

    python -m benchmarks.equal_completions [--groups 32] [--group_size 8] [--equal 0.5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.measured import Measured, report, results_option
from benchmarks.reward_server.processes import Running, running
from judgegym.engine.completions import Clients, Completion, Conversation, judge_completions
from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.rollouts.groups import JudgedGroup, Rollout, TokenSequence
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.judges.core import event_loop
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.http.exchange import open_session

PART = "equal completions"


class Repeating:
    """A source of groups of which a share of the completions equals an earlier one."""

    waiting = None

    def __init__(self, distinct: int) -> None:
        self.distinct = distinct
        self.groups: list[list[Rollout]] = []

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """A group of `n`; no two groups have a completion in common."""
        group = texts_of(len(self.groups), n, self.distinct)
        self.groups.append(
            [Rollout(Completion(text), TokenSequence((1,), (2, 3), None), text) for text in group]
        )
        return self.groups[-1], CallRun()

    def rescale(self, share: float) -> None:
        """Nothing is limited."""


def texts_of(group: int, size: int, distinct: int) -> list[str]:
    """The completions of a group."""
    return [
        f"It is so because of reason {place % distinct} of group {group}." for place in range(size)
    ]


async def list_calls(judge: Running, session: aiohttp.ClientSession) -> int:
    """The calls that have arrived at the judge."""
    async with session.get(f"{judge.url}/calls") as answer:
        return int(await answer.text())


async def of_the_pipeline(
    judge: Running, options: argparse.Namespace, distinct: int
) -> tuple[int, int, float]:
    """Calls of the groups, calls of the same completions one by one, and the calls that the metric says were saved."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.jsonl"
        rows = (
            {"instruction": f"Question {n}?", "rubric": "Is it so?"} for n in range(options.groups)
        )
        data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        flags = {
            "env.train_dataset": data,
            "env.tokenizer_name": BUNDLED_TOKENIZER,
            "env.group_size": options.group_size,
            "env.ensure_scores_are_not_same": False,
            "env.judge_base_url": f"{judge.url}/v1",
            "env.judge_model_name": "m",
        }
        argv = [f"--{name}={value}" for name, value in flags.items()]
        settings = load_settings(RubricAbsoluteEnv, argv, verb="process").settings
        async with open_session() as session:
            with closing(Clients(settings, session)) as clients:
                env = RubricAbsoluteEnv(settings, clients, verb="process")
                metrics, source = TrainingMetrics(env), Repeating(distinct)
                pipeline = GroupPipeline(env, source, metrics)
                tasks = env.tasks("train")
                before = await list_calls(judge, session)
                outcomes = await asyncio.gather(*(pipeline.run(task, _taken) for task in tasks))
                assert set(outcomes) == {"sent"}, outcomes
                grouped = await list_calls(judge, session)
                pairs = [
                    (task, one)
                    for task, group in zip(tasks, source.groups, strict=True)
                    for one in group
                ]
                await asyncio.gather(*(_judged(env, task, one.completion) for task, one in pairs))
                alone = await list_calls(judge, session)
    saved = metrics.flush(max_token_len=-1).values["train/judge_calls_saved"]
    return grouped - before, alone - grouped, float(saved or 0)


async def _taken(group: JudgedGroup) -> None:
    """A sink that takes everything."""


async def _judged(env: RubricAbsoluteEnv, task: Any, completion: Completion) -> None:
    judgment = await judge_completions(env.judge, task, [completion], policy_is_judge=False)
    assert judgment.score is not None, judgment.explanation


async def of_the_server(
    judge: Running, server: Running, groups: Sequence[Sequence[str]]
) -> tuple[int, int]:
    """Calls of requests with a group each, and calls of the same completions in a request each, one after another."""
    async with aiohttp.ClientSession() as session:

        async def score(**body: object) -> None:
            async with session.post(f"{server.url}/v1/score", data=json.dumps(body)) as answer:
                assert answer.status == 200, await answer.text()

        before = await list_calls(judge, session)
        await asyncio.gather(
            *(score(prompt=f"Question {n}?", responses=group) for n, group in enumerate(groups))
        )
        grouped = await list_calls(judge, session)
        for number, group in enumerate(groups):
            for text in group:
                await score(prompt=f"Question {number}?", response=text)
        return grouped - before, await list_calls(judge, session) - grouped


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Measure both."""
    size = options.group_size
    distinct = max(1, size - round(options.equal * size))
    groups = [texts_of(number, size, distinct) for number in range(options.groups)]
    bound = options.groups * distinct
    work = f"{options.groups} groups of {size}, {distinct} of them distinct"
    with running("benchmarks.reward_server.judge", "5") as judge:
        calls, alone, saved = event_loop.run(of_the_pipeline(judge, options, distinct))
        print(f"train/judge_calls_saved: {saved:g}")
        yield Measured(
            PART,
            f"serve, process: {work}",
            "judge calls",
            calls,
            "distinct completions",
            bound,
            at_most=1,
        )
        yield Measured(
            PART,
            f"serve, process: {work}",
            "judge calls",
            calls,
            "each completion by itself",
            alone,
        )
        flags = ("--port=0", f"--judge_base_url={judge.url}/v1", "--judge_model_name=m")
        with running("judgegym.server", *flags) as server:
            calls, alone = event_loop.run(of_the_server(judge, server, groups))
        yield Measured(
            PART,
            f"reward server: {work}",
            "judge calls",
            calls,
            "distinct completions",
            bound,
            at_most=1,
        )
        yield Measured(
            PART, f"reward server: {work}", "judge calls", calls, "each completion by itself", alone
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--group_size", type=int, default=8)
    parser.add_argument(
        "--equal", type=float, default=0.5, help="share of completions that equal an earlier one"
    )
    results_option(parser)
    chosen = parser.parse_args()
    report(measure(chosen), chosen.results)
