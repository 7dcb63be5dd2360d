"""How a setting is declared: its default, its range, its description, and what a program needs to know besides.

The extra facts are kept in the field's `json_schema_extra`, so that a setting is declared in one place only:
whether it is operational, and which commands use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

_OPERATIONAL = "operational"
_VERBS = "verbs"


def setting(
    default: Any, description: str, *, operational: bool = False, verbs: Sequence[str] = (), **constraints: Any
) -> Any:
    """Declare a setting.

    Args:
        default: its default.
        description: for `--help`: verb first, unit, range, reason.
        operational: it shapes how a run goes but not what it finds, so that a resumed run may change it.
        verbs: the commands that use it; empty for all.
        constraints: those of pydantic's `Field`, such as `ge=1`.
    """
    extra: dict[str, Any] = {_OPERATIONAL: operational, _VERBS: list(verbs)}
    return Field(default, description=description, json_schema_extra=extra, **constraints)


def operational(default: Any, description: str, *, verbs: Sequence[str] = (), **constraints: Any) -> Any:
    """Declare a setting that shapes how a run goes but not what it finds, so that a resumed run may change it."""
    return setting(default, description, operational=True, verbs=verbs, **constraints)


def is_operational(model: type[BaseModel], name: str) -> bool:
    """Whether a field was declared as operational."""
    return _fact(model, name, _OPERATIONAL) is True


def verbs_of(model: type[BaseModel], name: str) -> tuple[str, ...]:
    """The commands that use a field; empty for all."""
    verbs = _fact(model, name, _VERBS)
    return tuple(verbs) if isinstance(verbs, list) else ()


def _fact(model: type[BaseModel], name: str, fact: str) -> object:
    extra = model.model_fields[name].json_schema_extra
    return extra.get(fact) if isinstance(extra, dict) else None
