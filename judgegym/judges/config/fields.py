"""Declares a setting in one place: its default, range and description, and how commands treat it.

The field's `json_schema_extra` holds whether the setting is operational, which commands use it, and where `--help`
lists it.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import get_annotations
from typing import Any

from pydantic import BaseModel, Field

_OPERATIONAL, _VERBS, _GROUP, _COMMON = "operational", "verbs", "group", "common"
_INSTEAD_OF = "instead_of"
_GROUP_OF_CLASS = "help_group"
_VERBS_OF_CLASS = "setting_verbs"
OTHER_GROUP = "other"


def setting(
    default: Any,
    description: str | None = None,
    *,
    operational: bool = False,
    verbs: Sequence[str] = (),
    group: str | None = None,
    common: bool = False,
    instead_of: str | None = None,
    **constraints: Any,
) -> Any:
    """Declare a setting.

    Args:
        default: its default.
        description: for `--help`: verb first, unit, range, reason; without it the text that stands below the attribute,
            in a class with `use_attribute_docstrings`.
        operational: it changes how a run proceeds but not its results, so that a resumed run may change it.
        verbs: the commands that use it; empty for all.
        group: where `--help` lists it; by default the `help_group` of the class that declares it.
        common: `--help` lists it; the others are listed by `--help_all`.
        instead_of: the setting of the same class that is read where this one is not set.
        constraints: those of pydantic's `Field`, such as `ge=1`.
    """
    extra: dict[str, Any] = {_OPERATIONAL: operational, _VERBS: list(verbs), _GROUP: group, _COMMON: common}
    extra[_INSTEAD_OF] = instead_of
    return Field(default, description=description, json_schema_extra=extra, **constraints)


def operational(default: Any, description: str | None = None, **facts: Any) -> Any:
    """Declare a setting that changes how a run proceeds but not its results, so that a resumed run may change it."""
    return setting(default, description, operational=True, **facts)


def is_operational(model: type[BaseModel], name: str) -> bool:
    """Whether a field was declared as operational."""
    return _fact(model, name, _OPERATIONAL) is True


def is_common(model: type[BaseModel], name: str) -> bool:
    """Whether a field is one of the most used settings, which `--help` lists."""
    return _fact(model, name, _COMMON) is True


def read_instead_of(model: type[BaseModel], name: str) -> str | None:
    """The setting that a field is read instead of; `None` if it has a meaning of its own."""
    other = _fact(model, name, _INSTEAD_OF)
    return other if isinstance(other, str) else None


def verbs_of(model: type[BaseModel], name: str) -> tuple[str, ...]:
    """The commands that use a field: those that its model names in `setting_verbs`, or its own; empty for all.

    A model that inherits the settings of a judge may use them in fewer commands than others do.
    """
    verbs = dict(getattr(model, _VERBS_OF_CLASS, {})).get(name) or _fact(model, name, _VERBS)
    return tuple(verbs) if isinstance(verbs, list | tuple) else ()


def group_of(model: type[BaseModel], name: str) -> str:
    """The group in which `--help` lists a field: its own, or that of the class that declares it."""
    own = _fact(model, name, _GROUP)
    if isinstance(own, str):
        return own
    declaring = next((base for base in model.__mro__ if name in get_annotations(base)), model)
    return str(vars(declaring).get(_GROUP_OF_CLASS, OTHER_GROUP))


def _fact(model: type[BaseModel], name: str, fact: str) -> object:
    extra = model.model_fields[name].json_schema_extra
    return extra.get(fact) if isinstance(extra, dict) else None
