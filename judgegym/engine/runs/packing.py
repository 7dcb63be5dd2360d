"""Compress the ledger of a run that is complete, and unpack it for one that goes on.

Guarantees: at any moment one of the two files is whole, also if the process is killed; where both are there, it is the
plain one.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from judgegym.engine.runs.atomic import write_atomic
from judgegym.engine.runs.lines import damage
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS

logger = logging.getLogger(__name__)

_COMPRESSION = 3
_GZIP = 31  # zlib's number for that format
_PART = 1 << 20


def pack(run_path: Path, *, keep: bool) -> None:
    """Compress the ledger of a run that is complete; remove it if texts are not kept.

    Without room for that, the ledger stays as it is.
    """
    plain = run_path / CALLS
    try:
        if keep and plain.exists():
            write_atomic(run_path / PACKED_CALLS, lambda: _compressed(plain))
        plain.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s is not compressed: %s", plain, error.strerror)


def unpack(run_path: Path) -> None:
    """Make the ledger a plain file again.

    Raises:
        RunDirectoryError: the compressed file is damaged, or there is no room.
    """
    plain, packed = run_path / CALLS, run_path / PACKED_CALLS
    if not packed.exists():
        return
    if not plain.exists():
        try:
            write_atomic(plain, lambda: _uncompressed(packed))
        except (EOFError, OSError, zlib.error) as error:
            raise damage(packed, f" cannot be unpacked: {error}") from error
    packed.unlink()


def join(run_paths: Sequence[Path], target: Path) -> None:
    """Make one compressed ledger, in the run directory `target`, of those of other runs; none if they have none.

    The calls of one run follow those of another, as if it had been resumed. A text that a call names by its digest was
    written before it in the same ledger, and is among the texts that a reader knows then.

    Raises:
        OSError: a ledger cannot be read, or there is no room.
    """

    def parts() -> Iterator[bytes]:
        for path in run_paths:
            if (path / CALLS).exists():
                yield from _compressed(path / CALLS)
            elif (path / PACKED_CALLS).exists():
                yield from _parts(path / PACKED_CALLS)  # a file of gzip may have several parts

    if any((path / name).exists() for path in run_paths for name in (CALLS, PACKED_CALLS)):
        write_atomic(target / PACKED_CALLS, parts)
    else:
        (target / PACKED_CALLS).unlink(missing_ok=True)
    (target / CALLS).unlink(missing_ok=True)


def _compressed(path: Path) -> Iterator[bytes]:
    """Compress each part by itself, with a checksum of its own: a part that is damaged spoils no other one."""
    for part in _parts(path):
        packer = zlib.compressobj(_COMPRESSION, wbits=_GZIP)
        yield packer.compress(part) + packer.flush()


def _uncompressed(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        while part := file.read(_PART):
            yield part


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART):
            yield part
