"""Random choices that are a function of (seed, row id, purpose), never of the order of arrival."""

from __future__ import annotations

import hashlib
import random


def derive(seed: int, uid: str, purpose: str) -> int:
    """A 64-bit number from the seed, a row's id and what the number is for."""
    shape = f"{seed}\x1f{uid}\x1f{purpose}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(shape).digest()[:8], "big")


def generator(seed: int, uid: str, purpose: str) -> random.Random:
    """A generator of its own for one purpose of one row."""
    return random.Random(derive(seed, uid, purpose))
