"""Layered settings: command line > environment variables > YAML file > presets > defaults.

`load` reads each layer once, remembers where every value came from, and validates the whole before anything is started.
Whatever is wrong becomes one `SettingsError` that names the setting, its layer and what was expected. Values are never
part of a message where the setting is a secret.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as ParsingError

from judges.llm.errors import SettingsError
from judges.llm.urls import without_credentials

ENV_PREFIX = "JUDGEGYM_"
DEFAULT = "default"
MASK = "**********"

# A layer is what a file or a command line says before it is validated, so its values have no type yet.
Values = dict[str, Any]


class SourcedSettings(BaseSettings):
    """Base of all settings; its own sources are switched off, since `load` reads them one by one."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", cli_hide_none_type=True, cli_avoid_json=True
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
        """Only what `load` has merged."""
        return (init_settings,)


def _shown(value: object) -> str:
    return MASK if isinstance(value, SecretStr) else without_credentials(str(value))


SettingsT = TypeVar("SettingsT", bound=SourcedSettings)


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """One source of values, its name for people, and whether it is the file that `--config` names."""

    name: str
    values: Values
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One line of `--show_config`: dotted name, value as text (secrets masked), layer."""

    name: str
    value: str
    layer: str


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class LoadedSettings(Generic[SettingsT]):
    """Settings, and the layer that each value came from, by dotted name; a name that is absent is a default."""

    settings: SettingsT
    origins: Mapping[str, str]

    def given(self, name: str) -> bool:
        """Whether any layer above the defaults set `name` or something below it."""
        return any(origin == name or origin.startswith(f"{name}.") for origin in self.origins)

    def lines(self) -> list[ConfigLine]:
        """Every setting with its value and layer."""
        return [
            ConfigLine(name, _shown(value), self.origins.get(name, DEFAULT)) for name, value in _leaves(self.settings)
        ]


def load(
    settings_type: type[SettingsT],
    argv: Sequence[str],
    *,
    prog: str,
    reshape: Callable[[list[SettingsSource]], list[SettingsSource]] = lambda layers: layers,
) -> LoadedSettings[SettingsT]:
    """Read and validate the settings.

    Args:
        settings_type: the settings, with nested models as sections.
        argv: the command line without the program's name. `--help` prints and leaves with `SystemExit(0)`.
        prog: the program's name, for `--help`.
        reshape: a last word on the layers, strongest first: to add presets, or accept other shapes.

    Raises:
        SettingsError: an unknown setting, a wrong type, a missing or unreadable file.
    """
    command_line = SettingsSource("command line", _read_command_line(settings_type, argv, prog))
    environment = SettingsSource("environment variable", _read_environment(settings_type))
    layers = [command_line, environment]
    path = command_line.values.get("config") or environment.values.get("config")
    if path is not None:
        layers.append(SettingsSource(str(path), _read_yaml(Path(path)), is_file=True))
    layers = reshape(layers)
    merged: Values = {}
    origins: dict[str, str] = {}
    for layer in reversed(layers):
        merged = _merge(merged, layer.values)
        origins.update((name, _origin(layer, name)) for name in _flatten(settings_type, layer.values))
    for name, field in settings_type.model_fields.items():
        if _section(settings_type, name) is None:
            continue
        if field.is_required():
            merged.setdefault(name, {})  # its fields have defaults of their own
        elif isinstance(field.default, BaseModel) and isinstance(merged.get(name), dict):
            merged[name] = {**dict(field.default), **merged[name]}  # what is not given stays as it was
    try:
        settings = settings_type(**merged)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(settings_type, each, origins) for each in error.errors())) from None
    return LoadedSettings(settings, origins)


def _read_command_line(settings_type: type[SourcedSettings], argv: Sequence[str], prog: str) -> Values:
    try:
        source: CliSettingsSource[Any] = CliSettingsSource(settings_type, cli_exit_on_error=False, cli_prog_name=prog)
        source.root_parser.usage = f"{prog} [--name=value …]"  # not a page of brackets before the options' own list
        return source(args=_with_switches(settings_type, argv))()
    except ParsingError as error:
        raise SettingsError(_explain_flag(settings_type, str(error), argv)) from None


def _with_switches(settings_type: type[SourcedSettings], argv: Sequence[str]) -> list[str]:
    """The command line with `--switch=true` as `--switch`, and `--switch=false` as `--no-switch`."""
    switches = {name for name, field in settings_type.model_fields.items() if field.annotation is bool}
    words = []
    for word in argv:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        if equals and name in switches and value.lower() in ("true", "false", "1", "0"):
            word = f"--{name}" if value.lower() in ("true", "1") else f"--no-{name}"
        words.append(word)
    return words


def _read_environment(settings_type: type[SourcedSettings]) -> Values:
    named = [name for name in os.environ if name.upper().startswith(ENV_PREFIX)]
    for name in named:
        section = name.upper().removeprefix(ENV_PREFIX).partition("__")[0].lower()
        if section not in settings_type.model_fields:
            raise SettingsError(f"environment variable {name}: unknown setting{_suggestion(settings_type, section)}")
    try:
        return EnvSettingsSource(settings_type)()
    except ParsingError as error:
        why = f"{error} ({error.__cause__})" if error.__cause__ is not None else str(error)
        raise SettingsError(f"environment variables ({', '.join(sorted(named))}): {why}") from None


def _read_yaml(path: Path) -> Values:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"--config: {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config: {path} is not a YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict | None):
        raise SettingsError(f"--config: {path} holds a {type(values).__name__}; expected sections such as `env:`")
    _check_names(values or {}, path)
    return {name: value for name, value in (values or {}).items() if value is not None}  # a section may be empty


def _check_names(values: Values, path: Path, prefix: str = "") -> None:
    for name, value in values.items():
        if not isinstance(name, str):
            raise SettingsError(f"{prefix}{name!r} ({path}): unknown setting: a name is text")
        if isinstance(value, dict):
            _check_names(value, path, f"{prefix}{name}.")


def _merge(weaker: Values, stronger: Values) -> Values:
    merged = dict(weaker)
    for name, value in stronger.items():
        below = merged.get(name)
        merged[name] = _merge(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _flatten(model: type[BaseModel], values: Values, prefix: str = "") -> Iterator[str]:
    """Dotted names of what a layer sets; sections are descended into, other values are leaves."""
    for name, value in values.items():
        section = _section(model, name)
        if section is not None and isinstance(value, dict):
            yield from _flatten(section, value, f"{prefix}{name}.")
        else:
            yield prefix + name


def _section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    field = model.model_fields.get(name)
    annotation = field.annotation if field is not None else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def secrets(model: BaseModel) -> Iterator[str]:
    """Every secret in a model, as it must not be shown."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, BaseModel):
                yield from secrets(each)
            elif isinstance(each, SecretStr) and each.get_secret_value():
                yield each.get_secret_value()


