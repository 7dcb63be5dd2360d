"""Settings from several sources: command line > environment variables > YAML file > presets > defaults.

`load` reads each source once, records the source of every value, and validates all settings before anything is started.
All errors become one `SettingsError` that names the setting, its source and what was expected. No message shows the
value of a setting that may hold a secret. The same holds for settings from keyword arguments.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from judgegym.judges.config.explaining import explain_values, place_of
from judgegym.judges.config.fields import (
    DEEPEST,
    DeclaredSetting,
    Values,
    declared_settings,
    names_given,
    section_of,
    without,
)
from judgegym.judges.config.reading import ENV_PREFIX, SettingsSource, read_sources
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import without_credentials, without_secret_fields

DEFAULT = "default"
MASK = "**********"


def _all_or_none(value: object) -> object:
    return {True: "all", False: None}[value] if isinstance(value, bool) else value


ShowConfig = Annotated[Literal["all", "changed"] | None, BeforeValidator(_all_or_none)]
"""`--show_config`: every setting, or those that differ from the defaults."""


class SourcedSettings(BaseSettings):
    """Base of all settings. The sources of pydantic-settings are switched off, because `load` reads them itself."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        allow_inf_nan=False,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        use_attribute_docstrings=True,
    )

    config: Path | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only the values that `load` has merged."""
        return (init_settings,)


SettingsT = TypeVar("SettingsT", bound=SourcedSettings)


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One line of `--show_config`: dotted name, value as text (secrets masked), source."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class LoadedSettings(Generic[SettingsT]):
    """Settings, and the source of each value by dotted name; a name without a source has its default.

    `notes` are lines that the user must see before anything is started; `verb` says which settings the command uses.
    """

    settings: SettingsT
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()
    verb: str | None = None

    def given(self, name: str) -> bool:
        """Whether a source sets `name` or a setting below it."""
        return any(origin == name or origin.startswith(f"{name}.") for origin in self.origins)

    def lines(self, *, show: ShowConfig = "all") -> list[ConfigLine]:
        """The settings that the command uses with their values and sources: all, or those that differ from default."""
        lines = []
        for setting in declared_settings(type(self.settings), verb=self.verb):
            value = attrgetter(setting.name)(self.settings)
            if show == "all" or value != self._default(setting):
                lines.append(ConfigLine(setting.name, _shown(value), self.origins.get(setting.name, DEFAULT)))
        return lines

    def _default(self, setting: DeclaredSetting) -> object:
        """The default of a setting: its field's, unless the section is declared with other values."""
        section, _, name = setting.name.partition(".")
        declared = type(self.settings).model_fields[section].default
        return attrgetter(name)(declared) if name and isinstance(declared, BaseModel) else setting.default


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return MASK
    return without_credentials(str(without_secret_fields(value) if isinstance(value, dict) else value))


def load(
    settings_type: type[SettingsT],
    argv: Sequence[str],
    *,
    prog: str,
    verb: str | None = None,
    reshape: Callable[[list[SettingsSource]], list[SettingsSource]] = lambda sources: sources,
) -> LoadedSettings[SettingsT]:
    """Read and validate the settings.

    Args:
        settings_type: the settings, with nested models as sections.
        argv: the command line without the program's name.
        prog: the program's name, for messages.
        verb: the verb that uses them; no others are suggested for a flag that does not exist.
        reshape: changes the sources, in order of priority, before they are merged: adds presets, converts layouts.

    Raises:
        SettingsError: an unknown setting, a wrong type, a missing or unreadable file.
    """
    merged: Values = {}
    origins: dict[str, str] = {}
    sources, notes = _of_one_thing(settings_type, reshape(read_sources(settings_type, argv, prog, verb)), verb)
    for source in reversed(sources):
        _check_sections(settings_type, source)
        merged = _merge(merged, source.values)
        origins.update((name, source.origin(name)) for name in names_given(settings_type, source.values))
    try:
        settings = settings_type(**_with_sections(settings_type, merged))
    except ValidationError as error:
        raise SettingsError("\n".join(explain_values(settings_type, error.errors(), origins))) from None
    return LoadedSettings(settings, origins, tuple(notes), verb)


