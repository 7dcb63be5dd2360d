"""SIGTERM ends training verbs at once with their exit code; `evaluate` is in `test_resume`."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.command import Ended
from tests.conformance.lab import HANG, Lab
from tests.trainer import training, until

GROUP = 2
FLAGS = f"--env.group_size={GROUP}", f"--env.tokenizer_name={BUNDLED_TOKENIZER}"


async def stopped(lab: Lab, *argv: str) -> Ended:
    """A command that gets SIGTERM while its policy works on a group."""
    lab.policy.disturb(lambda uid: HANG)
    with lab.started(*argv) as started:
        await until(lambda: bool(lab.policy.asked) or started.process.poll() is not None, "the policy is asked")
        assert started.process.poll() is None, started.ended().said
        started.send(signal.SIGTERM)
        return lab.checked(await asyncio.to_thread(started.ended))


async def test_process_ends_on_sigterm_and_writes_no_half_group(lab: Lab) -> None:
    path = lab.path / "groups.jsonl"
    ended = await stopped(
        lab, *lab.argv(*FLAGS, f"--env.data_path_to_save_groups={path}", "--env.total_steps=2", verb="process")
    )
    assert ended.code == 128 + signal.SIGTERM, ended.said
    assert groups_in(path) == 0


async def test_serve_ends_on_sigterm_and_sends_no_half_group(lab: Lab) -> None:
    async with training(2 * GROUP) as trainer:
        flags = f"--env.rollout_server_url={trainer.url}", "--env.steps_per_eval=-1"
        ended = await stopped(lab, *lab.argv(*FLAGS, *flags, verb="serve"))
        assert ended.code == 128 + signal.SIGTERM, ended.said
        assert await trainer.queued() == 0


def groups_in(path: Path) -> int:
    """How many groups a file holds, all of them whole."""
    return len([json.loads(line) for line in path.read_bytes().splitlines()]) if path.exists() else 0
