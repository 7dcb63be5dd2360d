"""What of Weights & Biases is used, without it; tests/core/serve/test_wandb.py has the real one."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Wandb(ModuleType):
    """What of `wandb` is used; remembers it."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None)
        self.began: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.finished = 0
        self.alerts: list[tuple[str, str]] = []

    def init(self, **values: Any) -> Any:
        self.began = values
        return self

    def Table(self, columns: list[str], data: list[list[Any]]) -> Any:  # its name there
        return columns, data

    def log(self, values: dict[str, Any], step: int = 0) -> None:
        self.logged.append((step, values))

    def alert(self, title: str, text: str) -> None:
        self.alerts.append((title, text))

    def finish(self) -> None:
        self.finished += 1


class LostWandb(Wandb):
    """One that fails: when a run is opened, or only after that."""

    def __init__(self, *, opens: bool) -> None:
        super().__init__()
        self._opens = opens

    def init(self, **values: Any) -> Any:
        if not self._opens:
            raise RuntimeError("No API key configured.\n  Use `wandb login`.")
        return super().init(**values)

    def log(self, values: dict[str, Any], step: int = 0) -> None:
        raise RuntimeError("the service is gone")

    def finish(self) -> None:
        raise RuntimeError("the service is gone")
