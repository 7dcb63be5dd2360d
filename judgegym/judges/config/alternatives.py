"""Settings that are read instead of others (`instead_of`): of two names for one thing the higher source wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pydantic import BaseModel

from judgegym.judges.config.fields import read_instead_of
from judgegym.judges.config.help import DeclaredSetting, declared_settings, names_given, without
from judgegym.judges.config.reading import SettingsSource
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError


def of_one_thing(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource], differ: Callable[[DeclaredSetting], bool]
) -> tuple[list[SettingsSource], list[str]]:
    """The sources without settings that would beat one of a higher source, and a line for each that is replaced.

    Args:
        settings_type: the settings.
        sources: the sources, in order of priority.
        differ: whether a setting and the one that it is read instead of are both used.

    Raises:
        SettingsError: the command line gives both, so that one of them would not be read.
    """
    kept, notes = list(sources), list[str]()
    for setting, usual in _pairs(settings_type):
        given = [set(names_given(settings_type, source.values)) for source in kept]
        first = next((place for place, names in enumerate(given) if {setting.name, usual} & names), None)
        if first is None or usual not in given[first] or differ(setting):
            continue
        if setting.name in given[first]:
            if kept[first].kind == "command line" and _value(kept[first], setting.name) is not None:
                raise SettingsError(
                    f"--{usual} (command line): nothing reads it beside --{setting.name}, which is given, too; "
                    "give one of them"
                )
            continue
        for place in range(first + 1, len(kept)):
            if setting.name in given[place]:
                if _value(kept[place], setting.name) is not None:
                    notes.append(
                        f"--{usual} ({kept[first].origin(usual)}) replaces {setting.name} "
                        f"({kept[place].origin(setting.name)})"
                    )
                kept[place] = replace(kept[place], values=without(kept[place].values, setting.name))
    return kept, notes


def _pairs(settings_type: type[BaseModel]) -> Iterator[tuple[DeclaredSetting, str]]:
    """Each setting that is read instead of another, with the name of the other."""
    for setting in declared_settings(settings_type):
        other = read_instead_of(setting.model, setting.field)
        if other is not None:
            yield setting, setting.name.removesuffix(setting.field) + other


def _value(source: SettingsSource, name: str) -> object:
    return wire.lookup(source.values, name)
