"""Results of units in a directory that several processes share: each appends to a file of its own.

Guarantees: a result is in the file before its batch is returned, as soon as its unit has ended; a process reads, when
it begins, what all files have; a line that was cut off by the end of a process is left out. Only results without a
failure are kept, so that what failed is judged again. Memory holds 24 bytes for each result that was read.

The calls of a unit that is judged in another process: collected there, and recorded in the run's ledger here.

Guarantee: the ledger of the run gets the calls under the keys that they would have had here, so that the run is
resumed, reported and compared as any other; what the ledger held of an earlier run goes along, and is not asked again.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from judgegym.engine.runs.ledger import LedgerOfRow, digest_of
from judgegym.engine.runs.lines import RawLine, whole_lines
from judgegym.judges.scorers.items import ResponseScore
from judgegym.llm import wire
from judgegym.llm.errors import EndpointError, RunStop, SettingsError
from judgegym.llm.ledger import CallKey, VerdictLocation
from judgegym.llm.types import ChatResponse

_ENDING = ".jsonl"
_WORDS = struct.Struct(">QQ")
_FIELDS = ("score", "status", "label", "explanation", "components")
_OFFSET_BITS = 48


class ResultLedger:
    """The results of earlier processes, and a file for those of this one."""

    def __init__(self, folder: Path) -> None:
        """Read what is there.

        Args:
            folder: is made if it is not there.

        Raises:
            SettingsError: it cannot be used.
            RunDirectoryError: a line is damaged that is not the last of its file.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._files = sorted(folder.glob(f"*{_ENDING}"))
        except OSError as error:
            raise SettingsError(f"ledger: {folder} cannot be used: {error.strerror}") from error
        self._read()
        self._path = folder / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}{_ENDING}"
        self._file: int | None = None

    def _read(self) -> None:
        import numpy  # late: Ray Data and datasets bring it

        keys, places = bytearray(), array("Q")
        for number, file in enumerate(self._files):
            for line in whole_lines(file):
                keys += _key(line)
                places.append(number << _OFFSET_BITS | line.offset)
        words = numpy.frombuffer(bytes(keys), dtype=">u8").reshape(-1, 2)
        order = numpy.lexsort((words[:, 1], words[:, 0]))
        self._high = words[order, 0].astype("u8")
        self._low = words[order, 1].astype("u8")
        self._places = numpy.frombuffer(places.tobytes(), dtype="u8")[order]

    def __len__(self) -> int:
        """How many results of other processes are there."""
        return len(self._places)

    def find(self, key: bytes) -> list[ResponseScore] | None:
        """The results of the unit with a key of 16 bytes, one for each response; `None` if there are none."""
        high, low = _WORDS.unpack(key)
        place = int(self._high.searchsorted(high))
        while place < len(self) and int(self._high[place]) == high:
            if int(self._low[place]) == low:
                return list(self._results(int(self._places[place])))
            place += 1
        return None

    def _results(self, place: int) -> Iterator[ResponseScore]:
        path, offset = self._files[place >> _OFFSET_BITS], place & ((1 << _OFFSET_BITS) - 1)
        with path.open("rb") as file:
            file.seek(offset)
            fields = RawLine(path, 0, offset, file.readline()).fields()
        for result in cast("Sequence[Mapping[str, Any]]", fields["results"]):
            yield ResponseScore(**{name: result[name] for name in _FIELDS})

    def append(self, key: bytes, results: Sequence[ResponseScore]) -> None:
        """Append the results of a unit, unless one of them is a failure.

        Raises:
            SettingsError: the file cannot be written to.
        """
        if any(result.is_failed for result in results):
            return
        dumped = [{name: getattr(result, name) for name in _FIELDS} for result in results]
        line = wire.dumps({"key": key.hex(), "results": dumped}) + b"\n"
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            written = os.write(self._file, line)
        except OSError as error:
            raise SettingsError(f"ledger: {self._path} cannot be written to: {error.strerror}") from error
        if written < len(line):
            raise SettingsError(f"ledger: {self._path} cannot be written to: the disk is full")

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _key(line: RawLine) -> bytes:
    """The key of a line.

    Raises:
        RunDirectoryError: it has none.
    """
    key = line.fields().get("key")
    try:
        found = bytes.fromhex(key) if isinstance(key, str) else b""
    except ValueError:
        found = b""
    if len(found) != _WORDS.size:
        raise line.error("expected the result of a judged unit, with its key")
    return found


