"""The verbs of an environment, and which settings each of them uses."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from judgegym.judges.config.fields import DeclaredSetting

Verb = Literal["evaluate", "serve", "process"]

SERVE: tuple[Verb, ...] = ("serve",)
EVALUATE: tuple[Verb, ...] = ("evaluate",)
ROLLOUTS: tuple[Verb, ...] = ("serve", "process")
EVALUATIONS: tuple[Verb, ...] = ("evaluate", "serve")
"""The verbs that evaluate; `serve` does so during training, once in `steps_per_eval` steps."""


def uses(verb: Verb, model: type[BaseModel], field: str) -> bool:
    """Return whether a verb uses a field of the settings."""
    return DeclaredSetting(field, model, field).is_used_by(verb)
