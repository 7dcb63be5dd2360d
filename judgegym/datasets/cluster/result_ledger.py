"""A ledger of judgments in a directory that several processes share; each appends to its own file.

Guarantees: a result is in the file as soon as its task has ended, before its batch is returned. A
process reads all files when it starts, and skips a line that was cut off by the end of a process.
Results with a failure are not kept, so that they are judged again. Memory holds the position of
each result.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from judgegym.datasets.rows.task import KEY_BYTES
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.lines import LineWriter, RawLine
from judgegym.judges.core.judgment import NamedVerdict
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

_ENDING = ".jsonl"
_KEY = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
_FIELDS = ("score", "status", "label", "explanation", "components")


def _read_key(line: RawLine) -> bytes:
    key = line.fields()["key"]
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError("expected the result of a judged row, with its key")
    return bytes.fromhex(key)


class ResultLedger:
    """The results of earlier processes, and a file for the results of this one."""

    def __init__(self, folder: Path) -> None:
        """Read the results of earlier processes.

        Args:
            folder: the directory, which is created if it is missing.

        Raises:
            SettingsError: the directory cannot be used.
            RunDirectoryError: a file cannot be read.
        """
        self._locations: dict[bytes, tuple[Path, int]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = sorted(folder.glob(f"*{_ENDING}"))
        except OSError as error:
            raise SettingsError(f"ledger: {folder} cannot be used: {error.strerror}") from error
        for file in files:
            for line, key in read_lines(file, _read_key, may_grow=True):
                self._locations.setdefault(key, (file, line.offset))
        host = socket.gethostname()
        process = os.getpid()
        random = secrets.token_hex(4)
        path = folder / f"{host}-{process}-{random}{_ENDING}"
        self._lines = LineWriter(path, self._raise_unwritable)

    def find(self, key: bytes) -> list[ResponseJudgment] | None:
        """Return the results of the task with a key, one for each response; `None` if unknown."""
        if key not in self._locations:
            return None
        path, offset = self._locations[key]
        with path.open("rb") as file:
            file.seek(offset)
            fields = RawLine(path, 0, offset, file.readline()).fields()
        results = cast("Sequence[dict[str, Any]]", fields["results"])
        return [
            ResponseJudgment(
                **{name: result[name] for name in _FIELDS},
                verdicts=tuple(NamedVerdict(**verdict) for verdict in result.get("verdicts", ())),
            )
            for result in results
        ]

    def append(self, key: bytes, results: Sequence[ResponseJudgment]) -> None:
        """Append the results of a task, unless one of them is a failure.

        Raises:
            SettingsError: the file cannot be written.
        """
        if any(result.is_failed for result in results):
            return
        dumped: list[JSON] = [
            {
                **{name: getattr(result, name) for name in _FIELDS},
                "verdicts": [asdict(verdict) for verdict in result.verdicts],
            }
            for result in results
        ]
        self._lines.append(wire.dumps({"key": key.hex(), "results": dumped}) + b"\n")

    def _raise_unwritable(self, path: Path, error: OSError) -> None:
        self._lines.drop()
        raise SettingsError(f"ledger: {path} cannot be written to: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
