"""Trainers' packages that are not installed: the few names of them that our modules use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest


@contextmanager
def present(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, dict[str, Any]], ours: str = ""
) -> Iterator[None]:
    """Let packages be there, with these names in their modules; `ours` is imported anew, and forgotten afterwards."""
    for path, members in names.items():
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name not in sys.modules:
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
        vars(sys.modules[path]).update(members)
    _forget(ours)
    try:
        yield
    finally:
        _forget(ours)


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if package and f"{name}.".startswith(f"{package}.")]:
        del sys.modules[name]
