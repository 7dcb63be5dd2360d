"""Environments with the trainers' own packages, and their programs run against this project's reward server.

`make test-integrations` builds an environment for each trainer under `.trainers/NAME` (slime: a
checkout), and names that place in TRAINER_ENVIRONMENTS. Without the variable, or for a trainer that
is absent, the tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PLACE = os.environ.get("TRAINER_ENVIRONMENTS")

PATIENCE_S = 120.0


@dataclass(frozen=True)
class Ended:
    """How a trainer's program ended; `result` is the JSON of the last line that it printed, if it is JSON."""

    code: int
    result: Any
    err: str
    out: str = ""


def place_of(trainer: str) -> Path:
    """The directory of a trainer's environment or checkout; skips the test if there is none."""
    if PLACE is None:
        pytest.skip("with the trainers' own packages: make test-integrations")
    place = Path(PLACE).absolute() / trainer
    if not place.is_dir():
        why = reason_file(place.parent, trainer)
        pytest.skip(
            f"{trainer} is not installed: "
            f"{why.read_text().strip() if why.is_file() else f'not in {PLACE}'}"
        )
    return place


def reason_file(place: Path, trainer: str) -> Path:
    """The file that says why a trainer could not be installed into `place`, if it could not."""
    return place / f"{trainer}.skipped"


async def run(
    trainer: str,
    program: str,
    *arguments: object,
    launcher: tuple[str, ...] = (),
    patience_s: float = PATIENCE_S,
    folder: str = "",
) -> Ended:
    """Run a program that lies beside the tests of a trainer, with that trainer's Python.

    Args:
        trainer: its environment's name.
        program: the file's name.
        arguments: text as it is, anything else as JSON.
        launcher: what comes before the program, such as `-m torch.distributed.run`.
        patience_s: for how long it may run.
        folder: of the tests, where it is not the environment's name.
    """
    python = place_of(trainer) / "bin" / "python"
    program_file = HERE / (folder or trainer) / program
    return await run_with(
        str(python), program_file, *arguments, launcher=launcher, patience_s=patience_s
    )


async def run_with(
    executable: str,
    *arguments: object,
    launcher: tuple[str, ...] = (),
    modules: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> Ended:
    """Run any program, for no longer than `patience_s`; it can import what lies in the folder `modules`."""
    given = [
        str(value) if isinstance(value, str | Path) else json.dumps(value) for value in arguments
    ]
    env = {
        **os.environ,
        "PATH": f"{Path(executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, filter(None, (modules, ROOT)))),
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
    }
    child = await asyncio.create_subprocess_exec(
        executable,
        *(*launcher, *given),
        stdout=-1,
        stderr=-1,
        cwd=ROOT,
        env=env,
        start_new_session=True,  # so that the processes of a launcher can be ended with it
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), patience_s)
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
    printed = out.decode()
    return Ended(
        child.returncode or 0, _json_of(printed.strip().rpartition("\n")[2]), err.decode(), printed
    )


def _json_of(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
