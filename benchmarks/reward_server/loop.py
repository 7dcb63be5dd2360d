"""The event loop of the judge and of the load: uvloop, with asyncio's own where it is missing."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def allow_descriptors() -> None:
    """Allow this process as many open files as the system does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop."""
    allow_descriptors()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def run_as_ours(main: Coroutine[Any, Any, T]) -> T:
    """Run on the reward server's kind of event loop."""
    allow_descriptors()
    try:
        from judges.core import event_loop
    except ImportError:
        return asyncio.run(main)
    return event_loop.run(main)
