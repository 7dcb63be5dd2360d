"""Removes the settings that a verb does not use.

Such a setting is refused on the command line and in environment variables. In a file, which may hold the settings of
several verbs, and in a preset it is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from environments.settings.verbs import Verb, uses
from judges.config.fields import verbs_of
from judges.config.reading import SettingsSource
from judges.config.sources import SourcedSettings
from judges.config.structure import DeclaredSetting, declared_settings, names_given, without
from judges.llm.errors import SettingsError

_STRICT_SOURCES = ("command line", "environment variable")


def of_verb(
    sources: Sequence[SettingsSource], settings_type: type[SourcedSettings], verb: Verb
) -> list[SettingsSource]:
    """The sources with only the settings that the verb uses; unknown settings stay, to be refused later.

    Raises:
        SettingsError: a flag or an environment variable sets one that the verb does not use; the message names all.
    """
    others = {
        setting.name: setting
        for setting in declared_settings(settings_type)
        if not uses(verb, setting.model, setting.field)
    }
    refused: list[str] = []
    kept: list[SettingsSource] = []
    for source in sources:
        for name in [name for name in names_given(settings_type, source.values) if name in others]:
            if source.kind in _STRICT_SOURCES:
                refused.append(f"--{name} ({source.origin(name)}): a setting of {_verbs(others[name])}, not of {verb}")
            source = replace(source, values=without(source.values, name))
        kept.append(source)
    if refused:
        hint = f"A --config file that {verb} shares with other verbs may hold such settings."
        raise SettingsError("\n".join([*refused, hint]))
    return kept


def _verbs(setting: DeclaredSetting) -> str:
    return " and ".join(verbs_of(setting.model, setting.field))