def _of_one_thing(
    settings_type: type[BaseModel], sources: Sequence[SettingsSource], verb: str | None
) -> tuple[list[SettingsSource], list[str]]:
    """The sources without settings that would beat another name of a higher source, and a line for each replaced one.

    Raises:
        SettingsError: the command line gives both names, so that one of them would not be read.
    """
    kept, notes = list(sources), list[str]()
    for setting in declared_settings(settings_type):
        first, usual = setting.name, setting.read_instead_of(verb)
        given = [set(names_given(settings_type, source.values)) for source in kept] if usual else []
        place = next((place for place, names in enumerate(given) if {first, usual} & names), None)
        if usual is None or place is None or usual not in given[place]:
            continue
        higher = kept[place]
        if first in given[place]:
            if higher.kind == "command line" and wire.lookup(higher.values, first) is not None:
                raise SettingsError(
                    f"--{usual} (command line): nothing reads it beside --{first}, which is given, too; "
                    "give one of them"
                )
            continue
        for lower, source in enumerate(kept[place + 1 :], place + 1):
            if first in given[lower]:
                if wire.lookup(source.values, first) is not None:
                    notes.append(f"--{usual} ({higher.origin(usual)}) replaces {first} ({source.origin(first)})")
                kept[lower] = replace(source, values=without(source.values, first))
    return kept, notes


def _check_sections(settings_type: type[BaseModel], source: SettingsSource) -> None:
    """Check that sections hold settings, and that no value is nested too deeply for those who walk through it.

    A value that is no section would be replaced without a word by a source of higher priority.

    Raises:
        SettingsError: another value, or one too deep.
    """
    for name, value in source.values.items():
        if section_of(settings_type, name) is not None and not isinstance(value, dict | BaseModel):
            raise SettingsError(
                f"--{name} ({source.origin(name)}): expected settings by name, as in --{name}.NAME=VALUE, "
                f"found a value of type {type(value).__name__}"
            )
        if wire.is_nested_beyond(value, DEEPEST):
            raise SettingsError(f"--{name} ({source.origin(name)}): nested more than {DEEPEST} deep")


def _merge(weaker: Values, stronger: Values) -> Values:
    merged = dict(weaker)
    for name, value in stronger.items():
        below = merged.get(name)
        merged[name] = _merge(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _with_sections(settings_type: type[BaseModel], merged: Values) -> Values:
    """The values with every section: an empty one for its fields' defaults, others merged with the declared values."""
    values = dict(merged)
    for name, field in settings_type.model_fields.items():
        if section_of(settings_type, name) is None:
            continue
        if field.is_required():
            values.setdefault(name, {})
        elif isinstance(field.default, BaseModel) and isinstance(values.get(name), dict):
            values[name] = {**dict(field.default), **values[name]}
    return values


ModelT = TypeVar("ModelT", bound=BaseModel)


def settings_from_keywords(model: type[ModelT], values: Mapping[str, object], *, prefix: str = "") -> ModelT:
    """Validate keyword arguments.

    Args:
        model: the settings.
        values: the settings by name.
        prefix: the place of the values, for messages, such as `mounts.safety.`.

    Raises:
        SettingsError: a name is unknown or a value is wrong; the message shows no value, since it may be a key.
    """
    for name in values:
        if name not in model.model_fields:
            close = difflib.get_close_matches(name, list(model.model_fields), n=1, cutoff=0.6)
            hint = f", did you mean {close[0]}?" if close else ""
            raise SettingsError(f"{prefix}{name}: unknown setting of a judge{hint}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        place = ".".join(place_of(first))
        raise SettingsError(f"{prefix}{place}: {message[:1].lower()}{message[1:]}") from None
