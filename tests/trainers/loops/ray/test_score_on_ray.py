"""`judgegym score --ray` on a cluster of this machine: what it writes, and what is left when processes are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import write_lines
from tests.core.datasets.scoring import rated
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion
from tests.trainers.loops import trainers
from tests.trainers.loops.children import ended, kill, started

ROWS = [{"prompt": f"Question {n % 50}", "response": f"{n % 5 + 1} points"} for n in range(60)]
DISTINCT = 50
LIMIT = 8
pytestmark = pytest.mark.timeout(2 * trainers.PATIENCE_S)


def by_points(response: str) -> int:
    return int(response.split()[0])


def slow(seconds: float) -> Script:
    scripted = rated(by_points)

    def answer(request: Json, number: int) -> Reply:
        text = scripted(request, number)
        assert isinstance(text, str)
        return Reply(text, delay_s=seconds)

    return answer


@dataclass(frozen=True)
class Command:
    """The command in the environment with Ray; what it starts has a mark in its environment."""

    folder: Path
    judge: ScriptedEndpoint
    mark: str

    async def start(self, out: str, *words: str) -> asyncio.subprocess.Process:
        data = write_lines(self.folder / "data.jsonl", ROWS)
        of_judge = (f"--judge_base_url={self.judge.base_url}", f"--judge_max_concurrency={LIMIT}")
        command = (
            "judgegym",
            "score",
            str(data),
            "--out",
            out,
            *of_judge,
            "--write_report=False",
            *words,
        )
        return await started("ray", command, self.folder, TEST_MARK=self.mark)

    async def run(self, out: str, *words: str) -> None:
        code, said = await ended(await self.start(out, *words))
        assert code == 0, said

    def processes(self, name: str = "") -> Sequence[int]:
        """The living processes with the mark, whose command line has a name in it."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_ours = f"TEST_MARK={self.mark}".encode() in (place / "environ").read_bytes()
                if is_ours and name.encode() in (place / "cmdline").read_bytes():
                    found.append(int(place.name))
        return found

    async def nothing_is_left(self) -> None:
        """Ray's agents of a killed cluster try to reach it for half a minute before they end."""
        for _ in range(10 * int(trainers.PATIENCE_S)):
            if not self.processes():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"they still run: {self.processes()}")

    def scored(self, out: str) -> bytes:
        return (self.folder / out).read_bytes()

    def samples(self, out: str) -> Sequence[Json]:
        path = (self.folder / out).with_suffix(".run") / "samples.jsonl"
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@asynccontextmanager
async def commands(folder: Path, script: Script) -> AsyncIterator[Command]:
    async with ScriptedEndpoint(script) as judge:
        yield Command(folder, judge, secrets.token_hex(8))


async def test_a_policy_is_asked_by_the_command_and_its_responses_are_judged_by_the_actors(
    tmp_path: Path,
) -> None:
    def responses(request: Json, number: int) -> Reply:
        return Reply(body=completion(*(f"{k + 1} points are enough" for k in range(request["n"]))))

    async with (
        commands(tmp_path, rated(by_points)) as command,
        ScriptedEndpoint(responses) as policy,
    ):
        words = ("--responses_per_prompt=3", f"--openai.base_url={policy.base_url}")
        await command.run("alone.jsonl", *words)
        assert len(policy.requests) == len(ROWS)
        await command.run("on_ray.jsonl", "--ray", *words)
        assert len(policy.requests) == 2 * len(ROWS)
        assert command.scored("on_ray.jsonl") == command.scored("alone.jsonl")


async def test_one_of_two_actors_is_killed_in_mid_run(tmp_path: Path) -> None:
    async with commands(tmp_path, slow(0.5)) as command:
        await command.run("alone.jsonl")
        before = len(command.judge.requests)
        assert before == DISTINCT

        child = await command.start("on_ray.jsonl", "--ray")
        await command.judge.arrived(before + 2 * LIMIT)
        actors = command.processes("ray::JudgeActor")
        assert len(actors) == 2
        os.kill(actors[0], signal.SIGKILL)
        code, said = await ended(child)
        assert code == 0, said
        assert command.scored("on_ray.jsonl") == command.scored("alone.jsonl")
        assert [sample["uid"] for sample in command.samples("on_ray.jsonl")] == [
            f"row-{n}" for n in range(1, 61)
        ]
        assert command.judge.peak <= LIMIT
        assert len(command.judge.requests) - before <= DISTINCT + LIMIT // 2
        await command.nothing_is_left()


async def test_the_command_is_killed_and_goes_on(tmp_path: Path) -> None:
    async with commands(tmp_path, slow(0.3)) as command:
        child = await command.start("scored.jsonl", "--ray", "local")
        await command.judge.arrived(3 * LIMIT)
        child.kill()
        await child.communicate()
        await command.nothing_is_left()
        kept, asked = len(command.samples("scored.jsonl")), len(command.judge.requests)
        assert 0 < kept < len(ROWS)
        await command.run("scored.jsonl", "--ray", "--resume", "--ray_actors=1")
        assert len(command.judge.requests) <= DISTINCT + 2 * (
            LIMIT // 2 + 2
        )  # what both actors had
        assert len(command.judge.requests) > asked
        assert command.judge.peak <= LIMIT
        await command.run("alone.jsonl")
        assert command.scored("scored.jsonl") == command.scored("alone.jsonl")


async def test_ctrl_c_leaves_no_process_and_all_answers(tmp_path: Path) -> None:
    async with commands(tmp_path, slow(0.3)) as command:
        child = await command.start("scored.jsonl", "--ray")
        await command.judge.arrived(2 * LIMIT)
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all that it has started, too
        try:
            out, _ = await asyncio.wait_for(child.communicate(), trainers.PATIENCE_S)
        finally:
            kill(child)
        assert child.returncode == 130, out.decode()
        assert "Traceback" not in out.decode()
        assert command.samples("scored.jsonl")
        await command.nothing_is_left()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ray", "--ray_actors=9"), "--ray_actors: judge_max_concurrency is 8"),
        (("--ray", "--judge_api_key=sk-secret"), "judge_api_key_env"),
        (("--ray", "--budget_calls=3"), "leave out --ray"),
        (("--ray=127.0.0.1:1",), r"--ray 127\.0\.0\.1:1: .*no Ray cluster"),
    ],
)
async def test_bad_input_is_one_message(tmp_path: Path, words: Sequence[str], said: str) -> None:
    async with commands(tmp_path, slow(0)) as command:
        code, found = await ended(await command.start("scored.jsonl", *words))
        assert code == 2, found
        assert re.search(said, found)
        assert "Traceback" not in found
        assert "sk-secret" not in found
