"""The kinds of file that scoring and selecting write, by the ending of their name."""

from __future__ import annotations

from pathlib import Path

JSON_LINES, PARQUET = ".jsonl", ".parquet"
ENDINGS = (JSON_LINES, PARQUET)


def has_known_ending(path: Path) -> bool:
    """Whether it is a file of one of these kinds."""
    return path.suffix.lower() in ENDINGS


def is_parquet(path: Path) -> bool:
    """Whether it is Parquet, and not JSON lines."""
    return path.suffix.lower() == PARQUET
