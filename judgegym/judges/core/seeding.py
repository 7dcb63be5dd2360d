"""Random choices that depend on (seed, row id, purpose) only, and not on the order in which calls finish."""

from __future__ import annotations

import hashlib
import random
from contextlib import AbstractContextManager
from contextvars import ContextVar

from judgegym.llm.at_once import bind_context

_GROUP: ContextVar[int] = ContextVar("group", default=0)


def derive_seed(seed: int, uid: str, purpose: str) -> int:
    """Return a 64-bit number derived from the seed, a row's id and the purpose of the number."""
    material = f"{seed}\x1f{uid}\x1f{purpose}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big")


def make_generator(seed: int, uid: str, purpose: str) -> random.Random:
    """Return the random generator for one purpose of one row."""
    return random.Random(derive_seed(seed, uid, purpose))


def use_group(number: int) -> AbstractContextManager[object]:
    """Let choices inside be those of this group of a row, which has several in training."""
    return bind_context(_GROUP, number)


def current_group() -> int:
    """Return the number of the group that is judged here; 0 where groups have none."""
    return _GROUP.get()
