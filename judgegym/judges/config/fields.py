"""Settings as their classes declare them: default, range and description, and how commands treat each.

A settings model has settings and sections (nested models); a setting's dotted name says which
section it is in.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, SecretStr
from pydantic.fields import FieldInfo

OTHER_GROUP = "other"
MAX_DEPTH = 90
"""How deep lists and mappings may be nested in a setting."""
Values = dict[str, Any]
"""The settings of a source by dotted name, before validation; the values have no type yet."""
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
        description: for `--help`: verb first, unit, range, reason; without it the text that stands
            below the attribute, in a class with `use_attribute_docstrings`.
        operational: it changes how a run proceeds but not its results, so that a resumed run may
            change it.
        verbs: the commands that use it; empty for all.
        group: where `--help` lists it; by default the `help_group` of the class that declares it,
            or of its only base.
        common: `--help` lists it; the others are listed by `--help_all`.
        fallback: the setting of the same class that is read where this one is not set, such as the
            variable of a key.
        constraints: those of pydantic's `Field`, such as `ge=1`.
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
    """Declare a setting that changes how a run proceeds but not its results, so that a resumed run may change it."""
    return setting(default, description, operational=True, **facts)


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """One declared setting: its dotted name, and the model and field that hold it."""

    name: str
    model: type[BaseModel]
    field: str

    @property
    def info(self) -> FieldInfo:
        """The field."""
        return self.model.model_fields[self.field]

    @property
    def default(self) -> object:
        """Its default."""
        return self.info.get_default(call_default_factory=True, validated_data={})

    @property
    def about(self) -> str:
        """What it does, in one line; the text below an attribute may have several."""
        return " ".join((self.info.description or "").split())

    @property
    def kind(self) -> str:
        """The kind of its value: `INT`, `a|b`, `JSON`, …; without `None`, which a user sets by leaving the flag out."""
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
        """Whether its flag takes no value; pydantic-settings marks such flags in the type's metadata."""
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
        """Return the dotted name of the setting that a verb reads only without this one; `None` if there is none.

        `serve` reads both names of data: it trains on the one, and evaluates on the other.
        """
        fallback_name = None if verb == "serve" and self.group == "data" else self._fact("fallback")
        return (
            None
            if fallback_name is None
            else f"{self.name.removesuffix(self.field)}{fallback_name}"
        )

    @property
    def verbs(self) -> tuple[str, ...]:
        """The commands that use it: those that its model names in `setting_verbs`, or its own; empty for all.

        A model that inherits the settings of a judge may use them in fewer commands than others do.
        """
        declared_verbs = self._fact("verbs")
        model_verbs = dict(getattr(self.model, "setting_verbs", {})).get(self.field)
        return tuple(model_verbs or (declared_verbs if isinstance(declared_verbs, list) else ()))

    @property
    def group(self) -> str:
        """The group in which `--help` lists it: its own, or that of the class that declares it or of its only base."""
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
        """Return whether a verb uses it; a command without verbs (`None`) uses all its settings."""
        return verb is None or not self.verbs or verb in self.verbs

    def _fact(self, name: str) -> object:
        extra = self.info.json_schema_extra
        return extra.get(name) if isinstance(extra, dict) else None


def alternatives(annotation: Any) -> list[Any]:
    """Return the types that a value may have, without `None` and without what is said of them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return alternatives(arguments[0])
    if origin in (Union, types.UnionType):
        return [
            alternative
            for argument in arguments
            for alternative in alternatives(argument)
            if alternative is not types.NoneType
        ]
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
    """Every setting of a model and its sections that a verb uses; without a verb all."""
    for name in model.model_fields:
        section = find_section(model, name)
        if section is not None:
            yield from declared_settings(section, f"{prefix}{name}.", verb=verb)
        elif (declared := DeclaredSetting(prefix + name, model, name)).is_used_by(verb):
            yield declared


def find_section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of the section with this name; `None` if the name is not a section's."""
    field = model.model_fields.get(name)
    annotation = field.annotation if field is not None else None
    return (
        annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    )


def format_default(default: object) -> str:
    """Return a default as one types it; empty where it is empty, unset or of several lines."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, str | int | Path) and "\n" not in str(default):
        return str(default)
    return ""
