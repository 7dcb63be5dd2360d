"""Weights & Biases that cannot be had: told before anything registers or is asked; later it ends nothing."""

from __future__ import annotations

import logging
import re
import sys

import pytest

from judgegym.llm.errors import SettingsError
from tests.arena import Arena
from tests.command import in_process
from tests.serving import serve
from tests.trainer import training
from tests.wandb_stand_in import LostWandb

NO_KEY = "No API key configured. Use `wandb login`."  # wandb's own words
SAID = rf"--env\.use_wandb: .*Weights & Biases: {re.escape(NO_KEY)}"
ON = "--env.use_wandb=True"
OPTIONAL = "--env.use_wandb=optional"


async def test_serve_says_so_before_it_registers(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", LostWandb(opens=False))
    async with training(8) as trainer:
        with pytest.raises(SettingsError) as error:
            async with serve(arena, trainer.url, ON) as served:
                await served.ended()
        known = await trainer.call("GET", "/status")
    assert re.match(SAID, str(error.value))
    assert not served.connection.joined.is_set() and not served.policy.requests
    assert known["queue_size"] == 0


async def test_serve_goes_on_without_it(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", LostWandb(opens=False))
    async with training(8) as trainer, serve(arena, trainer.url, OPTIONAL):
        await trainer.take()
    (warning,) = (
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    )
    assert "Weights & Biases" in warning and warning.endswith(f"continuing without it: {NO_KEY}")


async def test_a_failure_after_that_is_a_warning(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", LostWandb(opens=True))
    flags = ON, "--env.total_steps=2"
    async with training(8) as trainer, serve(arena, trainer.url, *flags) as served:
        await trainer.take(2)
        await served.ended()
    (warning,) = (
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    )
    assert warning.startswith("Weights & Biases ")
    assert warning.endswith("metrics: the service is gone (logged once)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opens", "flags", "code", "said"),
    [
        (False, (), 2, SAID),
        (False, (OPTIONAL,), 0, f"continuing without it: {re.escape(NO_KEY)}"),
    ],
)
def test_evaluate_too(
    arena: Arena,
    monkeypatch: pytest.MonkeyPatch,
    opens: bool,
    flags: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", LostWandb(opens=opens))
    run = arena.path / "run"
    ended = in_process(
        "evaluate", "--offline", "--limit=2", ON, *flags, f"--env.data_dir_to_save_evals={run}"
    )
    assert (ended.code, (run / "metrics.json").exists()) == (code, code == 0), ended.said
    assert re.search(said, " ".join(ended.said.split())) and "Traceback" not in ended.said
