"""The batches of a run: `batches.jsonl` in its directory, from which a resumed run takes them up again.

Its lines: the run's name in the names of its batches (`run`); a batch with the ids of its requests, before it is
uploaded (`requests`); the id that the provider gave it (`id`); how it stands (`state`; `void` if it was not created).
A request has its number in `calls.jsonl`, and what tells it apart from the others of the run. The responses are in
`calls.jsonl` alone: a request without one there is taken up.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgegym.engine.runs.lines import whole_lines
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.engine.runs.directory import RunDirectory
    from judgegym.engine.runs.ledger import CallLedger
    from judgegym.judges.config.batches import JudgeBatchSettings

BATCHES = "batches.jsonl"
VOID = "void"


@dataclass(slots=True)
class RecordedBatch:
    """A batch of a run, by its lines.

    Attributes:
        number: counted from 1.
        at: when it was sent (Unix time).
        kind: the kind of its endpoint.
        endpoint: its base URL, or its folder.
        model: the model that was asked for.
        requests: the number in the ledger of each of its requests, and what tells it apart from the others.
        id: the provider's; `None` if it is not known.
        state: the provider's word for how it stands, as far as it is known.
        done: how many requests had a response then.
    """

    number: int
    at: float
    kind: str
    endpoint: str
    model: str
    requests: list[tuple[int | None, str]]
    id: str | None = None
    state: str = ""
    done: int = 0


@dataclass(slots=True)
class RecordedBatches:
    """What `batches.jsonl` says: the name of the run in the names of its batches, and these by their numbers."""

    run: str = ""
    batches: dict[int, RecordedBatch] = field(default_factory=dict)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all requests that are in a batch, in the ledger."""
        found = (batch.requests for batch in self.batches.values() if batch.state != VOID)
        return frozenset(number for requests in found for number, _ in requests if number is not None)


def read_batches(run: Path) -> RecordedBatches:
    """The batches of a run; none without the file.

    Raises:
        RunDirectoryError: a line is damaged.
    """
    found = RecordedBatches()
    for line in whole_lines(run / BATCHES):
        fields: Mapping[str, Any] = line.fields()
        try:
            if "run" in fields:
                found.run = str(fields["run"])
            elif "requests" in fields:
                requests = [(number, str(identity)) for number, identity in fields["requests"]]
                kind, endpoint, model = (str(fields[name]) for name in ("kind", "endpoint", "model"))
                number = fields["batch"]
                found.batches[number] = RecordedBatch(number, fields["at"], kind, endpoint, model, requests)
            elif "id" in fields:
                found.batches[fields["batch"]].id = str(fields["id"])
            else:
                batch = found.batches[fields["batch"]]
                batch.state, batch.done = str(fields["state"]), fields.get("done", 0)
        except (KeyError, TypeError, ValueError) as error:
            raise line.damage(f"not of a file of batches: {error!r}") from error
    return found


class BatchFile:
    """Appends to `batches.jsonl`; implements `judgegym.llm.batches.queue.BatchRecord`."""

    def __init__(self, run: RunDirectory, name: str) -> None:
        """Go on with the file, or begin it; `name` is that of an earlier part of the run, if there was one."""
        self._disk, self._lines = run.disk, run.writer(BATCHES)
        self.run = name or f"judgegym-{uuid.uuid4().hex[:12]}"
        if not name:
            self.append({"run": self.run})

    def append(self, line: Mapping[str, JSON]) -> None:
        """See `BatchRecord`."""
        self._lines.append(wire.dumps(line) + b"\n")

    async def ready(self) -> None:
        """See `BatchRecord`; raises `DiskFull`."""
        if not self._disk.is_open:
            await self._disk.ready()


@asynccontextmanager
async def judged_in_batches(run: RunDirectory, ledger: CallLedger, settings: JudgeBatchSettings) -> AsyncIterator[None]:
    """Put the judges' requests into batches, if the settings say so, for the duration of the block.

    Raises:
        SettingsError: requests of the run are in batches, and the settings would send them live.
        RunDirectoryError: `batches.jsonl` is damaged.
    """
    if settings.judge_batch is None:
        if ledger.in_batches:
            raise SettingsError(
                f"{len(ledger.in_batches):,} requests of the run are in batches that are not recorded; resume it with "
                f"judge_batch ({run.path / BATCHES})"
            )
        yield
        return
    from judgegym.llm.batches.queue import Batch, Batches, Line  # late: few runs send batches

    recorded = read_batches(run.path)
    file = BatchFile(run, recorded.run)
    earlier = []
    for batch in recorded.batches.values():
        lines = [Line(identity if number in ledger.in_batches else "", number) for number, identity in batch.requests]
        name = f"{file.run}-{batch.number}"
        earlier.append(
            Batch(batch.number, () if batch.state == VOID else lines, name, batch.at, batch.id, is_earlier=True)
        )
    async with Batches(file, earlier, settings.judge_batch_quiet):
        yield
