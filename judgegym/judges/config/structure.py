"""The structure of a settings model: sections (nested models), and the settings in them by dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from judgegym.llm.urls import secrets_in_fields, secrets_in_url, split_urls

DEEPEST = 90
"""How deep lists and mappings may be nested in a setting."""

Values = dict[str, Any]
"""The settings of a source before validation; the values have no type yet."""


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


def section_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of the section with this name; `None` if the name is not a section's."""
    field = model.model_fields.get(name)
    annotation = field.annotation if field is not None else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def declared_settings(model: type[BaseModel], prefix: str = "") -> Iterator[DeclaredSetting]:
    """Every setting of a model and its sections."""
    for name in model.model_fields:
        section = section_of(model, name)
        if section is None:
            yield DeclaredSetting(prefix + name, model, name)
        else:
            yield from declared_settings(section, f"{prefix}{name}.")


def names_given(model: type[BaseModel], values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of the settings that a source sets."""
    for name, value in values.items():
        section = section_of(model, name)
        if section is not None and isinstance(value, dict):
            yield from names_given(section, value, f"{prefix}{name}.")
        else:
            yield prefix + name


def without(values: Values, name: str) -> Values:
    """The values without the setting of this dotted name."""
    first, _, rest = name.partition(".")
    if not rest:
        return {key: value for key, value in values.items() if key != first}
    section = values.get(first)
    return {**values, first: without(section, rest)} if isinstance(section, dict) else values


def value_of(settings: BaseModel, name: str) -> object:
    """The value of a setting by its dotted name."""
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def secrets(model: BaseModel) -> Iterator[str]:
    """The text of every secret in a model, to remove it from output."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name.endswith("extra_body"):
            yield from filter(None, secrets_in_fields(value))
            continue
        items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        for item in items:
            if isinstance(item, BaseModel):
                yield from secrets(item)
            elif isinstance(item, SecretStr) and item.get_secret_value():
                yield item.get_secret_value()
            elif isinstance(item, str) and name.endswith("url"):
                yield from filter(None, (secret for url in split_urls(item) for secret in secrets_in_url(url)))
