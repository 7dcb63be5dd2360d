"""Find the lines of a damaged file of a run that can still be read.

A line that a crash has glued to another one is taken apart at the beginnings that lines of its file have; these cannot
occur within a JSON string, whose quotes are escaped. What remains readable and was altered all the same cannot be known
in a plain file; of a compressed ledger each part has a checksum, and a part that does not meet it is dropped.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgegym.engine.runs.ledger import RunUsage
from judgegym.engine.runs.recorded_calls import Texts, recorded_call
from judgegym.llm import wire

CheckLine = Callable[[bytes], object]
"""Raises `ValueError`, `TypeError` or `KeyError` for a line that is not of its file."""

SAMPLE_BEGINS = re.compile(rb'\{"uid":"')
CALL_BEGINS = re.compile(
    rb'\{"(?:call":\{"id|sent|again|unsent|failed|row_failed|resumed|begun":\{"number|done|state":\{"step)":'
)
GROUP_BEGINS = re.compile(rb"(?!)")  # nothing is asked again for a group that is dropped

_DECODER = json.JSONDecoder()
_MEMBER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
"""How a part of a compressed ledger begins."""
_GZIP = 31
_LARGEST_GAP = 100_000  # a number that is damaged may be any
_CHUNK = 1 << 16


@dataclass(slots=True)
class DroppedLines:
    """What of a file is dropped.

    Attributes:
        kept: how many lines are kept.
        places: what is dropped, and why, in the order of the file.
    """

    kept: int = 0
    places: list[str] = field(default_factory=list)


def readable_lines(
    lines: Iterable[bytes], begins: re.Pattern[bytes], check: CheckLine, dropped: DroppedLines
) -> Iterator[bytes]:
    """Go through the lines of a file, and give those that can be read.

    Args:
        lines: the lines, each with its newline; a last one without it is left out.
        begins: how a line of this file begins.
        check: raises an error for a line that cannot be read.
        dropped: takes what is dropped.
    """
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            continue
        reason = _fault(line, check)
        if reason is None:
            dropped.kept += 1
            yield line
            continue
        found = [piece for piece in _pieces(line, begins) if _fault(piece, check) is None]
        also = f"; {len(found)} whole in it {'is' if len(found) == 1 else 'are'} kept" if found else ""
        dropped.places.append(f"line {number} ({len(line):,} bytes): {reason}{also}")
        dropped.kept += len(found)
        yield from found


def _fault(line: bytes, check: CheckLine) -> str | None:
    """Why a line cannot be read, in a few words; `None` if it can."""
    try:
        value = wire.loads(line)
    except ValueError:
        return "not JSON"
    if not isinstance(value, dict):
        return "not an object"
    try:
        check(line)
    except KeyError as error:
        return f"without {error}"
    except (TypeError, ValueError) as error:
        return " ".join(str(error).split())[:200]
    return None


def _pieces(line: bytes, begins: re.Pattern[bytes]) -> Iterator[bytes]:
    """The whole lines within a damaged one: the objects that begin as lines do; what follows one is dropped."""
    text = line.decode("latin-1")  # a character for each byte
    for match in begins.finditer(line):
        try:
            _, end = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield line[match.start() : end] + b"\n"


@dataclass(slots=True)
class LedgerCheck:
    """Checks the lines of a ledger, which depend on earlier ones.

    Attributes:
        unanswered: the numbers of requests without a line that says how they ended.
        lost_texts: how many calls are without the messages that they were asked, which a lost line held.
        failed: uids of rows that are marked as failed.
    """

    unanswered: set[int] = field(default_factory=set)
    lost_texts: int = 0
    failed: set[str] = field(default_factory=set)
    _begun: set[int] = field(default_factory=set)
    _last: int = 0
    _known: Texts = field(default_factory=lambda: Texts(keep=True))
    _written: Texts = field(default_factory=lambda: Texts(keep=False))

    def check(self, line: bytes) -> None:
        """Raise an error for a line that is not of a ledger."""
        fields: Any = wire.loads(line)
        match fields:
            case {"call": {"id": int() | None as number, "key": str(), "part": int()}}:
                whole = {**fields["call"], "messages": None}
                recorded_call(whole, self._known, None)
                RunUsage().note_answer(whole)
            case {"failed": int() as number}:
                RunUsage().note_failure(fields)
            case {"row_failed": str() as row, "group": int() | None}:
                self.failed.add(row)
                return
            case {"begun": {"number": int() as group, "row": str(), "step": int(), "epoch": int(), "position": int()}}:
                self._begun.add(group)
                return
            case {"done": int() as group}:
                if group not in self._begun:
                    raise ValueError(f"of group {group}, of which a damaged line said that it began")
                return
            case {"sent": int() as number}:
                self.unanswered.update(range(max(self._last + 1, number - _LARGEST_GAP), number + 1))
                self._last = max(self._last, number)
                return
            case {"again": int()} | {"unsent": int()} | {"resumed": int()}:
                return
            case {"state": {"step": int() | None, "last_group": int(), "place": [int(), int()] | None}}:
                return
            case _:
                raise ValueError("not of a ledger of calls")
        self.unanswered.discard(number or 0)

    def rewritten(self, line: bytes) -> bytes:
        """A readable line with its long texts, of which the line that held one may be lost; without them if it is."""
        fields: Any = wire.loads(line)
        messages = fields["call"].get("messages") if "call" in fields else None
        if messages is None:
            return line
        try:
            read = [self._known.read(message) for message in messages]
        except (AttributeError, KeyError, TypeError):
            self.lost_texts += 1
            call = {name: value for name, value in fields["call"].items() if name != "messages"}
            return wire.dumps({"call": call}) + b"\n"
        written = [self._written.written(message) for message in read]
        return line if written == messages else wire.dumps({"call": {**fields["call"], "messages": written}}) + b"\n"


def unpacked_lines(path: Path, dropped: DroppedLines) -> Iterator[bytes]:
    """The lines in the parts of a compressed ledger that are whole; a line that ends in another part is cut."""
    rest = b""
    for data in _unpacked(path, dropped):
        *lines, rest = (rest + data).split(b"\n")
        yield from (line + b"\n" for line in lines if line)  # an empty one stands in the place of a damaged part


def _unpacked(path: Path, dropped: DroppedLines) -> Iterator[bytes]:
    """What the parts hold; a newline in the place of a damaged one, which parts the lines around it."""
    packed = path.read_bytes()
    start = 0
    while start < len(packed):
        length, fault = _length(packed, start)
        following = packed.find(_MEMBER, start + 1)
        if fault is None:
            yield from _contents(packed, start, start + length)
            start += length
            continue
        if length and following < 0:  # nothing but the end is missing
            yield from _contents(packed, start, len(packed))
        end = following if following >= 0 else len(packed)
        dropped.places.append(f"bytes {start:,} to {end:,}: {fault}")
        yield b"\n"
        start = end


def _length(packed: bytes, start: int) -> tuple[int, str | None]:
    """The length of the part that begins at a place, and what is wrong with it; 0 if its bytes are wrong."""
    try:
        unpacker = zlib.decompressobj(_GZIP)
        for place in range(start, len(packed), _CHUNK):
            chunk = packed[place : place + _CHUNK]
            unpacker.decompress(chunk)
            if unpacker.eof:
                return place + len(chunk) - len(unpacker.unused_data) - start, None
    except zlib.error as error:
        return 0, f"cannot be unpacked ({error})"
    return len(packed) - start, "the end is missing"


def _contents(packed: bytes, start: int, end: int) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP)
    for place in range(start, end, _CHUNK):
        yield unpacker.decompress(packed[place : min(place + _CHUNK, end)])
