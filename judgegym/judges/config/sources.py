"""Settings from sources: command line > environment variables > YAML file > presets > defaults.

`load_settings` reads each source once, records the source of every value, and validates all
settings before anything starts. All errors become one `SettingsError` that names the setting, its
source and what was expected. No message shows the value of a setting that may hold a secret. The
same holds for settings from keyword arguments.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, SecretStr, ValidationError
from pydantic_settings import CliImplicitFlag, SettingsConfigDict

from judgegym.judges.config import presets, tracing
from judgegym.judges.config.composed import ComposedSettings, compose, expand_choices
from judgegym.judges.config.explaining import explain_values, locate_error
from judgegym.judges.config.fields import (
    MAX_DEPTH,
    DeclaredSetting,
    Values,
    declared_settings,
    find_section,
    operational,
)
from judgegym.judges.config.presets import find_config_file
from judgegym.judges.config.reading.choices import (
    drop_replaced,
    drop_unchosen,
    expand_sources,
    find_ignored_flags,
    learn_choices,
)
from judgegym.judges.config.reading.readers import (
    ENV_PREFIX,
    flatten_sections,
    read_command_line,
    read_environment,
    read_settings_file,
)
from judgegym.judges.config.removed_values import (
    RemovedValue,
    locate_in_file,
    refusals,
    take_removed,
    take_removed_flags,
    take_removed_variables,
)
from judgegym.judges.config.tracing import TraceMode
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import redact_credentials, redact_secret_fields

DEFAULT = "default"
MASK = "**********"


def _parse_show_config(value: object) -> object:
    if isinstance(value, bool):
        return {True: "all", False: None}[value]
    return value


ShowConfig = Annotated[Literal["all", "changed"] | None, BeforeValidator(_parse_show_config)]
"""`--show_config`: all settings, or those that differ from the defaults."""


class SourcedSettings(BaseModel):
    """Base of all settings that `load_settings` reads, configured for pydantic-settings."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        use_attribute_docstrings=True,
    )

    help_group: ClassVar[str] = "run"

    config: Path | None = None
    offline: CliImplicitFlag[bool] = False
    show_config: ShowConfig = operational(None)
    """Print the settings with values and sources, and exit. changed: only those that differ from
    the default."""
    profile: Path | None = operational(None, presets.PROFILE_ABOUT)
    trace: TraceMode = operational("off", tracing.TRACE_ABOUT)
    faults: dict[str, float] = operational({})
    """With --offline: let the stand-in fail at these rates (0 to 1), such as {"500": 0.1, "drop":
    0.05}; latency_ms delays each response by that many milliseconds."""


SettingsT = TypeVar("SettingsT", bound=SourcedSettings)
SourceKind = Literal["command line", "environment variable", "file", "preset"]


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """One source of values.

    Attributes:
        name: for messages: the path of a file, or the flag that sets a preset.
        values: the settings by dotted name, not yet validated.
        kind: a preset is a default that a flag or a command sets; every other source overrides it.
        removed: the values of removed settings.
    """

    name: str
    values: Values
    kind: SourceKind = "preset"
    removed: Sequence[RemovedValue] = ()

    def origin(self, name: str) -> str:
        """Return the source of the setting with this name, for messages."""
        if self.kind != "environment variable":
            return self.name
        variable_name = name.replace(".", "__").upper()
        return f"{self.name} {ENV_PREFIX}{variable_name}"

    def drop_settings(self, *names: str) -> SettingsSource:
        """Return the source without these settings."""
        return replace(
            self, values={name: value for name, value in self.values.items() if name not in names}
        )


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One line of `--show_config`: dotted name, value as text (secrets masked), source."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class LoadedSettings(Generic[SettingsT]):
    """Settings, and the source of each value by dotted name; defaults have no source.

    `notes` are lines to show before anything starts; `verb` determines the settings in use.
    """

    settings: SettingsT
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()
    verb: str | None = None

    def is_set(self, name: str) -> bool:
        """Return whether a source sets `name` or a setting below it."""
        return any(origin == name or origin.startswith(f"{name}.") for origin in self.origins)

    def lines(self, *, show: ShowConfig = "all") -> list[ConfigLine]:
        """Return the settings in use with values and sources: all, or the changed ones."""
        lines = []
        for setting in declared_settings(type(self.settings), verb=self.verb):
            value = attrgetter(setting.name)(self.settings)
            if show == "all" or value != self._default(setting):
                lines.append(
                    ConfigLine(
                        setting.name, _mask_value(value), self.origins.get(setting.name, DEFAULT)
                    )
                )
        return lines

    def _default(self, setting: DeclaredSetting) -> object:
        """Return a setting's default, which its section may declare."""
        section, _, name = setting.name.partition(".")
        declared = type(self.settings).model_fields[section].default
        if name and isinstance(declared, BaseModel):
            return attrgetter(name)(declared)
        return setting.default


