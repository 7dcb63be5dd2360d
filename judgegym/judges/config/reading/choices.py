"""What the sources of settings choose, such as a kind of judge, and what follows for their other settings.

Settings of what is not chosen are refused on the command line and in environment variables. In
files and presets, which several commands share, they are left out, and one line says so.
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
from judgegym.judges.config.presets import config_file, read_yaml
from judgegym.judges.config.reading.readers import ENV_PREFIX
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.judges.config.sources import SettingsSource

SettingsT = TypeVar("SettingsT", bound=BaseModel)


def spell_out(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource]
) -> list[SettingsSource]:
    """The sources with what short forms stand for; not where a source of higher priority chooses something else.

    Raises:
        SettingsError: a short form and what it stands for are given.
    """
    spelled = list(sources)
    for prefix, model in composed_sections(settings_type):
        chosen: Values = {}
        for place, source in enumerate(spelled):
            given = {
                name[len(prefix) :]: value
                for name, value in source.values.items()
                if name.startswith(prefix)
            }
            try:
                values = model.spelled_out(given)
            except ValueError as error:
                raise SettingsError(f"--{prefix}{error} ({source.name})") from None
            if any(values.get(name, chosen[name]) != chosen[name] for name in chosen):
                values = {name: value for name, value in values.items() if name in given}
            chosen = {**{name: values[name] for name in model.choosing if name in values}, **chosen}
            others = {
                name: value for name, value in source.values.items() if not name.startswith(prefix)
            }
            named = {f"{prefix}{name}": value for name, value in values.items()}
            spelled[place] = replace(source, values={**others, **named})
    return spelled


def drop_replaced(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource], verb: str | None
) -> tuple[list[SettingsSource], list[str]]:
    """The sources without settings that would beat another name of a higher source, and a line for each replaced one.

    Raises:
        SettingsError: the command line gives both names, so that one of them would not be read.
    """
    kept, notes = list(sources), list[str]()
    for setting in declared_settings(settings_type):
        first, usual = setting.name, setting.fallback(verb)
        place = next(
            (place for place, each in enumerate(kept) if {first, usual} & each.values.keys()), None
        )
        if usual is None or place is None or usual not in kept[place].values:
            continue
        higher = kept[place]
        if first in higher.values:
            if higher.kind == "command line" and higher.values[first] is not None:
                raise SettingsError(
                    f"--{usual} (command line): nothing reads it beside --{first}, which is given, "
                    "too; "
                    "give one of them"
                )
            continue
        for lower, source in enumerate(kept[place + 1 :], place + 1):
            if source.values.get(first) is not None:
                notes.append(
                    f"--{usual} ({higher.origin(usual)}) replaces {first} ({source.origin(first)})"
                )
            kept[lower] = source.without(first)
    return kept, notes


def drop_unchosen(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource], verb: str | None
) -> tuple[list[SettingsSource], list[str]]:
    """The sources without settings of what is not chosen, and a line for each that a file or a preset has.

    Raises:
        SettingsError: the command line or an environment variable has one.
    """
    refused: list[str] = []
    notes: list[str] = []
    kept = list(sources)
    for prefix, model in composed_sections(settings_type):
        unchosen = expand_choices(model).model_fields.keys() - model.model_fields.keys()
        defaults = json_defaults(expand_choices(model), unchosen)
        for place, source in enumerate(kept):
            names = [name for name in source.values if name.removeprefix(prefix) in unchosen]
            kept[place] = source.without(*names)
            for name in names:
                field = name.removeprefix(prefix)
                why = _without(prefix, model, model.readers(field), verb)
                line = f"--{name} ({source.origin(name)}): nothing reads it{why}"
                if source.kind in ("command line", "environment variable"):
                    refused.append(line)
                elif source.values[name] != defaults[field]:
                    notes.append(line)
    if refused:
        raise SettingsError("\n".join(refused))
    return kept, notes


def _without(prefix: str, model: type[BaseModel], choices: Sequence[str], verb: str | None) -> str:
    """What a verb would need, so that a setting were read."""
    of_verb = [
        each
        for each in choices
        if DeclaredSetting(each, model, each.partition("=")[0]).is_used_by(verb)
    ]
    return f" without {' or '.join(f'--{prefix}{choice}' for choice in of_verb)}" if of_verb else ""


def ignored_flags(settings: BaseModel, origins: Mapping[str, str], verb: str | None) -> list[str]:
    """Why flags of the command line are refused that nothing reads, given the other settings."""
    lines: list[str] = []
    for prefix, model in composed_sections(type(settings)):
        section = cast(
            ComposedSettings, getattr(settings, prefix.removesuffix(".")) if prefix else settings
        )
        for name, readers in sorted(section.ignored.items()):
            usual = model.model_fields[name].get_default(
                call_default_factory=True, validated_data={}
            )
            if origins.get(f"{prefix}{name}") == "command line" and getattr(section, name) != usual:
                made = [
                    f" with --{prefix}{each}"
                    for each in readers
                    if each in (section.composed or ("", ()))[1]
                ]
                why = "".join(made) or _without(prefix, model, readers, verb)
                lines.append(f"--{prefix}{name} (command line): nothing reads it{why}")
    return lines


def learn_choices(settings_type: type[BaseModel], argv: Sequence[str]) -> dict[str, Any]:
    """What the command line, an environment variable or a file chooses, found before flags are read.

    Values of sections are nested. A judge of the user's own, such as `--judge=FILE.py:NAME`, brings
    flags of its own.
    """
    chosen: dict[str, Any] = {}
    for prefix, model in composed_sections(settings_type):
        values = {name: _first_given(f"{prefix}{name}", argv) for name in model.choosing}
        try:
            given = model.spelled_out(
                {name: value for name, value in values.items() if value is not None}
            )
        except ValueError:
            given = {}  # said where the settings are read
        model.chosen(given)
        chosen |= {prefix.removesuffix("."): given} if prefix else given
    return chosen


def chosen_settings(settings_type: type[SettingsT], argv: Sequence[str]) -> type[SettingsT]:
    """The settings with those of what the command line, a variable or a file chooses, for help."""
    return compose(settings_type, learn_choices(settings_type, argv))


def describe_choices(
    settings_type: type[BaseModel], argv: Sequence[str]
) -> Iterator[tuple[str, ChoiceHelp]]:
    """What `--help` says about the choices that a command line makes, with the prefix of the names of settings.

    Raises:
        SettingsError: there is no such choice.
    """
    for prefix, model in composed_sections(settings_type):
        values = {
            name: word
            for name in model.choosing
            if (word := _typed(f"{prefix}{name}", argv)) is not None
        }
        try:
            choice = model.describe_choice(values)
            if choice is not None:
                yield prefix, choice
        except ValueError as error:
            raise SettingsError(f"--{prefix}{error}") from None


def _typed(name: str, argv: Sequence[str]) -> str | None:
    """The value of a flag; `None` if it is not there."""
    flag = f"--{name}"
    for place, word in enumerate(argv):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and place + 1 < len(argv):
            return argv[place + 1]
    return None


def _first_given(name: str, argv: Sequence[str]) -> object:
    """The value of a setting in the source of highest priority, not validated; `None` if none is there."""
    word = _typed(name, argv)
    if word is not None:
        return word
    variable = os.environ.get(f"{ENV_PREFIX}{name.replace('.', '__').upper()}")
    if variable is not None or name == "config":
        return variable
    config = _first_given("config", argv)
    try:
        values: Any = read_yaml(config_file(str(config)), "") if config is not None else {}
    except SettingsError:
        return None  # said where the file is read
    for section in name.split("."):
        values = values.get(section) if isinstance(values, dict) else None
    return cast(object, values)