Held: TypeAlias = "Mapping[str, Mapping[int, ChatResponse]]"
"""What a ledger holds of a row, as `LedgerOfRow.held` gives it."""


@dataclass(frozen=True, slots=True)
class RequestLeft:
    """A request left, left once more, or did not leave after all; `number` counts the requests of its call."""

    number: int
    how: Literal["sent", "sent_again", "not_sent"]


@dataclass(frozen=True, slots=True)
class PartMessage:
    """A part of a call's answer; `number` is that of its request, `None` if none was sent."""

    part: int
    number: int | None
    answer: ChatResponse
    verdict: VerdictLocation


@dataclass(frozen=True, slots=True)
class FailureMessage:
    """A request without an answer."""

    number: int
    error: EndpointError | RunStop


@dataclass(slots=True)
class CollectedCall:
    """One call; implements `judgegym.llm.ledger.CallRecord`."""

    asked: CallKey
    held: Mapping[int, ChatResponse]
    events: list[RequestLeft | PartMessage | FailureMessage] = field(default_factory=list)
    _sent: int = 0

    async def ready(self) -> float:
        """See `CallRecord`; the disk is elsewhere."""
        return 0.0

    def sent(self) -> int:
        """See `CallRecord`."""
        self._sent += 1
        self.events.append(RequestLeft(self._sent, "sent"))
        return self._sent

    def sent_again(self, number: int) -> None:
        """See `CallRecord`."""
        self.events.append(RequestLeft(number, "sent_again"))

    def not_sent(self, number: int) -> None:
        """See `CallRecord`."""
        self.events.append(RequestLeft(number, "not_sent"))

    def answered(self, part: int, number: int | None, answer: ChatResponse, verdict: VerdictLocation) -> None:
        """See `CallRecord`."""
        self.events.append(PartMessage(part, number, answer, verdict))

    def failed(self, number: int, error: EndpointError | RunStop) -> None:
        """See `CallRecord`."""
        self.events.append(FailureMessage(number, error))


@dataclass(slots=True)
class CollectedRow:
    """The calls of one unit; implements `judgegym.llm.ledger.RowLedger`."""

    held: Held
    calls: list[CollectedCall] = field(default_factory=list)
    _times: Counter[str] = field(default_factory=Counter)

    def record(self, asked: CallKey) -> CollectedCall:
        """See `RowLedger`."""
        request = digest_of(asked)
        self._times[request] += 1
        call = CollectedCall(asked, self.held.get(f"{request}.{self._times[request]}", {}))
        self.calls.append(call)
        return call

    def holds(self, asked: CallKey) -> bool:
        """See `RowLedger`."""
        if not self.held:
            return False
        request = digest_of(asked)
        return bool(self.held.get(f"{request}.{self._times[request] + 1}"))


async def record_calls(row: LedgerOfRow, calls: list[CollectedCall]) -> None:
    """Record the calls of a unit in the ledger of its row.

    Raises:
        DiskFull: the disk refused for too long.
    """
    for call in calls:
        record = row.record(call.asked)
        await record.ready()
        numbers: dict[int, int] = {}
        for event in call.events:
            if isinstance(event, RequestLeft):
                if event.how == "sent":
                    numbers[event.number] = record.sent()
                elif event.how == "sent_again":
                    record.sent_again(numbers[event.number])
                else:
                    record.not_sent(numbers[event.number])
            elif isinstance(event, FailureMessage):
                record.failed(numbers[event.number], event.error)
            else:
                number = None if event.number is None else numbers[event.number]
                record.answered(event.part, number, event.answer, event.verdict)
