"""A `serve` that is killed and resumed: what was answered is not asked again while the trainer's step is the same."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.training import group_ledger
from judgegym.llm.errors import RunDirectoryError
from tests.arena import Arena, model_is_a, uid_of
from tests.command import SCRIPT, Started, in_process
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.serving import first_wins, sampling, serve, which
from tests.trainer import Batch, Trainer, training, until

CALLS_OF_A_GROUP = 8
BEGUN, DONE, HELD = 6, 2, 24
"""Groups that fit into three batches of two; those that are sent; judge requests that wait when it is killed: of four
groups, those about three of the four answers, in both games."""


@dataclass
class Bench:
    """A judge that answers all of the first two groups, and of the others what is about their first answers."""

    arena: Arena
    trainer: Trainer
    policy: ScriptedEndpoint
    judge: ScriptedEndpoint = field(init=False)
    answered: Counter[str] = field(default_factory=Counter)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def verdict(self, request: Json, _: int) -> Reply | str:
        index, number = which(request["messages"][1]["content"])
        if index and number > DONE:
            await self.released.wait()
        self.answered[json.dumps(request)] += 1
        return first_wins(uid_of(request), index, model_is_a(request))

    @property
    def argv(self) -> list[str]:
        return [
            "serve",
            *self.arena.flags,
            f"--env.rollout_server_url={self.trainer.url}",
            f"--openai.base_url={self.policy.base_url}",
            f"--env.judge_base_url={self.judge.base_url}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            f"--env.data_path_to_save_groups={self.groups}",
            "--env.include_messages=True",
            "--env.steps_per_eval=-1",
        ]

    @property
    def groups(self) -> Path:
        return self.arena.path / "groups.jsonl"

    @property
    def calls(self) -> Path:
        return self.arena.path / "groups.run" / "calls.jsonl"

    def recorded(self, kind: str) -> int:
        lines = self.calls.read_bytes().splitlines() if self.calls.exists() else []
        return sum(line.startswith(f'{{"{kind}"'.encode()) for line in lines)

    def begin(self, *flags: str) -> Started:
        return Started(str(SCRIPT), *self.argv, *flags, cwd=self.arena.path)

    async def under_way(self) -> None:
        """Wait until two groups are sent, and all that can be answered of the others is in the ledger."""
        answers = BEGUN + CALLS_OF_A_GROUP * BEGUN - HELD
        await until(
            lambda: self.recorded("call") == answers and self.recorded("done") == DONE,
            "all is under way",
        )
        await self.judge.arrived(CALLS_OF_A_GROUP * BEGUN)

    async def take_all(self) -> list[Batch]:
        """The next three batches, once all their groups are there."""

        async def is_full() -> bool:
            return await self.trainer.queued() == BEGUN

        await until(is_full, "three batches are queued")
        return await self.trainer.take(3)


@asynccontextmanager
async def bench(arena: Arena) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        trainer = await stack.enter_async_context(training(8))
        policy = await stack.enter_async_context(ScriptedEndpoint(sampling()))
        made = Bench(arena, trainer, policy)
        made.judge = await stack.enter_async_context(ScriptedEndpoint(made.verdict))
        yield made


def sources(batches: list[Batch]) -> list[int]:
    """Of which of the policy's answers each group is."""
    return sorted(
        which(group["messages"][0][-1]["content"])[1] for batch in batches for group in batch
    )


@pytest.mark.slow
async def test_killed_in_a_step_it_asks_only_for_what_was_in_flight_and_sends_each_group_once(
    arena: Arena,
) -> None:
    async with bench(arena) as at:
        with at.begin() as started:
            await at.under_way()
            started.send(signal.SIGKILL)
            await asyncio.to_thread(started.ended)
        answered = Counter(at.answered)
        at.released.set()
        with at.begin("--resume") as started:
            batches = await at.take_all()
            started.send(signal.SIGTERM)
            said = (await asyncio.to_thread(started.ended)).err
        assert sources(batches) == [1, 2, 3, 4, 5, 6], "each answer of the policy became one group"
        assert max(at.answered[body] for body in answered) == 1, (
            "what was answered is not asked again"
        )
        ours = [
            body for body in at.judge.bodies if which(body["messages"][1]["content"])[1] <= BEGUN
        ]
        asked = Counter(map(json.dumps, ours))
        assert sum(count - 1 for count in asked.values()) == HELD
        said = " ".join(said.split())
        assert "resuming: 4 groups " in said and "the answers of 4 are" in said
        assert f"again: at most {HELD}" in said
        held = [json.loads(line) for line in at.groups.read_bytes().splitlines()]
        assert sources([held])[:BEGUN] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
