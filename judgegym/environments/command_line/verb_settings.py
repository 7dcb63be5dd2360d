"""Removes the settings that a verb does not use, and refuses flags that nothing reads.

A setting of another verb is refused on the command line and in environment variables. In a file, which may hold the
settings of several verbs, and in a preset it is ignored; and so is there a setting that the others make useless, such
as the schedule of a tournament where none is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb, uses
from judgegym.judges.config.fields import verbs_of
from judgegym.judges.config.reading import SettingsSource
from judgegym.judges.config.sources import LoadedSettings, SourcedSettings
from judgegym.judges.config.structure import DeclaredSetting, declared_settings, names_given, without
from judgegym.llm.errors import SettingsError

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


def check_flags_are_read(loaded: LoadedSettings[EnvSettings[Any]], verb: Verb) -> None:
    """Check that each flag of the command line has an effect, given the other settings.

    Raises:
        SettingsError: one that nothing reads was set to another value than its default.
    """
    env, fields = loaded.settings.env, type(loaded.settings.env).model_fields
    refused = []
    for name, readers in env.without_effect.items():
        given = loaded.origins.get(f"env.{name}") == "command line"
        if not given or getattr(env, name) == fields[name].get_default(call_default_factory=True, validated_data={}):
            continue
        readers = [reader for reader in readers if uses(verb, type(env), reader.partition("=")[0])]
        needs = " or ".join(f"--env.{reader}" for reader in readers)
        refused.append(f"--env.{name} (command line): nothing reads it" + (f" without {needs}" if needs else ""))
    if refused:
        raise SettingsError("\n".join(refused))


def _verbs(setting: DeclaredSetting) -> str:
    return " and ".join(verbs_of(setting.model, setting.field))
