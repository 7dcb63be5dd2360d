"""Digests of texts and values, and which of many are equal, in a few bytes for each.

A dictionary of a million digests takes hundreds of MB.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b

KEY_BYTES = 16
"""The length of the digest of a unit, a prompt or a column's value."""


def digest_of(text: bytes, size: int = KEY_BYTES) -> bytes:
    """A digest of `size` bytes."""
    return blake2b(text, digest_size=size).digest()


def first_equals(digests: bytes, size: int) -> array[int]:
    """For each digest the place of the first one that is equal to it.

    Args:
        digests: one after the other.
        size: bytes of a digest, a multiple of 8.
    """
    import numpy as np  # late: it belongs to the extra `environments`

    words = np.frombuffer(digests, dtype="<u8").reshape(-1, size // 8)
    count = len(words)
    if not count:
        return array("q")
    order = np.lexsort(words.T)  # stable: equal digests stay in their order
    ordered = words[order]
    begins = np.ones(count, dtype=bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    firsts = np.empty(count, dtype=np.int64)
    firsts[order] = order[np.maximum.accumulate(np.where(begins, np.arange(count), 0))]
    return array("q", firsts.tobytes())
