"""JSON lines and JSON lists of objects, read from the open file on access.

Guarantees: all objects were valid when the file was opened. Memory holds 20 bytes for each,
whatever its length. A file that is replaced is read to the end in its earlier version. A file that
is rewritten or cut off is an error that names it at the first changed object.
"""

from __future__ import annotations

import codecs
import copy
import hashlib
import os
import re
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from judgegym.data.lazy_sequence import LazySequence
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

_PIECE = 1 << 20
_SPACE = b" \t\n\r"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{}]', re.DOTALL)
"""A string, the beginning of one whose end is not there, or a bracket."""


class BadLine(NamedTuple):
    """Line of a file that is no JSON object: the file, the line's number from 1, and the reason."""

    source: str
    number: int
    reason: str


class JsonFile(LazySequence[Mapping[str, JSON]]):
    """Objects of a file, which is closed with the last reference."""

    def __init__(self, path: Path, *, name: str | None = None, skips: bool = False) -> None:
        """Open and check a file: a list of objects, or one object per line.

        Args:
            path: the file.
            name: its name in messages; by default its path.
            skips: leave out lines that are no objects; `bad_lines` lists them.

        Raises:
            DataError: something in it is not an object; the message names the file and the row.
        """
        self._path = path
        self._name = name or str(path)
        self._skips = skips
        self.bad_lines: list[BadLine] = []
        """Lines that are left out because they are no objects."""
        self._edit: Callable[[bytes], bytes] | None = None
        self._whole: JsonFile | None = None
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._offsets, self._lengths, self._checksums = array("Q"), array("Q"), array("I")
        hashed = hashlib.sha256()
        is_list = path.suffix.lower() == ".json" and _begins_with_bracket(self._file)
        if is_list:
            texts = self._iter_list(hashed.update)
        else:
            texts = self._iter_lines(hashed.update)
        for offset, text in texts:
            self._offsets.append(offset)
            self._lengths.append(len(text))
            self._checksums.append(crc32(text))
        self.digest = hashed.hexdigest()
        """SHA-256 of the file, as `sha256sum` gives it."""

    def _iter_lines(self, callback: Callable[[bytes], object]) -> Iterator[tuple[int, bytes]]:
        """Yield each line with an object, and its offset.

        `callback` is called with all bytes of the file.
        """
        offset = 0
        with open(self._file, "rb", closefd=False) as lines:
            for number, line in enumerate(lines, start=1):
                callback(line)
                if line.strip() and self._is_object(line, number):
                    yield offset, line
                offset += len(line)

    def _is_object(self, line: bytes, number: int) -> bool:
        """Return whether a line is to be read.

        Raises:
            DataError: a line is no object, and such lines are not left out.
        """
        try:
            json_object(line, "")
        except DataError as error:
            reason = str(error).removeprefix(": ")
            if not self._skips:
                raise DataError(f"{self._name}, row {number}: {reason}") from error
            self.bad_lines.append(BadLine(self._name, number, reason))
            return False
        return True

    def _iter_list(self, callback: Callable[[bytes], object]) -> Iterator[tuple[int, bytes]]:
        """Yield the text of each object of a list, and its offset.

        `callback` is called with all bytes of the file.
        """

        def read(size: int) -> bytes:
            piece = file.read(size)
            callback(piece)
            return piece

        with open(self._file, "rb", closefd=False) as file:
            try:
                for offset, text in iter_list_objects(read):
                    if not isinstance(wire.loads(text), dict):
                        raise ValueError
                    yield offset, text
            except ValueError:
                raise self._find_list_error() from None

    def _find_list_error(self) -> DataError:
        """Find out why a file is no list of objects, from the file as a whole."""
        try:
            values = wire.loads(self._path.read_bytes().removeprefix(codecs.BOM_UTF8))
        except ValueError as error:
            return DataError(f"{self._name}: not JSON: {error}")
        for number, value in enumerate(values if isinstance(values, list) else [], start=1):
            if not isinstance(value, Mapping):
                kind = type(value).__name__
                return DataError(f"{self._name}, row {number}: expected an object, found {kind}")
        return DataError(f"{self._name}: expected a list of objects in UTF-8")

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self._offsets)

    def read(self, index: int) -> Mapping[str, JSON]:
        """Read an object.

        Raises:
            DataError: the file has changed.
        """
        return json_object(self.text(index), self._name)

    @property
    def size(self) -> int:
        """The bytes of all objects."""
        return sum(self._lengths)

    def texts(self) -> Iterator[bytes]:
        """Return the bytes of all objects, one after the other."""
        return (self.text(index) for index in range(len(self)))

    def edit_rows(self, edit: Callable[[bytes], bytes]) -> JsonFile:
        """Return the same objects with edited texts, such as without some of their keys.

        Args:
            edit: returns the edited text of an object, from its text in the file.
        """
        copied = copy.copy(self)
        copied._edit, copied._whole = edit, self  # which keeps the file open
        return copied

    def text(self, index: int) -> bytes:
        """Return an object's bytes as the file has them, a line with its newline.

        Edited objects have their edited bytes.

        Raises:
            DataError: the file has changed.
        """
        text = os.pread(self._file, self._lengths[index], self._offsets[index])
        if len(text) != self._lengths[index] or crc32(text) != self._checksums[index]:
            raise DataError(
                f"{self._name}: the file has changed since it was opened, and a row of it is no "
                "longer there; run again with a file that nobody writes to"
            )
        if self._edit is None:
            return text
        return self._edit(text)


