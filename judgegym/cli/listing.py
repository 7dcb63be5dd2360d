"""`judgegym list`: the environments and their requirements, as their classes declare them.

Data sets are the settings that `--offline` fills with bundled samples. The environment's settings
tell which endpoints its verbs call.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from judgegym.cli.environments import (
    ENVIRONMENT_FORMS,
    built_in_modules,
    environment_names,
    find_distribution,
    is_class,
    load_environment,
    load_installed,
    read_installed_environments,
)
from judgegym.cli.lifecycle import describe_models
from judgegym.environments.command_line.program import VERBS
from judgegym.judges.config.entry_points import EntryPoint
from judgegym.judges.config.extras import EXTRAS, TRAINERS, install_command
from judgegym.judges.config.presets import list_presets
from judgegym.llm.errors import UserError

if TYPE_CHECKING:
    from judgegym.engine.settings import EnvConfig, PolicySettings
    from judgegym.environments.base import JudgedEnv

_LINE_WIDTH = 80
_TITLE_WIDTH = 10
_POLICY = "policy"
"""A placeholder for the policy's URL, to ask the settings which endpoints they need."""


def main(argv: Sequence[str], *, prog: str) -> int:
    """Print the named environments, or all built-in and installed ones; return the exit code.

    With `--judges`, print models.

    Raises:
        SettingsError: there is no such environment, or no such model.
    """
    flags = make_parser(prog).parse_args(argv)
    environments = flags.environments
    if flags.judges:
        sys.stdout.write("\n".join(describe_models(environments)) + "\n")
        return 0
    for word in environments or built_in_modules():
        sys.stdout.write(
            "\n".join(describe_environment(word, load_environment(word), find_distribution(word)))
            + "\n\n"
        )
    for point in () if environments else read_installed_environments().values():
        sys.stdout.write("\n".join(_describe_installed(point)) + "\n\n")
    sys.stdout.write("\n".join([*_list_server_presets(), *_list_extras()]) + "\n")
    return 0


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog=prog, description="Show environments, and what each needs.", allow_abbrev=False
    )
    names: Any = parser.add_argument(
        "environments",
        nargs="*",
        metavar="ENV",
        help=f"only these; also {ENVIRONMENT_FORMS}; with --judges: only these models",
    )
    parser.add_argument(
        "--judges",
        action="store_true",
        help="show the known models of large providers: when they are retired, and what follows",
    )
    names.completer = lambda **_: environment_names()
    return parser


def _describe_installed(point: EntryPoint) -> list[str]:
    """Describe an environment of a distribution; the reason if it cannot be used."""
    try:
        return describe_environment(point.name, load_installed(point), point.distribution)
    except UserError as error:
        return textwrap.wrap(
            str(error), _LINE_WIDTH, subsequent_indent="  ", break_on_hyphens=False
        )


def describe_environment(
    word: str, env_type: type[JudgedEnv[Any, Any, Any]], distribution: str
) -> list[str]:
    """Describe one environment, as lines.

    `distribution` provides it; it is empty for one that is not installed separately.
    """
    from judgegym.engine.settings import PolicySettings

    config, policy = env_type.config_type(), PolicySettings()
    about = " ".join((inspect.getdoc(env_type) or "").partition("\n\n")[0].split())
    entries = {
        "package": [distribution] if distribution else [],
        "verbs": [", ".join(VERBS)],
        "data": list(_list_datasets(env_type, config)),
        "policy": [_describe_policy(config, policy)],
        "judge": list(_list_judges(config)),
        "presets": [f"--config {name}" for name in list_presets(f"{env_type.spec.name}_")],
        "models": [f"--env.{name} (a list)" for name in _list_model_settings(config)],
    }
    lines = textwrap.wrap(
        f"{word}: {about}", _LINE_WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )
    for title, values in entries.items():
        lines += _format_values(f"{title:<{_TITLE_WIDTH}}", values)
    return lines


def _format_values(title: str, values: Sequence[str]) -> Iterator[str]:
    """Yield a line for each value, the first one with the title."""
    for index, value in enumerate(values):
        head = f"  {title}" if index == 0 else " " * (2 + len(title))
        indent = " " * len(head)
        yield from textwrap.wrap(
            value,
            _LINE_WIDTH,
            initial_indent=head,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )


def _list_datasets(env_type: type[JudgedEnv[Any, Any, Any]], config: EnvConfig) -> Iterator[str]:
    for name in env_type.spec.offline_samples:
        default = getattr(config, name)
        if default is not None:
            default_text = default
        else:
            default_text = "none by default: hub name or file"
        yield (f"--env.{name}  {default_text}")


def _describe_policy(config: EnvConfig, policy: PolicySettings) -> str:
    role = " (it is the judge)" if config.policy_is_judge else ""
    return (
        f"--openai.*  {policy.model_name} at {policy.base_url}, key in {policy.api_key_env}{role}"
    )


def _list_judges(config: EnvConfig) -> Iterator[str]:
    """Yield the judge's endpoint, with the verbs that call it unless all do."""
    verbs = [
        verb
        for verb in VERBS
        if config.judge_base_url in config.endpoints_asked(verb, (_POLICY,)).judge
    ]
    if not verbs:
        return
    verb_note = "" if len(verbs) == len(VERBS) else f" ({', '.join(verbs)})"
    yield (
        f"--env.judge_*  {config.judge_model_name} at {config.judge_base_url}, key in "
        f"{config.judge_api_key_env}{verb_note}"
    )


def _list_model_settings(config: EnvConfig) -> Iterator[str]:
    """Yield the settings that are lists of models with their own endpoints."""
    for name, field in type(config).model_fields.items():
        (item, *_) = (*get_args(field.annotation), None)
        if get_origin(field.annotation) is list and is_class(item) and issubclass(item, BaseModel):
            yield name


def _list_server_presets() -> Iterator[str]:
    """Yield the presets that belong to no environment."""
    names = tuple(f"{name}_" for name in built_in_modules())
    yield "judge-server: Judges over HTTP, for trainers."
    presets = [f"--config {name}" for name in list_presets() if not name.startswith(names)]
    yield from _format_values(f"{'presets':<{_TITLE_WIDTH}}", presets)
    yield ""


_USES_OF_EXTRAS: Mapping[str, str] = {
    "environments": "evaluate, serve and process",
    "data": "datasets of the hub, CSV and Parquet files",
    "training": "serve and process, for the policy's tokenizer",
    "statistics": "tournaments of judge-server and notebooks",
    "server": "/metrics of judge-server",
}


def _list_extras() -> Iterator[str]:
    command = install_command("NAME")
    yield f"extras:  {command}"
    installed = {extra for extra, modules in EXTRAS.items() if all(map(find_spec, modules))}
    for extra, use in _USES_OF_EXTRAS.items():
        negation = "" if extra in installed else "not "
        yield f"  {extra:<13} {use} ({negation}installed)"
    installed_trainers = [extra for extra in TRAINERS if extra in installed]
    states = {
        "installed": installed_trainers,
        "not installed": [extra for extra in TRAINERS if extra not in installed_trainers],
    }
    lines = [f"{state}: {', '.join(extras)}" for state, extras in states.items() if extras]
    yield from _format_values(f"{'trainers':<13} ", lines)
