"""What of Weights & Biases is used, without it; tests/serve/test_wandb.py has the real one."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Wandb(ModuleType):
    """What of `wandb` is used; remembers it."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.began: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.finished = 0
        self.alerts: list[tuple[str, str]] = []

    def init(self, **values: Any) -> Any:
        self.began = values
        return self

    def Table(self, columns: list[str], data: list[list[Any]]) -> Any:  # its name there
        return columns, data

    def log(self, values: dict[str, Any], step: int) -> None:
        self.logged.append((step, values))

    def alert(self, title: str, text: str) -> None:
        self.alerts.append((title, text))

    def finish(self) -> None:
        self.finished += 1
