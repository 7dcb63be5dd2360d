"""Ledger of calls of `serve`: `calls.jsonl` with the groups in progress.

Guarantees: a response is used again only by the group that it was made for, and only if the trainer
is at the step at which that group began, because each step makes another policy. A finished group
is never made again from its responses. Unless all calls are kept, the file has a bounded size: it
is replaced, as a whole or not at all, by a file with only the groups in progress.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.ledger import CallLedger, DiskRowLedger, RowKey, RunUsage
from judgegym.engine.runs.recorded_calls import CALLS
from judgegym.llm import wire
from judgegym.llm.cost.budget import Budget
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

COMPACT_FROM = 32 * 1024 * 1024
"""Compact the file when it is larger than this, and than twice its size after the last
compaction."""


@dataclass(frozen=True, slots=True)
class LedgerGroup:
    """A group that has begun, as in its line of the ledger.

    Attributes:
        number: the group's number in the run, from 1.
        row: the uid of its row.
        step: the trainer's step at which it began.
        epoch: the sampler's epoch after it drew the row.
        position: the sampler's position in that epoch.
    """

    number: int
    row: str
    step: int
    epoch: int
    position: int


class GroupLedger(CallLedger):
    """Ledger of a `serve` in progress."""

    def __init__(self, run: RunDirectory, *, keep: bool) -> None:
        """Open the ledger of a run, and read the groups in progress of an earlier run.

        Args:
            run: the run directory.
            keep: keep all calls, with their messages.

        Raises:
            RunDirectoryError: the ledger cannot be read.
        """
        self._keep = keep
        self._in_progress: dict[int, LedgerGroup] = {}
        self._last_group = 0
        self._step: int | None = None
        """Latest step of the ledger."""
        self._sampler_position: tuple[int, int] | None = None
        """Sampler's epoch and position when the latest group began."""
        self._is_same_step = False
        self._limit = COMPACT_FROM
        self.budget: Budget | None = None
        super().__init__(run, finished=(), keep_texts=keep)
        # Responses are read from the file as it is now, also after it is replaced: their
        # positions are those in this one.
        self._reader = None
        if self.is_resumed:
            self._reader = self._path.open("rb")
        self._last_group = max([self._last_group, *(number or 0 for _, number in self._places)])
        for key in [key for key in self._places if key[1] not in self._in_progress]:
            del self._places[key]  # a damaged line said that the group began, and at which step
        self._interrupted = list(self._in_progress.values())
        self._answers: dict[int | None, list[int]] = defaultdict(list)
        """Positions of the responses of each group in progress."""
        for (_, number), calls in self._places.items():
            offsets: list[int] = []
            for places in calls.values():
                offsets += (offset for offset, _ in places)
            self._answers[number] = sorted(offsets)

    def _note(self, line: Mapping[str, Any], place: int, finished: Container[str]) -> None:
        if "begun" in line:
            group = LedgerGroup(**line["begun"])
            self._in_progress[group.number] = group
            self._last_group = max(self._last_group, group.number)
            self._step, self._sampler_position = group.step, (group.epoch, group.position)
        elif "done" in line:
            done = self._in_progress.pop(line["done"], None)
            if done is not None:  # else a damaged line said that it began
                self._places.pop((done.row, done.number), None)
        elif "state" in line:
            state = line["state"]
            self._last_group, self._step = state["last_group"], state["step"]
            position = state["place"]
            self._sampler_position = None
            if position is not None:
                self._sampler_position = (position[0], position[1])
            # What all calls cost, also those whose responses are not kept.
            spent = state.get("spent")
            if spent is not None:
                self.earlier = RunUsage(spent["calls"], {"": Usage(cost=spent["usd"])})
        else:
            super()._note(line, place, finished)

    def resume(self, step: int) -> Mapping[str, JSON] | None:
        """Begin at a step of the trainer.

        Returns:
            The sampler's position and the rows in progress when the earlier run was stopped; `None`
                without such a run, or if the trainer has gone back since: then its own checkpoint
                has the position.
        """
        earlier_step, position = self._step, self._sampler_position
        has_gone_back = earlier_step is not None and step < earlier_step
        if has_gone_back:
            logger.info(
                "the trainer was at step %s and is at step %d: all groups begin anew",
                earlier_step,
                step,
            )
            for group in self._interrupted:
                self.done(group.number)
            self._interrupted.clear()
            self._sampler_position = None
        self.note_step(step)
        self._is_same_step = step == earlier_step
        if position is None or has_gone_back:
            return None
        unfinished: list[JSON] = [group.row for group in self._interrupted]
        reused = 0
        if self._is_same_step:
            reused = len(unfinished)
        logger.info(
            "resuming: %d groups were in progress, the answers of %d are of this step; %s",
            len(unfinished),
            reused,
            self.loss,
        )
        return {"epoch": position[0], "position": position[1], "unfinished": unfinished}

    def note_step(self, step: int) -> None:
        """Record the trainer's step; responses of earlier steps are not used from now on."""
        if step != self._step:
            self._is_same_step = False
        self._step = step
        self.append(self._state())

    def begin(self, row: str, *, step: int, epoch: int, position: int) -> DiskRowLedger:
        """Begin a group; return its calls.

        They are those of the row's group that was interrupted in this step, or none yet.
        """
        earlier = next((group for group in self._interrupted if group.row == row), None)
        if earlier is not None:
            self._interrupted.remove(earlier)
            if self._is_same_step and earlier.step == step == self._step:
                return self.row(row, earlier.number)
        self._last_group += 1
        group = LedgerGroup(self._last_group, row, step, epoch, position)
        self._in_progress[group.number] = group
        self._sampler_position = (epoch, position)
        self.append({"begun": asdict(group)})
        if earlier is not None:
            self.done(earlier.number)
        return self.row(row, group.number)

    def done(self, number: int | None) -> None:
        """Record that a group was sent or dropped."""
        assert number is not None, "the calls of a group have its number"
        group = self._in_progress.pop(number)
        self._answers.pop(number, None)
        key: RowKey = (group.row, number)
        self._places.pop(key, None)
        self.in_flight = {sent: row for sent, row in self.in_flight.items() if row != key}
        end = self.append({"done": number})
        if not self._keep and end > self._limit:
            self._compact()

    def answer(self, row: RowKey, number: int | None, line: bytes) -> int:
        """Append the line of a response to a call of a group; return its offset in the file."""
        place = super().answer(row, number, line)
        if row[1] in self._in_progress:
            self._answers[row[1]].append(place)
        return place

    def _state(self) -> dict[str, JSON]:
        position: JSON = None
        if self._sampler_position is not None:
            position = [*self._sampler_position]
        spent = {}
        if self.budget is not None:
            spent = {"spent": cast("JSON", asdict(self.budget.recorded))}
        return {
            "state": {
                "step": self._step,
                "last_group": self._last_group,
                "place": position,
                **spent,
            }
        }

    def _compact(self) -> None:
        """Replace the file by the groups in progress.

        If the disk refuses, the file grows for a while.
        """
        writer = self._run.writer(CALLS)
        if writer.waiting:
            return
        moved: dict[int | None, list[int]] = defaultdict(list)

        def content() -> Iterator[bytes]:
            moved.clear()
            size = 0
            with self._path.open("rb") as file:
                for group in self._in_progress.values():
                    line = _line({"begun": asdict(group)})
                    yield line
                    size += len(line)
                    for offset in self._answers.get(group.number, ()):
                        file.seek(offset)
                        line = file.readline()
                        moved[group.number].append(size)
                        yield line
                        size += len(line)
            for number in self.in_flight:
                yield _line({"sent": number})
            yield _line(self._state())

        try:
            write_atomic(self._path, content)
            size = self._path.stat().st_size
        except OSError as error:
            logger.info("%s is not compacted: %s", self._path, error.strerror)
            self._limit += COMPACT_FROM
            return
        writer.close()  # the next line goes to the new file
        self._answers = moved
        self._limit = max(COMPACT_FROM, 2 * size)


def _line(fields: Mapping[str, JSON]) -> bytes:
    return wire.dumps(fields) + b"\n"
