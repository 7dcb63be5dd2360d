"""Random choices that depend on a key and on nothing else: the same in each process and each version of Python."""

import hashlib
from random import Random


def unit(key: str) -> float:
    """A number in [0, 1) drawn from the key; different keys give independent numbers."""
    return (_hashed(key) >> 11) / 2**53


def seeded(*key: object) -> Random:
    """A generator that its key determines."""
    return Random(_hashed("\0".join(map(str, key))))


def _hashed(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big")