async def test_killed_and_resumed_in_another_step_its_rows_come_first_and_are_sampled_anew(
    arena: Arena,
) -> None:
    async with bench(arena) as at:
        with at.begin() as started:
            await at.under_way()
            started.send(signal.SIGKILL)
            await asyncio.to_thread(started.ended)
        rows = {uid_of(body): which(body["messages"][1]["content"])[1] for body in at.judge.bodies}
        await at.trainer.take(1)
        at.released.set()
        with at.begin("--resume"):
            batches = await at.take_all()
        assert sources(batches) == [7, 8, 9, 10, 11, 12], "no answer of the earlier step"
        interrupted = {row for row, number in rows.items() if number > DONE}
        at_once = {uid_of(body) for body in at.policy.bodies[BEGUN : 2 * BEGUN]}
        assert interrupted < at_once, "they are among the groups that begin at once"
        assert {uid_of(body) for body in at.policy.bodies[:12]} == {
            f"row-{number}" for number in range(8)
        }


@pytest.mark.slow
async def test_command_that_is_printed_when_it_is_stopped_resumes_it(arena: Arena) -> None:
    async with bench(arena) as at:
        with at.begin() as started:
            await at.under_way()
            started.send(signal.SIGINT)
            said = (await asyncio.to_thread(started.ended)).err
        assert "Traceback" not in said
        (command,) = re.findall(r"To resume:\n?\s+(.*--resume)", said, re.DOTALL)
        words = shlex.split(command)
        assert words[-1] == "--resume" and f"--env.data_path_to_save_groups={at.groups}" in words
        at.released.set()
        with Started(*words[1:], cwd=arena.path):
            batches = await at.take_all()
        assert sources(batches) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True])
async def test_ledger_stays_small_unless_calls_are_kept(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    monkeypatch.setattr(group_ledger, "COMPACT_FROM", 20_000)
    path = arena.path / "run"
    flags = (f"--env.data_dir_to_save_evals={path}", *QUICK, *(["--keep_calls"] if is_kept else []))
    sizes = []
    async with training(8) as trainer, serve(arena, trainer.url, *flags) as served:
        for _ in range(12):
            await trainer.take(1)
            sizes.append(
                (path / "calls.jsonl").stat().st_size if (path / "calls.jsonl").exists() else 0
            )
        await served.ended()
    files = sorted(each.name for each in path.iterdir())
    always = ["config.yaml", "live.jsonl", "monitor.jsonl", "report.html", "run.log"]
    if is_kept:
        assert len([call for call in read_calls(path) if call.component == "policy"]) >= 24
        assert files == ["calls.jsonl.gz", *always]
        assert max(sizes) > 100_000
    else:
        assert files == always
        assert 0 < max(sizes) < 100_000


QUICK = "--env.include_messages=True", "--env.total_steps=12"


@pytest.mark.slow
async def test_directory_of_another_run_is_not_written_to(arena: Arena) -> None:
    flags = (f"--env.data_dir_to_save_evals={arena.path / 'run'}", *QUICK)
    async with training(8) as trainer:
        async with serve(arena, trainer.url, *flags):
            await trainer.take(1)
        with pytest.raises(RunDirectoryError, match=r"is not empty .*add --resume"):
            async with serve(arena, trainer.url, *flags):
                pass
        with pytest.raises(RunDirectoryError, match=r"env\.group_size: 4 then, 2 now"):
            async with serve(arena, trainer.url, *flags, "--env.group_size=2", "--resume"):
                pass


def test_resume_without_a_place_is_an_error(arena: Arena) -> None:
    ended = in_process("serve", *arena.flags, "--offline", "--resume")
    assert ended.code == 2
    assert "--resume: which run?" in ended.err
