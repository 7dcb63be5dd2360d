"""Repair a run directory whose files are damaged, so that the run can be resumed.

Guarantees: a file is replaced as a whole or not at all, and what it was stays beside it (`….before_repair`); the run is
locked meanwhile; what is dropped is listed with file and place; a run without damage is not touched.

Find the lines of a damaged file of a run that can still be read.

A line that a crash has glued to another one is taken apart at the beginnings that lines of its file have; these cannot
occur within a JSON string, whose quotes are escaped. What remains readable and was altered all the same cannot be known
in a plain file; of a compressed ledger each part has a checksum, and a part that does not meet it is dropped.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgegym.engine.runs.directory import (
    CONFIG,
    FAILURES,
    METRICS,
    REPORT,
    SAMPLES,
    DirectoryLock,
    read_settings,
    run_directory_of,
)
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.ledger import RunUsage
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS, Texts, recorded_call
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError

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
    for data in _unpacked(path.read_bytes(), dropped):
        *lines, rest = (rest + data).split(b"\n")
        yield from (line + b"\n" for line in lines if line)  # an empty one stands in the place of a damaged part


def _unpacked(packed: bytes, dropped: DroppedLines) -> Iterator[bytes]:
    """What the parts hold; a newline in the place of a damaged one, which parts the lines around it."""
    starts = [place.start() for place in re.finditer(re.escape(_MEMBER), packed)]
    bounds = [0, *(start for start in starts if start), len(packed)]
    for start, end in itertools.pairwise(bounds):
        part = packed[start:end]
        try:
            yield gzip.decompress(part)
            continue
        except EOFError:
            fault = "the end is missing"
            if end == len(packed):
                yield zlib.decompressobj(_GZIP).decompress(part)
        except (OSError, zlib.error) as error:
            fault = f"cannot be unpacked ({error})"
        dropped.places.append(f"bytes {start:,} to {end:,}: {fault}")
        yield b"\n"


_KEPT = ".before_repair"
_TRAIN_METRICS = "train_metrics.json"


@dataclass(slots=True)
class Repair:
    """What was done to a run.

    Attributes:
        run: the run directory.
        groups: the file of groups beside it, if it has one.
        dropped: what was dropped of each file.
        kept: the originals, under the names that they have now.
        rows: at least so many rows have lost their lines.
        calls: about so many answers are lost.
        lost_texts: so many calls are without the messages that they were asked.
    """

    run: Path
    groups: Path | None
    dropped: dict[Path, DroppedLines] = field(default_factory=dict)
    kept: list[Path] = field(default_factory=list)
    rows: int = 0
    calls: int = 0
    lost_texts: int = 0


def repair(path: Path, check_sample: Callable[[Path], CheckLine]) -> Repair:
    """Drop what cannot be read of a run, and keep the rest.

    Args:
        path: a run directory, or a file of `score` or `process` with its run directory beside it.
        check_sample: gives for a run directory the check of a line of its samples.

    Raises:
        RunDirectoryError: there is no run, its settings cannot be read, or another process uses it.
        OSError: a file cannot be read or written; the others are as they were, or repaired.
    """
    run = path if path.is_dir() else run_directory_of(path)
    if not (run / CONFIG).is_file():
        raise RunDirectoryError(
            f"{path} is no run: expected a run directory with its {CONFIG}, or a file of score or process with its run "
            "directory beside it. Without that file nothing says with which settings the run was made"
        )
    named = wire.lookup(dict(read_settings(run)), "env.data_path_to_save_groups")
    groups = run.parent / Path(named).name if isinstance(named, str) else None
    is_here = groups is not None and run_directory_of(groups) == run and groups.exists()
    done = Repair(run, groups if is_here else None)
    lock = DirectoryLock(run)
    try:
        failed = _repair_samples(done, check_sample(run))
        _repair_ledger(done, failed)
        if done.groups is not None:
            _repair_lines(done, done.groups, GROUP_BEGINS, lambda line: None)
        for name in (METRICS, _TRAIN_METRICS):  # written anew when the run is resumed
            reason = _fault(b"".join(_lines(run / name)), lambda line: None) if (run / name).exists() else None
            if reason is not None:
                done.dropped[run / name] = DroppedLines(0, [reason])
                _keep(done, run / name).unlink()
    finally:
        lock.release()
    return done


def _repair_samples(done: Repair, check: CheckLine) -> set[str]:
    """Repair the samples; return the uids of rows that failed. Results that no longer fit are set aside."""
    failed = set[str]()

    def check_failure(line: bytes) -> None:
        check(line)
        failed.add(str(wire.lookup(wire.loads(line), "uid")))

    for name, check_line in ((SAMPLES, check), (FAILURES, check_failure)):
        done.rows += _repair_lines(done, done.run / name, SAMPLE_BEGINS, check_line)
    for name in (METRICS, REPORT):
        if done.rows and (done.run / name).exists():
            _keep(done, done.run / name).unlink()
    return failed


def _repair_ledger(done: Repair, failed: Iterable[str]) -> None:
    """Repair the ledger; a compressed one becomes a plain one."""
    plain, packed = done.run / CALLS, done.run / PACKED_CALLS
    path = plain if plain.exists() else packed
    if not path.exists():
        return
    rows = {part for uid in failed for part in (uid, uid.partition("/")[0])}

    def content(dropped: DroppedLines) -> Iterator[bytes]:
        checked = LedgerCheck()
        lines = _lines(plain) if path == plain else unpacked_lines(packed, dropped)
        for line in readable_lines(lines, CALL_BEGINS, checked.check, dropped):
            yield checked.rewritten(line)
        for uid in sorted(rows - checked.failed):  # the mark of a row that failed may be among what is lost
            yield wire.dumps({"row_failed": uid, "group": None}) + b"\n"
        done.calls, done.lost_texts = len(checked.unanswered), checked.lost_texts

    if _rewrite(done, path, plain, content):
        packed.unlink(missing_ok=True)
    else:
        done.calls = done.lost_texts = 0  # of an interrupted run requests are without an answer, too


def _repair_lines(done: Repair, path: Path, begins: re.Pattern[bytes], check: CheckLine) -> int:
    """Repair a file whose lines do not depend on each other; return in how many places it was damaged."""
    return _rewrite(done, path, path, lambda dropped: readable_lines(_lines(path), begins, check, dropped))


def _rewrite(done: Repair, path: Path, target: Path, content: Callable[[DroppedLines], Iterator[bytes]]) -> int:
    """Write what is readable of a damaged file to `target`; return in how many places it was damaged."""
    found = DroppedLines()
    for _ in content(found):
        pass
    if found.places:
        done.dropped[path] = found
        _keep(done, path)
        write_atomic(target, lambda: content(DroppedLines()))
    return len(found.places)


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            yield from file


def _keep(done: Repair, path: Path) -> Path:
    """Keep a file under another name beside it, too; return the file."""
    number, kept = 1, path.with_name(f"{path.name}{_KEPT}")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}{_KEPT}_{number}")
    try:
        os.link(path, kept)
    except OSError:  # a file system without links
        shutil.copy2(path, kept)
    done.kept.append(kept)
    return path
