"""`--help`: the settings of a command in groups; the most used ones, or all with `--help_all`.

The words for one setting, `describe`, are also those of the handbook's tables.

The structure of a settings model: sections (nested models), and the settings in them by dotted name.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from judgegym.judges.config.fields import group_of, is_common
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

    @property
    def about(self) -> str:
        """What it does, in one line; the text below an attribute may have several."""
        return " ".join((self.info.description or "").split())


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


HelpDetail = Literal["common", "all"]
_WIDEST = 100
_INDENT = 8
_METAVARS = {int: "INT", float: "NUMBER", bool: "true|false", Path: "PATH", str: "TEXT", SecretStr: "KEY"}


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    """One setting in words.

    Attributes:
        name: its dotted name.
        kind: the kind of its value: `INT`, `a|b`, `JSON`, …
        default: its default; empty where that is empty, unset or a longer text, which `about` names.
        about: what it does.
    """

    name: str
    kind: str
    default: str
    about: str


class _Formatter(argparse.HelpFormatter):
    """Argparse's formatter, without line breaks at hyphens, so that names of models and datasets stay whole."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def help_requested(argv: Iterable[str]) -> HelpDetail | None:
    """Which help a command line asks for, if any."""
    words = set(argv)
    if words & {"--help_all", "--help-all"}:
        return "all"
    return "common" if words & {"--help", "-h"} else None


def help_page(
    settings_type: type[BaseModel],
    *,
    usage: str,
    about: str,
    groups: Mapping[str, str],
    detail: HelpDetail = "common",
    uses: Callable[[DeclaredSetting], bool] = lambda setting: True,
    most_used: Sequence[str] = (),
) -> str:
    """The help of a command, as wide as the terminal.

    Args:
        settings_type: its settings.
        usage: the command, for the first line.
        about: what the command does.
        groups: the titles of groups by name, in order; other groups follow.
        detail: only the most used settings, or all, with the most used ones first in each group.
        uses: which settings the command uses; others are left out.
        most_used: the names of its most used settings, in the order in which each group lists them; by default those
            that are declared as such.
    """
    settings = in_order_of_use(filter(uses, declared_settings(settings_type)), most_used)
    listed = [setting for setting in settings if detail == "all" or _is_listed(setting, most_used)]
    more = len(settings) - len(listed)
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    parser = argparse.ArgumentParser(
        usage=f"{usage} [--name=value …]".replace("%", "%%"),
        description=about,
        epilog=f"--help_all lists {more} more settings." if more else None,
        add_help=False,
        formatter_class=lambda prog: _Formatter(prog, max_help_position=_INDENT, width=width),
    )
    for group in _in_order({group_of(setting.model, setting.field) for setting in listed}, list(groups)):
        section = parser.add_argument_group(groups.get(group, group))
        for setting in listed:
            if group_of(setting.model, setting.field) == group:
                _add(section, setting)
    return parser.format_help()


def in_order_of_use(settings: Iterable[DeclaredSetting], most_used: Sequence[str] = ()) -> list[DeclaredSetting]:
    """The settings, the most used ones first: in the order of `most_used`, or those that are declared as such."""
    places = {name: place for place, name in enumerate(most_used)}
    return sorted(
        settings, key=lambda setting: places.get(setting.name, len(places) + (not _is_listed(setting, most_used)))
    )


def _is_listed(setting: DeclaredSetting, most_used: Sequence[str]) -> bool:
    """Whether `--help` lists a setting."""
    return setting.name in most_used if most_used else is_common(setting.model, setting.field)


def _in_order(groups: set[str], first: Sequence[str]) -> list[str]:
    return [name for name in first if name in groups] + sorted(groups - set(first))


def _add(section: Any, setting: DeclaredSetting) -> None:
    """One setting: its flag, the kind of its value, its description, and its default unless that is empty or false."""
    described = describe(setting)
    default = f" Default: {described.default}." if described.default and described.default != "false" else ""
    flag, text = f"--{described.name}", (described.about + default).replace("%", "%%")
    if is_switch(setting):
        section.add_argument(flag, action="store_true", help=text)
    else:
        section.add_argument(flag, metavar=described.kind, help=text)


def describe(setting: DeclaredSetting) -> DescribedSetting:
    """A setting in words."""
    default = setting.info.get_default(call_default_factory=True, validated_data={})
    return DescribedSetting(setting.name, _kind(setting.info.annotation), default_in_words(default), setting.about)


def default_in_words(default: object) -> str:
    """A default as one types it; empty where it is empty, unset or of several lines."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, str | int | Path) and "\n" not in str(default):
        return str(default)
    return ""


def is_switch(setting: DeclaredSetting) -> bool:
    """Whether the flag takes no value; pydantic-settings marks such flags in the type's metadata."""
    return setting.info.annotation is bool and bool(setting.info.metadata)


def is_yes_or_no(setting: DeclaredSetting) -> bool:
    """Whether a setting is true or false, and its flag may have a value."""
    return _kind(setting.info.annotation) == _METAVARS[bool] and not is_switch(setting)


def _kind(annotation: Any) -> str:
    """The kind of value; without `None`, which a user sets by leaving the flag out."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        (kind, *others) = [argument for argument in arguments if argument is not type(None)]
        return "JSON" if others else _kind(kind)
    return _METAVARS.get(annotation, "JSON")
