"""A NeMo Gym project in a folder, and its own command `gym` run there: servers that it starts, and collections.

The virtual environments that it would make for each server are links to the one in which NeMo Gym
is installed.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.trainer import free_port
from tests.trainers.loops import trainers
from tests.trainers.loops.children import ended, ready, started
from tests.trainers.loops.examples import example

SERVERS = (
    *(
        "resources_servers/judgegym",
        "responses_api_agents/simple_agent",
        "responses_api_models/openai_model",
    ),
    "environment_servers/legacy_agent",  # before the agent, from 0.7 on
)


@dataclass(frozen=True)
class Gym:
    """A version of NeMo Gym, in an environment of its own."""

    environment: str
    version: str

    @property
    def environment_servers(self) -> tuple[str, ...]:
        """The types of servers between collector and agent, which 0.4 does not know."""
        return (
            ("legacy_agent",)
            if self.version == "0.4.0"
            else ("legacy_agent", "single_agent_turn_legacy")
        )

    @property
    def aggregates_failures(self) -> bool:
        """Whether failed rollouts are sent to be aggregated; 0.7 only counts them and keeps them in a file."""
        return self.version == "0.4.0"

    @property
    def servers(self) -> int:
        """How many servers stand beside the resources server."""
        return 2 if self.version == "0.4.0" else 3

    async def run(self, program: str, *arguments: object) -> trainers.Ended:
        """Run a program that lies beside these tests."""
        return await trainers.run(self.environment, program, *arguments, folder="nemo_gym")


@dataclass(frozen=True)
class Project:
    """A folder in which `gym` is called, and the port of its head server."""

    gym: Gym
    folder: Path
    head_port: int

    def words(self, command: str, *more: str) -> list[str]:
        """A command line with what is particular to this place."""
        head = ("++head_server.host=127.0.0.1", f"++head_server.port={self.head_port}")
        return [
            *shlex.split(command, comments=True),
            *(head if command.startswith("gym") else ()),
            *more,
        ]

    async def run(self, command: str, *more: str) -> tuple[int, str]:
        """Run a command to its end: its exit code, and all that it said."""
        return await ended(await self._child(self.words(command, *more)))

    @asynccontextmanager
    async def started(self, command: str, *more: str) -> AsyncIterator[str]:
        """The servers that `gym env start` starts, while the context lasts; what it said until they were ready."""
        environments = ("++skip_venv_if_present=true", f"++uv_venv_dir={self.folder}")
        child = await self._child(self.words(command, *environments, *more))
        async with ready(child, "servers ready! Polling") as said:
            yield said

    def lines(self, name: str) -> list[Any]:
        """The rows of a JSONL file; none if there is no file."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def write(self, name: str, rows: Sequence[Any]) -> None:
        """Write rows as JSONL."""
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    async def _child(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        return await started(self.gym.environment, words, self.folder)


async def project(gym: Gym, folder: Path) -> Project:
    """A project with the resources server, as the command that puts it there leaves it, and with all environments."""
    made = Project(gym, folder, free_port())
    code, said = await made.run(example("NeMo Gym", "bash", 1).splitlines()[0])
    assert code == 0, said
    for server in SERVERS:
        (folder / server).mkdir(parents=True, exist_ok=True)
        (folder / server / ".venv").symlink_to(trainers.place_of(gym.environment))
    return made