def _mask_value(value: object) -> str:
    if isinstance(value, SecretStr):
        return MASK
    return redact_credentials(
        str(redact_secret_fields(value) if isinstance(value, dict) else value)
    )


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
        verb: the verb; only its settings are suggested for an unknown flag.
        reshape: changes the sources, in order of priority, before they are merged: adds presets,
            converts layouts.

    Raises:
        SettingsError: an unknown setting, a wrong type, a missing or unreadable file, or a setting
            without effect.
    """
    learn_choices(settings_type, argv)
    all_settings = expand_choices(settings_type)
    sources, notes = drop_replaced(
        all_settings, reshape(read_sources(all_settings, argv, prog, verb)), verb
    )
    sources = expand_sources(settings_type, sources)
    for source in sources:
        for name, value in source.values.items():
            _check_value(all_settings, name, value, source)
    chosen = compose(settings_type, _nest_sections(settings_type, _merge_sources(sources)[0]))
    sources, dropped = drop_unchosen(chosen, sources, verb)
    merged, origins = _merge_sources(sources)
    try:
        settings = chosen(**_nest_sections(chosen, merged))
    except ValidationError as error:
        raise SettingsError("\n".join(explain_values(chosen, error.errors(), origins))) from None
    refused: list[str] = []
    for source in sources:
        refused += refusals(source.removed, settings)
    refused += find_ignored_flags(settings, origins, verb)
    if refused:
        raise SettingsError("\n".join(refused))
    loaded = LoadedSettings(settings, origins, (*notes, *dropped), verb)
    if (
        loaded.is_set("faults") and settings.faults and not settings.offline
    ):  # run files contain the default
        raise SettingsError("--faults: a setting of the stand-ins; it needs --offline")
    return loaded


def _merge_sources(sources: Sequence[SettingsSource]) -> tuple[Values, dict[str, str]]:
    """Merge the values of all sources by priority; return also the origin of each."""
    merged: Values = {}
    origins: dict[str, str] = {}
    for source in reversed(sources):
        for name, value in source.values.items():
            merged[name] = _merge(merged.get(name), value)
            origins[name] = source.origin(name)
    return merged, origins


def _check_value(
    settings_type: type[BaseModel], name: str, value: object, source: SettingsSource
) -> None:
    """Check that sections hold settings, and that no value is nested too deeply.

    A value in place of a section would be replaced silently by a source of higher priority.

    Raises:
        SettingsError: a section holds another value, or a value is too deep.
    """
    if find_section(settings_type, name) is not None:
        origin = source.origin(name)
        value_type = type(value).__name__
        raise SettingsError(
            f"--{name} ({origin}): expected settings by name, as in "
            f"--{name}.NAME=VALUE, "
            f"found a value of type {value_type}"
        )
    if wire.is_nested_beyond(value, MAX_DEPTH):
        raise SettingsError(f"--{name} ({source.origin(name)}): nested more than {MAX_DEPTH} deep")


def _merge(weaker: object, stronger: object) -> object:
    if not isinstance(weaker, dict) or not isinstance(stronger, dict):
        return stronger
    return {**weaker, **{name: _merge(weaker.get(name), value) for name, value in stronger.items()}}


def _nest_sections(settings_type: type[BaseModel], merged: Values) -> Values:
    """Nest the values by section, merged with each section's declared values."""
    nested: Values = {}
    for name, field in settings_type.model_fields.items():
        if find_section(settings_type, name) is not None and field.is_required():
            nested[name] = {}
        elif isinstance(field.default, BaseModel) and any(
            setting_name.startswith(f"{name}.") for setting_name in merged
        ):
            fields = (find_section(settings_type, name) or BaseModel).model_fields
            nested[name] = {
                key: value for key, value in dict(field.default).items() if key in fields
            }
    for name, value in merged.items():
        *sections, field_name = name.split(".")
        target = nested
        for section in sections:
            target = target.setdefault(section, {})
        target[field_name] = value
    return nested


