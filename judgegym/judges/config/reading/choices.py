"""The choices made by sources of settings, such as a kind of judge, and their effects.

Settings of other choices are refused on the command line and in environment variables. In files and
presets, which several commands share, they are dropped with a one-line note.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel

from judgegym.judges.config.composed import (
    ChoiceHelp,
    ComposedSettings,
    compose,
    composed_sections,
    expand_choices,
    json_defaults,
)
from judgegym.judges.config.fields import DeclaredSetting, Values, declared_settings
from judgegym.judges.config.presets import find_config_file, read_yaml
from judgegym.judges.config.reading.readers import ENV_PREFIX
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.judges.config.sources import SettingsSource

SettingsT = TypeVar("SettingsT", bound=BaseModel)


def expand_sources(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource]
) -> list[SettingsSource]:
    """Return the sources with short forms expanded.

    A short form is not expanded if a source of higher priority chooses something else.

    Raises:
        SettingsError: a short form and its expansion are both given.
    """
    expanded = list(sources)
    for prefix, model in composed_sections(settings_type):
        chosen: Values = {}
        for index, source in enumerate(expanded):
            section_values = {
                name[len(prefix) :]: value
                for name, value in source.values.items()
                if name.startswith(prefix)
            }
            try:
                values = model.expand_short_forms(section_values)
            except ValueError as error:
                raise SettingsError(f"--{prefix}{error} ({source.name})") from None
            if any(values.get(name, chosen[name]) != chosen[name] for name in chosen):
                values = {name: value for name, value in values.items() if name in section_values}
            chosen = {**{name: values[name] for name in model.choosing if name in values}, **chosen}
            others = {
                name: value for name, value in source.values.items() if not name.startswith(prefix)
            }
            prefixed = {f"{prefix}{name}": value for name, value in values.items()}
            expanded[index] = replace(source, values={**others, **prefixed})
    return expanded


def drop_replaced(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource], verb: str | None
) -> tuple[list[SettingsSource], list[str]]:
    """Drop settings that would beat another name in a higher source; return a note for each.

    Raises:
        SettingsError: the command line gives both names, so that one of them would not be read.
    """
    remaining, notes = list(sources), list[str]()
    for setting in declared_settings(settings_type):
        setting_name = setting.name
        fallback = setting.fallback(verb)
        index = next(
            (
                position
                for position, source in enumerate(remaining)
                if {setting_name, fallback} & source.values.keys()
            ),
            None,
        )
        if fallback is None or index is None or fallback not in remaining[index].values:
            continue
        higher = remaining[index]
        if setting_name in higher.values:
            if higher.kind == "command line" and higher.values[setting_name] is not None:
                raise SettingsError(
                    f"--{fallback} (command line): nothing reads it beside --{setting_name}; give "
                    "only one of them"
                )
            continue
        for lower, source in enumerate(remaining[index + 1 :], index + 1):
            if source.values.get(setting_name) is not None:
                higher_origin = higher.origin(fallback)
                lower_origin = source.origin(setting_name)
                notes.append(
                    f"--{fallback} ({higher_origin}) replaces {setting_name} ({lower_origin})"
                )
            remaining[lower] = source.drop_settings(setting_name)
    return remaining, notes


def drop_unchosen(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource], verb: str | None
) -> tuple[list[SettingsSource], list[str]]:
    """Drop settings of other choices; return a note for each in a file or a preset.

    Raises:
        SettingsError: the command line or an environment variable has one.
    """
    refused: list[str] = []
    notes: list[str] = []
    remaining = list(sources)
    for prefix, model in composed_sections(settings_type):
        unchosen = expand_choices(model).model_fields.keys() - model.model_fields.keys()
        defaults = json_defaults(expand_choices(model), unchosen)
        for index, source in enumerate(remaining):
            names = [name for name in source.values if name.removeprefix(prefix) in unchosen]
            remaining[index] = source.drop_settings(*names)
            for name in names:
                field = name.removeprefix(prefix)
                reason = _describe_readers(prefix, model, model.readers(field), verb)
                origin = source.origin(name)
                line = f"--{name} ({origin}): nothing reads it{reason}"
                if source.kind in ("command line", "environment variable"):
                    refused.append(line)
                elif source.values[name] != defaults[field]:
                    notes.append(line)
    if refused:
        raise SettingsError("\n".join(refused))
    return remaining, notes


def _describe_readers(
    prefix: str, model: type[BaseModel], choices: Sequence[str], verb: str | None
) -> str:
    """Describe the choices with which a verb would read a setting."""
    verb_choices = [
        reader_choice
        for reader_choice in choices
        if DeclaredSetting(reader_choice, model, reader_choice.partition("=")[0]).is_used_by(verb)
    ]
    if verb_choices:
        return f" without {' or '.join(f'--{prefix}{choice}' for choice in verb_choices)}"
    return ""


def find_ignored_flags(
    settings: BaseModel, origins: Mapping[str, str], verb: str | None
) -> list[str]:
    """Explain why flags are refused that nothing reads, given the other settings."""
    lines: list[str] = []
    for prefix, model in composed_sections(type(settings)):
        section = cast(
            ComposedSettings, getattr(settings, prefix.removesuffix(".")) if prefix else settings
        )
        for name, readers in sorted(section.ignored.items()):
            default = model.model_fields[name].get_default(
                call_default_factory=True, validated_data={}
            )
            if (
                origins.get(f"{prefix}{name}") == "command line"
                and getattr(section, name) != default
            ):
                if section.composed is not None:
                    chosen = section.composed[1]
                else:
                    chosen = frozenset()
                current_choices = [
                    f" with --{prefix}{reader}" for reader in readers if reader in chosen
                ]
                reason = "".join(current_choices) or _describe_readers(prefix, model, readers, verb)
                lines.append(f"--{prefix}{name} (command line): nothing reads it{reason}")
    return lines


def learn_choices(settings_type: type[BaseModel], argv: Sequence[str]) -> dict[str, Any]:
    """Find the choices in command line, variables or file, before flags are parsed.

    Values of sections are nested. A user's own judge, such as `--judge=FILE.py:NAME`, adds its own
    flags.
    """
    chosen: dict[str, Any] = {}
    for prefix, model in composed_sections(settings_type):
        values = {name: _find_first_value(f"{prefix}{name}", argv) for name in model.choosing}
        try:
            section_values = model.expand_short_forms(
                {name: value for name, value in values.items() if value is not None}
            )
        except ValueError:
            section_values = {}  # reported when the settings are read
        model.select_choices(section_values)
        chosen |= {prefix.removesuffix("."): section_values} if prefix else section_values
    return chosen


def select_settings(settings_type: type[SettingsT], argv: Sequence[str]) -> type[SettingsT]:
    """Return the settings with the choices of command line, variables or file, for help."""
    return compose(settings_type, learn_choices(settings_type, argv))


def describe_choices(
    settings_type: type[BaseModel], argv: Sequence[str]
) -> Iterator[tuple[str, ChoiceHelp]]:
    """Yield the help of the choices on the command line, with the prefix of their settings.

    Raises:
        SettingsError: there is no such choice.
    """
    for prefix, model in composed_sections(settings_type):
        values = {
            name: word
            for name in model.choosing
            if (word := _find_typed_value(f"{prefix}{name}", argv)) is not None
        }
        try:
            choice = model.describe_choice(values)
            if choice is not None:
                yield prefix, choice
        except ValueError as error:
            raise SettingsError(f"--{prefix}{error}") from None


def _find_typed_value(name: str, argv: Sequence[str]) -> str | None:
    """Return the value of a flag; `None` if it is not there."""
    flag = f"--{name}"
    for index, word in enumerate(argv):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and index + 1 < len(argv):
            return argv[index + 1]
    return None


def _find_first_value(name: str, argv: Sequence[str]) -> object:
    """Return a setting's unvalidated value in the highest source; `None` if it is in none."""
    word = _find_typed_value(name, argv)
    if word is not None:
        return word
    variable_name = name.replace(".", "__").upper()
    variable = os.environ.get(f"{ENV_PREFIX}{variable_name}")
    if variable is not None or name == "config":
        return variable
    config = _find_first_value("config", argv)
    try:
        values: Any = read_yaml(find_config_file(str(config)), "") if config is not None else {}
    except SettingsError:
        return None  # reported when the file is read
    for section in name.split("."):
        values = values.get(section) if isinstance(values, dict) else None
    return cast(object, values)
