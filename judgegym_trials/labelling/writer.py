"""Writer of the file of labels; a line is on the disk when `LabelWriter.append` returns."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from judgegym.engine.runs.lines import DiskFile
from judgegym.llm.errors import UserError
from judgegym.reports.labels.file import Draw, Label


class LabelWriter(DiskFile):
    """Appends to a file of labels; written lines are on the disk."""

    def __init__(self, path: Path) -> None:
        """Open and lock the file at `path`, and remove a last line that a crash has cut off.

        Raises:
            UserError: it cannot be opened, or another process appends to it.
        """
        self._path = path
        try:
            super().__init__(path)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.size()
        except BlockingIOError:
            self.close()
            raise UserError(
                f"{path} is in use by another process; several labellers share one server"
            ) from None
        except OSError as error:
            raise UserError(f"{path} cannot be written to: {error.strerror}") from None

    def append(self, *lines: Label | Draw) -> None:
        """Append lines; they are on the disk afterwards.

        Raises:
            UserError: a line cannot be written; then the file ends with the last whole line.
        """
        data = b"".join(line.to_line() for line in lines)
        try:
            while data:
                data = data[self.write(data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            self.size()  # removes the partly written line
            raise UserError(f"{self._path} cannot be written to: {error.strerror}") from None
