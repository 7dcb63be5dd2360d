"""The sources of settings, read one by one: command line, environment variables, YAML file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_settings import BaseSettings, CliSettingsSource, EnvSettingsSource
from pydantic_settings import SettingsError as ParsingError

from judgegym.judges.config.explaining import explain_flag, suggestion
from judgegym.judges.config.fields import Values, declared_settings
from judgegym.judges.config.presets import config_file, default_name, load_yaml
from judgegym.llm.errors import SettingsError

ENV_PREFIX = "JUDGEGYM_"
READ_ELSEWHERE = frozenset({"JUDGEGYM_OPENRLHF", "JUDGEGYM_RLLM", "JUDGEGYM_TOKEN"})
"""Variables of this prefix that are no settings of a command: functions for trainers read them."""

SourceKind = Literal["command line", "environment variable", "file", "preset"]


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """One source of values.

    Attributes:
        name: shown in messages: the path of a file, or the flag that sets a preset.
        values: the settings, not validated yet.
        kind: a preset is a default that a flag or a command sets; every other source overrides it.
    """

    name: str
    values: Values
    kind: SourceKind = "preset"

    def origin(self, name: str) -> str:
        """The source of the setting with this name, for messages."""
        if self.kind != "environment variable":
            return self.name
        return f"{self.name} {ENV_PREFIX}{name.replace('.', '__').upper()}"


_WITHOUT_VALUE: Mapping[str, Callable[[], str]] = {"--show_config": lambda: "all", "--profile": default_name}
"""What flags mean that may stand without a value. A word after one that is no flag is its value."""


def read_sources(
    settings_type: type[BaseSettings], argv: Sequence[str], prog: str, verb: str | None = None
) -> list[SettingsSource]:
    """Command line, environment variables, and the YAML file that either of them names, in order of priority.

    Raises:
        SettingsError: an unknown setting, or a missing or unreadable file.
    """
    command_line = SettingsSource("command line", _read_command_line(settings_type, argv, prog, verb), "command line")
    environment = SettingsSource("environment variable", _read_environment(settings_type), "environment variable")
    named = command_line.values.get("config") or environment.values.get("config")
    if named is None:
        return [command_line, environment]
    path = config_file(named)
    return [command_line, environment, SettingsSource(str(path), _read_yaml(path), "file")]


def _read_command_line(settings_type: type[BaseSettings], argv: Sequence[str], prog: str, verb: str | None) -> Values:
    try:
        source: CliSettingsSource[Any] = CliSettingsSource(settings_type, cli_exit_on_error=False, cli_prog_name=prog)
        return source(args=_with_switches(settings_type, argv))()
    except RecursionError:
        raise SettingsError("command line: a value is nested too deeply") from None
    except ParsingError as error:
        raise SettingsError(explain_flag(settings_type, str(error), argv, verb)) from None


def _with_switches(settings_type: type[BaseModel], argv: Sequence[str]) -> list[str]:
    """The command line with `--switch=true` as `--switch`, and `--switch=false` as `--no-switch`.

    A flag of a yes or no that stands without a value is true.
    """
    declared = [*declared_settings(settings_type)]
    switches = {setting.name for setting in declared if setting.is_switch}
    yes_or_no = [f"--{setting.name}" for setting in declared if setting.is_yes_or_no]
    without_value: Mapping[str, Callable[[], str]] = {**_WITHOUT_VALUE, **dict.fromkeys(yes_or_no, lambda: "true")}
    words: list[str] = []
    for word in argv:
        if words and words[-1] in without_value and not word.startswith("-"):
            words[-1] += f"={word}"
            continue
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        if equals and name in switches and value.lower() in ("true", "false", "1", "0"):
            word = f"--{name}" if value.lower() in ("true", "1") else f"--no-{name}"
        words.append(word)
    return [f"{word}={without_value[word]()}" if word in without_value else word for word in words]


def _read_environment(settings_type: type[BaseSettings]) -> Values:
    named = [name for name in os.environ if name.upper().startswith(ENV_PREFIX) and name not in READ_ELSEWHERE]
    for name in named:
        section = name.upper().removeprefix(ENV_PREFIX).partition("__")[0].lower()
        if section not in settings_type.model_fields:
            raise SettingsError(f"environment variable {name}: unknown setting{suggestion(settings_type, section)}")
    try:
        return EnvSettingsSource(settings_type)()
    except RecursionError:
        raise SettingsError(f"environment variables ({', '.join(sorted(named))}): nested too deeply") from None
    except ParsingError as error:
        why = f"{error} ({error.__cause__})" if error.__cause__ is not None else str(error)
        raise SettingsError(f"environment variables ({', '.join(sorted(named))}): {why}") from None


def _read_yaml(path: Path) -> Values:
    try:
        values = load_yaml(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"--config: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"--config: {path} is not a YAML file: {error}") from None
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
