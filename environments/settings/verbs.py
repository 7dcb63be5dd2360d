"""The verbs of an environment, and the groups of them that settings are declared for."""

from __future__ import annotations

from typing import Literal

Verb = Literal["evaluate", "serve", "process"]

SERVE: tuple[Verb, ...] = ("serve",)
EVALUATE: tuple[Verb, ...] = ("evaluate",)
ROLLOUTS: tuple[Verb, ...] = ("serve", "process")
EVALUATIONS: tuple[Verb, ...] = ("evaluate", "serve")
"""`serve` evaluates during training, every `steps_per_eval`."""