def json_object(text: bytes, source: str) -> Mapping[str, JSON]:
    """Parse a text as an object.

    Raises:
        DataError: the text is no object; the message names the place.
    """
    try:
        value = wire.loads(text)
    except ValueError as error:
        raise DataError(f"{source}: not JSON: {error}") from error
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise DataError(f"{source}: expected an object, found {kind}")
    return value


def iter_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, a megabyte at a time."""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def digest_file(*paths: Path) -> str:
    """Return the SHA-256 of a file, as `sha256sum` gives it; of several, one after the other."""
    hashed = hashlib.sha256()
    for piece in chain.from_iterable(map(iter_pieces, paths)):
        hashed.update(piece)
    return hashed.hexdigest()


def _begins_with_bracket(file: int) -> bool:
    """Return whether the first character of a file, after white space, opens a list."""
    offset = 0
    while piece := os.pread(file, _PIECE, offset):
        start = piece.removeprefix(codecs.BOM_UTF8 if not offset else b"").lstrip()
        if start:
            return start.startswith(b"[")
        offset += len(piece)
    return False


def iter_list_objects(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each object of a JSON list, and its offset.

    The objects themselves are not checked.

    Args:
        read: returns at most this many of the next bytes of the file, and none at its end. The
            whole file is read.

    Raises:
        ValueError: the file is no list, or the list holds something other than objects.
    """
    data, base = b"", 0  # the bytes from offset `base`
    position = ended = begun = depth = (
        0  # in `data`: where to go on, the end of the last object, the beginning of this
    )
    is_first = True
    while True:
        token = _TOKEN.search(data, position)
        if token is None or token[0] == b'"':
            keep_from = begun if depth > 1 else ended
            position = (len(data) if token is None else token.start()) - keep_from
            more = read(max(_PIECE, len(data)))
            if not more:
                raise ValueError("there is no end")
            data, base, begun, ended = data[keep_from:] + more, base + keep_from, 0, 0
            continue
        position = token.end()
        if token[0] in b"[{":
            if depth < 2:
                before = data[ended : token.start()].strip(_SPACE)
                expected: tuple[bytes, ...] = (codecs.BOM_UTF8, b"")
                if depth:
                    expected = (b"",) if is_first else (b",",)
                if before not in expected or token[0] != b"[{"[depth : depth + 1]:
                    raise ValueError("expected objects in a list")
                is_first = is_first and not depth
                begun = token.start()
            depth += 1
            if depth == 1:
                ended = position
        elif token[0] in b"]}":
            depth -= 1
            if depth == 1:
                yield base + begun, data[begun:position]
                ended = position
            elif depth < 1:
                break
    trailing = data[ended : position - 1] + data[position:]
    while not trailing.strip(_SPACE):
        trailing = read(_PIECE)
        if not trailing:
            return
    raise ValueError("expected nothing but a list")
