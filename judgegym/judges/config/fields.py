"""Declared settings: default, range and description, and how commands treat each.

A settings model has settings and sections (nested models); a setting's dotted name begins with its
section.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, SecretStr
from pydantic.fields import FieldInfo

OTHER_GROUP = "other"
MAX_DEPTH = 90
"""Maximum nesting of lists and mappings in a setting."""
Values = dict[str, Any]
"""The settings of a source by dotted name, before validation."""
_KINDS = {
    int: "INT",
    float: "NUMBER",
    bool: "true|false",
    Path: "PATH",
    str: "TEXT",
    SecretStr: "KEY",
}


def setting(
    default: Any,
    description: str | None = None,
    *,
    operational: bool = False,
    verbs: Sequence[str] = (),
    group: str | None = None,
    common: bool = False,
    fallback: str | None = None,
    **constraints: Any,
) -> Any:
    """Declare a setting.

    Args:
        default: its default.
        description: the help text: verb first, unit, range, reason; by default the docstring of the
            attribute, in a class with `use_attribute_docstrings`.
        operational: whether it changes how a run proceeds but not its results, so that a resumed
            run may change it.
        verbs: the commands that use it; empty for all.
        group: its group in `--help`; by default the `help_group` of the declaring class, or of its
            only base.
        common: whether `--help` lists it; `--help_all` lists all.
        fallback: the setting of the same class that is read if this one is unset, such as the
            variable of a key.
        constraints: constraints of pydantic's `Field`, such as `ge=1`.
    """
    facts: dict[str, Any] = {
        "operational": operational,
        "verbs": list(verbs),
        "group": group,
        "common": common,
    }
    return Field(
        default,
        description=description,
        json_schema_extra={**facts, "fallback": fallback},
        **constraints,
    )


def operational(default: Any, description: str | None = None, **facts: Any) -> Any:
    """Declare a setting that changes how a run proceeds but not its results.

    A resumed run may change it.
    """
    return setting(default, description, operational=True, **facts)


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """A declared setting: its dotted name, and the model and field that hold it."""

    name: str
    model: type[BaseModel]
    field: str

    @property
    def info(self) -> FieldInfo:
        """The pydantic field."""
        return self.model.model_fields[self.field]

    @property
    def default(self) -> object:
        """The default value."""
        return self.info.get_default(call_default_factory=True, validated_data={})

    @property
    def about(self) -> str:
        """The description in one line; the docstring of an attribute may have several."""
        return " ".join((self.info.description or "").split())

    @property
    def kind(self) -> str:
        """The kind of its value: `INT`, `JSON`, …; `None` means leaving the flag out."""
        value_types = alternatives(self.info.annotation)
        literals = [
            "|".join(map(str, get_args(value_type)))
            for value_type in value_types
            if get_origin(value_type) is Literal
        ]
        non_literals = [
            value_type for value_type in value_types if get_origin(value_type) is not Literal
        ]
        if non_literals == [str]:
            return _KINDS[str]
        if non_literals not in ([], [int], [bool]) and len(value_types) > 1:
            return "JSON"
        return "|".join(
            [*(_KINDS.get(value_type, "JSON") for value_type in non_literals), *literals]
        )

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value; pydantic-settings marks such flags in the metadata."""
        return self.info.annotation is bool and bool(self.info.metadata)

    @property
    def is_yes_or_no(self) -> bool:
        """Whether it is true or false, and its flag may have a value."""
        return self.kind.startswith(_KINDS[bool]) and not self.is_switch

    @property
    def is_operational(self) -> bool:
        """Whether it was declared as operational."""
        return self._fact("operational") is True

    @property
    def is_common(self) -> bool:
        """Whether it is one of the most used settings, which `--help` lists."""
        return self._fact("common") is True

    def fallback(self, verb: str | None) -> str | None:
        """Return the setting that a verb reads only without this one; `None` if there is none.

        `serve` reads both data settings: it trains on one and evaluates on the other.
        """
        if verb == "serve" and self.group == "data":
            fallback_name = None
        else:
            fallback_name = self._fact("fallback")
        if fallback_name is None:
            return None
        prefix = self.name.removesuffix(self.field)
        return f"{prefix}{fallback_name}"

    @property
    def verbs(self) -> tuple[str, ...]:
        """The commands that use it; empty for all.

        They are those of the model's `setting_verbs`, or its own.

        A model may use inherited judge settings in fewer commands than others do.
        """
        declared_verbs = self._fact("verbs")
        model_verbs = dict(getattr(self.model, "setting_verbs", {})).get(self.field)
        return tuple(model_verbs or (declared_verbs if isinstance(declared_verbs, list) else ()))

    @property
    def group(self) -> str:
        """Its group in `--help`: its own, or that of the declaring class or of its only base."""
        declared_group = self._fact("group")
        if isinstance(declared_group, str):
            return declared_group
        declaring = next(
            (base for base in self.model.__mro__ if self.field in get_annotations(base)), self.model
        )
        while "help_group" not in vars(declaring) and len(declaring.__bases__) == 1:
            (declaring,) = declaring.__bases__
        return str(vars(declaring).get("help_group", OTHER_GROUP))

    def is_used_by(self, verb: str | None) -> bool:
        """Return whether a verb uses it; a command without verbs (`None`) uses all settings."""
        return verb is None or not self.verbs or verb in self.verbs

    def _fact(self, name: str) -> object:
        extra = self.info.json_schema_extra
        if isinstance(extra, dict):
            return extra.get(name)
        return None


def alternatives(annotation: Any) -> list[Any]:
    """Return the types that a value may have, without `None` and without annotations."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return alternatives(arguments[0])
    if origin in (Union, types.UnionType):
        value_types = chain.from_iterable(map(alternatives, arguments))
        return [value_type for value_type in value_types if value_type is not types.NoneType]
    return [annotation]


def find_classes(annotation: Any) -> Iterator[type]:
    """Yield the classes that a type is made of, such as that of a list's items."""
    # In Python 3.10 `isinstance(list[int], type)` is true, but `issubclass` raises on it.
    if get_origin(annotation) is None and isinstance(annotation, type):
        yield annotation
    for argument in get_args(annotation):
        yield from find_classes(argument)


def declared_settings(
    model: type[BaseModel], prefix: str = "", *, verb: str | None = None
) -> Iterator[DeclaredSetting]:
    """Yield the settings of a model and its sections that a verb uses; without a verb all."""
    for name in model.model_fields:
        section = find_section(model, name)
        if section is not None:
            yield from declared_settings(section, f"{prefix}{name}.", verb=verb)
        elif (declared := DeclaredSetting(prefix + name, model, name)).is_used_by(verb):
            yield declared


def find_section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of a section; `None` if the name is not a section's."""
    field = model.model_fields.get(name)
    annotation = field.annotation if field is not None else None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def format_default(default: object) -> str:
    """Format a default as a user types it; empty if it is empty, unset or of several lines."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, str | int | Path) and "\n" not in str(default):
        return str(default)
    return ""
