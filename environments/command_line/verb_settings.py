"""A verb's own settings.

One that the verb does not use is refused where it was set on purpose: on the command line, or in an environment
variable. A file may serve several verbs, so there it is passed over, as it is in a preset.
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

_ON_PURPOSE = ("command line", "environment variable")


def of_verb(
    sources: Sequence[SettingsSource], settings_type: type[SourcedSettings], verb: Verb
) -> list[SettingsSource]:
    """The sources with the settings that the verb uses, and with unknown ones, which are refused later.

    Raises:
        SettingsError: one was set on purpose that the verb does not use; all of them are named.
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
            if source.kind in _ON_PURPOSE:
                refused.append(f"--{name} ({source.origin(name)}): a setting of {_verbs(others[name])}, not of {verb}")
            source = replace(source, values=without(source.values, name))
        kept.append(source)
    if refused:
        hint = f"A --config file that {verb} shares with other verbs may hold such settings."
        raise SettingsError("\n".join([*refused, hint]))
    return kept


def _verbs(setting: DeclaredSetting) -> str:
    return " and ".join(verbs_of(setting.model, setting.field))
