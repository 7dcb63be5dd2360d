"""Results of units in a directory that several processes share: each appends to a file of its own.

Guarantees: a result is in the file before its batch is returned, as soon as its unit has ended; a process reads, when
it begins, what all files have; a line that was cut off by the end of a process is left out. Only results without a
failure are kept, so that what failed is judged again. Memory holds 24 bytes for each result that was read.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from judgegym.datasets.rows.unit import KEY_BYTES
from judgegym.engine.runs.lines import RawLine, whole_lines
from judgegym.judges.scorers.items import ResponseScore
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

_ENDING = ".jsonl"
_KEY = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
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

        found, places = bytearray(), array("Q")
        for number, file in enumerate(self._files):
            for line in whole_lines(file):
                key = line.fields().get("key")
                if not isinstance(key, str) or not _KEY.fullmatch(key):
                    raise line.error("expected the result of a judged unit, with its key")
                found += bytes.fromhex(key)
                places.append(number << _OFFSET_BITS | line.offset)
        keys = numpy.frombuffer(bytes(found), f"S{KEY_BYTES}")
        order = keys.argsort(kind="stable")
        self._keys, self._places = keys[order], numpy.frombuffer(places.tobytes(), "u8")[order]

    def find(self, key: bytes) -> list[ResponseScore] | None:
        """The results of the unit with a key of 16 bytes, one for each response; `None` if there are none."""
        index = int(self._keys.searchsorted(key))
        if index == len(self._keys) or self._keys[index] != key.rstrip(b"\0"):  # as numpy gives texts of a fixed length
            return None
        place = int(self._places[index])
        path, offset = self._files[place >> _OFFSET_BITS], place & ((1 << _OFFSET_BITS) - 1)
        with path.open("rb") as file:
            file.seek(offset)
            fields = RawLine(path, 0, offset, file.readline()).fields()
        results = cast("Sequence[dict[str, Any]]", fields["results"])
        return [ResponseScore(**{name: result[name] for name in _FIELDS}) for result in results]

    def append(self, key: bytes, results: Sequence[ResponseScore]) -> None:
        """Append the results of a unit, unless one of them is a failure.

        Raises:
            SettingsError: the file cannot be written to.
        """
        if any(result.is_failed for result in results):
            return
        dumped: list[JSON] = [{name: getattr(result, name) for name in _FIELDS} for result in results]
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
