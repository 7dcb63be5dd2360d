"""Random choices that depend only on (seed, row id, purpose), not on the order of calls."""

from __future__ import annotations

import hashlib
import random
from contextlib import AbstractContextManager
from contextvars import ContextVar

from judgegym.llm.at_once import bind_context

_GROUP: ContextVar[int] = ContextVar("group", default=0)


def derive_seed(seed: int, uid: str, purpose: str) -> int:
    """Derive a 64-bit number from the seed, a row's id and the number's purpose."""
    material = f"{seed}\x1f{uid}\x1f{purpose}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big")


def make_generator(seed: int, uid: str, purpose: str) -> random.Random:
    """Make the random generator for one purpose of one row."""
    return random.Random(derive_seed(seed, uid, purpose))


def use_group(number: int) -> AbstractContextManager[object]:
    """Make choices inside this context those of one group of a row (training has several)."""
    return bind_context(_GROUP, number)


def current_group() -> int:
    """Return the number of the current group; 0 where groups have none."""
    return _GROUP.get()
