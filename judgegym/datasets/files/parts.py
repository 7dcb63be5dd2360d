"""A file for pyarrow, whose bytes are taken as they come."""

from __future__ import annotations


class OutputBuffer:
    """What a writer of pyarrow has written and nobody has taken yet."""

    closed = False

    def __init__(self) -> None:
        """Hold nothing."""
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Take a copy: pyarrow uses its buffer again."""
        self._waiting.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """What waits can still be taken."""

    def take(self) -> bytes:
        """What was written since the last call."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data
