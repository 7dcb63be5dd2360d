"""Runs within a command: writes which models it would ask, and how, and ends it before anybody is asked.

`begin` is called before the command (`equal_runs/driver.py`). It looks at the one door through
which every request
goes, the clients of models, and at no class of judges or settings: those are what a change
    replaces.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

_TURNS = 400
"""So often the event loop goes round after the first request, so that what is opened at the same time is opened."""


def begin(record: str) -> None:
    """Record the clients of this process in a file, and leave at the first request."""
    import aiohttp  # late: they are the checkout's

    from judgegym.llm.client import ChatClient

    clients: list[object] = []
    path = Path(record)
    _write(path, clients)
    initialise = ChatClient.__init__

    def opened(self: Any, settings: Any, *others: Any, **named: Any) -> None:
        initialise(self, settings, *others, **named)
        clients.append(_plain(settings))
        _write(path, clients)

    ChatClient.__init__ = opened  # type: ignore[method-assign]

    async def ask(*_: object, **__: object) -> NoReturn:
        for _turn in range(_TURNS):
            await asyncio.sleep(0)
        os._exit(0)

    aiohttp.ClientSession._request = ask  # type: ignore[method-assign]
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, _refusing(getattr(socket.socket, name)))
    socket.getaddrinfo = _leave


def _write(path: Path, clients: list[object]) -> None:
    path.write_text(
        json.dumps(sorted(clients, key=lambda one: json.dumps(one, sort_keys=True))),
        encoding="utf-8",
    )


def _leave(*_: object, **__: object) -> NoReturn:
    os._exit(0)


def _refusing(connect: Callable[..., Any]) -> Callable[..., Any]:
    """A connection within the machine, such as of an event loop to itself, is none that leaves it."""

    def refused(self: socket.socket, address: object) -> Any:
        if self.family == socket.AF_UNIX:
            return connect(self, address)
        _leave()

    return refused


def _plain(value: Any) -> Any:
    """A value of settings as JSON; secrets are shown, since their values are those of `cases.py`."""
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
