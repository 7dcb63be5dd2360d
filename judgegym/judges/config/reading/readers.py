"""Readers of command line, environment variables and YAML files, before validation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel
from pydantic_settings import CliSettingsSource, EnvSettingsSource
from pydantic_settings import SettingsError as ParsingError

from judgegym.judges.config.explaining import explain_flag, suggest_settings
from judgegym.judges.config.fields import Values, declared_settings, find_section
from judgegym.judges.config.presets import default_profile_name, read_yaml
from judgegym.llm.errors import SettingsError

ENV_PREFIX = "JUDGEGYM_"
READ_ELSEWHERE = frozenset({"JUDGEGYM_OPENRLHF", "JUDGEGYM_RLLM", "JUDGEGYM_TOKEN"})
"""Variables with this prefix that are not settings of a command: trainers' functions read them."""


def flatten_sections(
    model: type[BaseModel], values: Mapping[Any, Any], where: str, prefix: str = ""
) -> Values:
    """Flatten the settings of a source to dotted names.

    Raises:
        SettingsError: a name is not text, or has a dot.
    """
    settings: Values = {}
    for name, value in values.items():
        if not isinstance(name, str) or "." in name:
            raise SettingsError(
                f"{prefix}{name!r} ({where}): unknown setting: a name is text without a dot"
            )
        section = find_section(model, name)
        if section is not None and isinstance(value, dict):
            settings |= flatten_sections(section, value, where, f"{prefix}{name}.")
        else:
            settings[prefix + name] = value
    return settings


_DEFAULT_FLAG_VALUES: Mapping[str, Callable[[], str]] = {
    "--show_config": lambda: "all",
    "--profile": default_profile_name,
    "--plan": lambda: "true",
}
"""The values of flags given without one. A following word that is no flag is the value."""


def read_command_line(
    settings_type: type[BaseModel], argv: Sequence[str], prog: str, verb: str | None
) -> Values:
    """Parse a command line; settings of sections are nested.

    Raises:
        SettingsError: an unknown flag, or a value that cannot be read.
    """
    try:
        words = _convert_switches(settings_type, argv)
        return CliSettingsSource[Any](
            cast(Any, settings_type), cli_exit_on_error=False, cli_prog_name=prog
        )(args=words)()
    except RecursionError:
        raise SettingsError("command line: a value is nested too deeply") from None
    except ParsingError as error:
        raise SettingsError(explain_flag(settings_type, str(error), argv, verb)) from None


def _convert_switches(settings_type: type[BaseModel], argv: Sequence[str]) -> list[str]:
    """Convert `--switch=true` to `--switch`, and `--switch=false` to `--no-switch`.

    A yes-or-no flag without a value is true.
    """
    declared = [*declared_settings(settings_type)]
    switches = {setting.name for setting in declared if setting.is_switch}
    yes_or_no = [f"--{setting.name}" for setting in declared if setting.is_yes_or_no]
    default_values: Mapping[str, Callable[[], str]] = {
        **{
            flag: value
            for flag, value in _DEFAULT_FLAG_VALUES.items()
            if flag.removeprefix("--") not in switches
        },
        **dict.fromkeys(yes_or_no, lambda: "true"),
    }
    words: list[str] = []
    for word in argv:
        if words and words[-1] in default_values and not word.startswith("-"):
            words[-1] += f"={word}"
            continue
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        if equals and name in switches and value.lower() in ("true", "false", "1", "0"):
            if value.lower() in ("true", "1"):
                word = f"--{name}"
            else:
                word = f"--no-{name}"
        words.append(word)
    return [
        f"{word}={default_values[word]()}" if word in default_values else word for word in words
    ]


def read_environment(settings_type: type[BaseModel], variables: Mapping[str, str]) -> Values:
    """Read environment variables; settings of sections are nested.

    Raises:
        SettingsError: an unknown variable with the prefix, or a value that cannot be read.
    """
    settings_variables = [name for name in variables if name.upper().startswith(ENV_PREFIX)]
    settings_variables = [name for name in settings_variables if name not in READ_ELSEWHERE]
    for name in settings_variables:
        section, _, nested_name = name.upper().removeprefix(ENV_PREFIX).partition("__")
        if section.lower() not in settings_type.model_fields:
            hint = suggest_settings(settings_type, section.lower())
            if (
                nested_name.lower() in settings_type.model_fields
            ):  # an environment's variable, for a command without sections
                hint = f", did you mean {ENV_PREFIX}{nested_name}?"
            raise SettingsError(f"environment variable {name}: unknown setting{hint}")
    try:
        source = EnvSettingsSource(cast(Any, settings_type))
        # A file with Windows line ends leaves carriage returns in the values.
        present = {name.lower() for name in variables}
        source.env_vars = {
            name: value and value.rstrip("\r\n")
            for name, value in source.env_vars.items()
            if name.lower() in present
        }
        return source()
    except RecursionError:
        settings_variable_list = ", ".join(sorted(settings_variables))
        raise SettingsError(
            f"environment variables ({settings_variable_list}): nested too deeply"
        ) from None
    except ParsingError as error:
        raise SettingsError(_explain_variable(error, sorted(settings_variables))) from None


def _explain_variable(error: ParsingError, variables: Sequence[str]) -> str:
    """Explain that a variable's value is no JSON, without showing it: it may be a key."""
    cause = error.__cause__
    if isinstance(cause, json.JSONDecodeError):
        names = [
            name for name in variables if os.environ[name].rstrip("\r\n") == cause.doc
        ] or variables
        name_list = ", ".join(names)
        return f"environment variable {name_list}: expected JSON; {cause}"
    variable_list = ", ".join(variables)
    return (
        f"environment variables ({variable_list}): "
        f"{error if cause is None else f'{error} ({cause})'}"
    )


def read_settings_file(path: Path) -> Values:
    """Read a YAML file of settings, nested by sections; a section may be empty.

    Raises:
        SettingsError: the file cannot be read, or holds no settings.
    """
    values = read_yaml(path, "--config: ")
    if not isinstance(values, dict | None):
        values_type = type(values).__name__
        raise SettingsError(
            f"--config: {path} holds a {values_type}; expected sections such as `env:`"
        )
    return {name: value for name, value in (values or {}).items() if value is not None}
