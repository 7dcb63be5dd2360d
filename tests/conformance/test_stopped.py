"""SIGTERM ends training verbs at once with their exit code; `evaluate` is in `test_resume`."""

from __future__ import annotations

import asyncio
import signal

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.command import Ended
from tests.conformance.lab import HANG, Lab
from tests.trainer import training, until

GROUP = 2


async def stopped(lab: Lab, *argv: str) -> Ended:
    """A command that gets SIGTERM while its policy works on a group."""
    lab.policy.disturb(lambda uid: HANG)
    with lab.started(*argv) as started:
        await until(
            lambda: bool(lab.policy.asked) or started.process.poll() is not None,
            "a policy request",
        )
        assert started.process.poll() is None, started.ended().said
        started.send(signal.SIGTERM)
        return lab.checked(await asyncio.to_thread(started.ended))


async def test_process_ends_on_sigterm_and_writes_no_half_group(lab: Lab) -> None:
    ended = await stopped(
        lab, *lab.argv_of_process(f"--env.group_size={GROUP}", "--env.total_steps=2")
    )
    assert ended.code == 128 + signal.SIGTERM, ended.said
    assert not lab.groups_path().exists() or lab.groups() == []


async def test_serve_ends_on_sigterm_and_sends_no_half_group(lab: Lab) -> None:
    async with training(2 * GROUP) as trainer:
        flags = (
            f"--env.group_size={GROUP}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            f"--env.rollout_server_url={trainer.url}",
            "--env.steps_per_eval=-1",
        )
        ended = await stopped(lab, *lab.argv(*flags, verb="serve"))
        assert ended.code == 128 + signal.SIGTERM, ended.said
        assert await trainer.queued() == 0