def _leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _names(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name in model.model_fields:
        section = _section(model, name)
        if section is None:
            yield prefix + name
        else:
            yield from _names(section, f"{prefix}{name}.")


def _origin(layer: SettingsSource, name: str) -> str:
    if layer.name != "environment variable":
        return layer.name
    return f"{layer.name} {ENV_PREFIX}{name.replace('.', '__').upper()}"


def _explain_flag(settings_type: type[SourcedSettings], message: str, argv: Sequence[str]) -> str:
    """A command line that could not be read, in one line."""
    unknown = re.search(r"unrecognized arguments: (.*)", message)
    unreadable = re.match(r"Parsing error encountered for (\S+):", message)
    if unreadable is not None:
        name = unreadable.group(1)
        given = [value for word in argv for flag, _, value in [word.partition("=")] if flag == f"--{name}"]
        shown = f", got {given[-1][:100]!r}" if given and _may_be_shown(settings_type, name.split(".")) else ""
        return f"--{name} (command line): cannot be read; expected JSON{shown}"
    if unknown is None:
        return "command line: " + re.sub(r"^error parsing CLI: ", "", message)
    flag, _, rest = unknown.group(1).partition(" ")
    name = flag.lstrip("-").partition("=")[0]
    if not flag.startswith("-"):
        return f"command line: unexpected argument {flag!r}; settings are given as --name=value"
    known = (
        " (a flag of this name exists: does its value begin with a dash?)"
        if rest and name in _names(settings_type)
        else ""
    )
    return f"command line: unknown flag --{name}{known}{_suggestion(settings_type, name)}; --help lists all"


def _suggestion(settings_type: type[BaseModel], name: str) -> str:
    close = difflib.get_close_matches(name, list(_names(settings_type)), n=1, cutoff=0.75)
    return f", did you mean --{close[0]}?" if close else ""


def _explain(settings_type: type[SourcedSettings], error: ErrorDetails, origins: Mapping[str, str]) -> str:
    """One validation error, in one line."""
    parts = [str(part) for part in error["loc"]]
    name = ".".join(parts)
    setting = next(
        (".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in origins), name
    )
    origin = f" ({origins[setting]})" if setting in origins else ""
    if error["type"] == "extra_forbidden":
        return f"{name}{origin}: unknown setting{_suggestion(settings_type, name)}"
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    harmless = isinstance(error["input"], int | float | None) or _may_be_shown(settings_type, parts)
    if error["type"] in ("missing", "value_error") or not harmless:
        return f"--{name}{origin}: {message}"
    return f"--{name}{origin}: {message}, got {_received(error['input'])}"


def _may_be_shown(model: type[BaseModel], parts: Sequence[str]) -> bool:
    """Whether a value under this name can hold no secret: its field's type has neither a secret nor a model in it."""
    field = model.model_fields.get(parts[0])
    if field is None:
        return False
    section = _section(model, parts[0])
    if section is not None:
        return len(parts) > 1 and _may_be_shown(section, parts[1:])
    return not _holds_secrets(field.annotation)


def _holds_secrets(annotation: object) -> bool:
    # Python 3.10 takes `list[int]` for a type, and then refuses it as one.
    is_class = get_origin(annotation) is None and isinstance(annotation, type)
    if is_class and issubclass(cast(type, annotation), BaseModel | SecretStr):
        return True
    return any(_holds_secrets(each) for each in get_args(annotation))


def _received(value: object) -> str:
    """What was received: a plain value as text, of anything that may hold a secret somewhere only what it is."""
    plain = str | int | float | None
    if isinstance(value, plain) or (isinstance(value, list) and all(isinstance(each, plain) for each in value)):
        return repr(without_credentials(str(value))[:100])
    return f"a {type(value).__name__}"
