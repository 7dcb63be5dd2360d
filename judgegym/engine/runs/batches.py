"""The batches of a run: `batches.jsonl` in its directory, for resuming.

A line has some of these fields:

* `run`: in the first line: the prefix of batch names (`NAME-1`) and request ids (`NAME-1-0`)
* `batch`: its number, from 1
* `at`: when it is sent
* `kind`: `openai`, `anthropic` or `folder`
* `endpoint`: where it is sent
* `model`: the judge
* `requests`: of each request its number in `calls.jsonl` and its identity in the run
* `id`: the provider's id, once it is created
* `state`: the provider's word; `void` if it was not created and its requests were sent again
* `done`: finished requests, of those in `of`

Responses are only in `calls.jsonl`: a request without a response there is continued.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.lines import RawLine
from judgegym.engine.runs.recorded_calls import BATCHES
from judgegym.llm import wire
from judgegym.llm.batches.kinds import BatchState
from judgegym.llm.batches.queue import VOID, Batch, Batches, Line
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.engine.runs.directory import RunDirectory
    from judgegym.engine.runs.ledger import CallLedger
    from judgegym.judges.config.batches import JudgeBatchSettings


def read_batches(run: Path | RunDirectory) -> tuple[str, dict[int, Batch]]:
    """Read a run's name in its batches, and the batches by number; none without the file.

    Raises:
        RunDirectoryError: the file cannot be read.
    """
    name, batches = "", dict[int, Batch]()

    def note(line: RawLine) -> None:
        nonlocal name
        fields: Mapping[str, Any] = line.fields()
        if "run" in fields:
            name = str(fields["run"])
            return
        number = fields["batch"]
        if "requests" in fields:
            requests = [(sent, str(identity)) for sent, identity in fields["requests"]]
            target = (fields["kind"], fields["endpoint"], fields["model"])
            batches[number] = Batch(
                number, f"{name}-{number}", fields["at"], *target, requests, is_earlier=True
            )
        elif number not in batches:
            return  # a damaged line had its requests
        elif "id" in fields:
            batches[number].id = str(fields["id"])
        else:
            batches[number].state = BatchState(
                str(fields["state"]), fields.get("done", 0), fields.get("of", 0)
            )

    for _ in read_lines(run / BATCHES, note) if isinstance(run, Path) else run.lines(BATCHES, note):
        pass
    return name, batches


@asynccontextmanager
async def use_batches(
    run: RunDirectory, ledger: CallLedger, settings: JudgeBatchSettings
) -> AsyncIterator[None]:
    """Put the judges' requests in the block into batches, if the settings say so.

    Raises:
        SettingsError: requests of the run are in batches, but the settings would send them live.
        RunDirectoryError: `batches.jsonl` cannot be read.
    """
    if settings.judge_batch is None:
        if ledger.in_batches:
            waiting = len(ledger.in_batches)
            raise SettingsError(
                f"{waiting:,} requests of the run are in batches whose responses are missing; "
                f"resume it with judge_batch ({run.path / BATCHES})"
            )
        yield
        return
    name, earlier = read_batches(run)
    lines = run.writer(BATCHES)

    def record(fields: Mapping[str, JSON]) -> None:
        lines.append(wire.dumps(fields) + b"\n")

    if not name:
        name = "judgegym-" + uuid.uuid4().hex[:12]
        record({"run": name})
    for batch in earlier.values():
        sent = batch.requests if batch.state.status != VOID else ()
        batch.lines = [
            Line(identity if number in ledger.in_batches else "", number)
            for number, identity in sent
        ]
    async with Batches(
        name, record, run.disk.ready, earlier.values(), settings.judge_batch_quiet
    ).collect_requests():
        yield
