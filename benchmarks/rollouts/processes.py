"""The processes around a `serve`, and how much CPU one has used."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_POLL_S = 0.1


@asynccontextmanager
async def running(
    *words: str, out: int | None = asyncio.subprocess.DEVNULL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python process in the folder of the project, until the end of the block."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=ROOT,
        env=environment,
        stdout=out,
        stderr=None if out is None else out,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def endpoint(policy_ms: float, judge_ms: float, tokens: int) -> AsyncIterator[str]:
    """The lean endpoint; yields its base URL."""
    flags = (f"--policy_ms={policy_ms}", f"--judge_ms={judge_ms}", f"--tokens={tokens}")
    pipe = asyncio.subprocess.PIPE
    async with running("-m", "benchmarks.rollouts.endpoint", *flags, out=pipe) as process:
        assert process.stdout is not None
        port = (await process.stdout.readline()).decode().strip()
        yield f"http://127.0.0.1:{port}/v1"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