def read_sources(
    settings_type: type[BaseModel], argv: Sequence[str], prog: str, verb: str | None = None
) -> list[SettingsSource]:
    """Read command line, environment variables and YAML file, in order of priority.

    Raises:
        SettingsError: an unknown setting, or a missing or unreadable file.
    """
    words, removed_flags = take_removed_flags(settings_type, argv)
    variables, removed_variables = take_removed_variables(settings_type, os.environ, ENV_PREFIX)
    sources = [
        _make_source(
            settings_type,
            "command line",
            read_command_line(settings_type, words, prog, verb),
            removed_flags,
        ),
        _make_source(
            settings_type,
            "environment variable",
            read_environment(settings_type, variables),
            removed_variables,
        ),
    ]
    config_name = next(filter(None, (source.values.get("config") for source in sources)), None)
    if config_name is not None:
        path = find_config_file(config_name)
        file_values = read_settings_file(path)
        if "env" not in settings_type.model_fields and isinstance(file_values.get("env"), dict):
            file_values |= file_values.pop(
                "env"
            )  # an environment's judge settings, for a command without sections
        file_values, removed = take_removed(settings_type, file_values)
        values = flatten_sections(settings_type, file_values, str(path))
        sources.append(SettingsSource(str(path), values, "file", locate_in_file(removed, path)))
    return sources


def _make_source(
    settings_type: type[BaseModel],
    kind: SourceKind,
    raw_values: Values,
    removed: Sequence[RemovedValue],
) -> SettingsSource:
    """Make the source of a kind from raw values and the removed settings found beside them."""
    values, nested = take_removed(settings_type, raw_values)
    source = SettingsSource(kind, flatten_sections(settings_type, values, kind), kind)
    return replace(
        source,
        removed=[*removed, *(replace(value, origin=source.origin(value.path)) for value in nested)],
    )


ModelT = TypeVar("ModelT", bound=BaseModel)


def settings_from_keywords(
    model: type[ModelT],
    values: Mapping[str, object],
    *,
    prefix: str = "",
    others: Collection[str] = (),
) -> ModelT:
    """Validate keyword arguments.

    Args:
        model: the settings.
        values: the settings by name.
        prefix: the prefix of the names in messages, such as `mounts.safety.`.
        others: further known names.

    Raises:
        SettingsError: a name is unknown or a value is wrong; the message shows no value, since it
            may be a key.
    """
    remaining, removed = take_removed(model, values)
    if issubclass(model, ComposedSettings):
        try:
            remaining = model.expand_short_forms(remaining)
        except ValueError as error:
            raise SettingsError(f"{prefix}{error}") from None
        model = compose(model, remaining)
    for name in remaining:
        if name not in model.model_fields:
            if issubclass(model, ComposedSettings):
                readers = model.readers(name)
            else:
                readers = []
            if readers:
                reader_list = " or ".join(readers)
                raise SettingsError(f"{prefix}{name}: nothing reads it without {reader_list}")
            close = difflib.get_close_matches(name, [*others, *model.model_fields], n=1, cutoff=0.6)
            hint = f", did you mean {close[0]}?" if close else ""
            raise SettingsError(f"{prefix}{name}: unknown setting of a judge{hint}")
    try:
        settings = model.model_validate(remaining)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        place = "".join(f"{'.'.join(place)}: " for place in [locate_error(first)] if place)
        initial = message[:1].lower()
        raise SettingsError(f"{prefix}{place}{initial}{message[1:]}") from None
    refused = refusals(removed, settings, prefix)
    if refused:
        raise SettingsError("\n".join(refused))
    return settings
