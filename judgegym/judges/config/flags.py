"""The flags of a command as a parser that a shell's completion reads: each with its choices, or what completes it.

It checks no value: settings are read by `judgegym.judges.config.sources`.
"""

from __future__ import annotations

import argparse
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from judgegym.judges.config.help import DeclaredSetting, declared_settings, is_switch, is_yes_or_no
from judgegym.judges.config.presets import bundled

_MAY_STAND_ALONE = ("show_config", "profile")


def flags_parser(
    settings_type: type[BaseModel], *, uses: Callable[[DeclaredSetting], bool] = lambda setting: True
) -> argparse.ArgumentParser:
    """A parser of every flag of some settings.

    Args:
        settings_type: the settings.
        uses: which settings the command uses; others are left out.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--help", action="store_true", help="List the most used settings.")
    parser.add_argument("--help_all", action="store_true", help="List all settings.")
    for setting in filter(uses, declared_settings(settings_type)):
        _add(parser, setting)
    return parser


def _add(parser: argparse.ArgumentParser, setting: DeclaredSetting) -> None:
    about = setting.about.partition(". ")[0].replace("%", "%%")
    name, annotation = setting.name, setting.info.annotation
    if is_switch(setting):
        parser.add_argument(f"--{name}", action="store_true", help=about)
        return
    nargs, choices = "?" if name in _MAY_STAND_ALONE or is_yes_or_no(setting) else None, list(_choices(annotation))
    flag: Any = parser.add_argument(f"--{name}", nargs=nargs, choices=choices or None, help=about)
    if name == "config":
        flag.completer = _preset_or_file
    elif not choices:
        flag.completer = None if _may_be_file(annotation) else _nothing  # none: argcomplete completes files


def _choices(annotation: Any) -> Iterator[str]:
    """The values of a type that has few of them; none of any other."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is bool:
        yield from ("true", "false")
    elif origin is Literal:
        yield from map(str, arguments)
    elif origin is Annotated:
        yield from _choices(arguments[0])
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _choices(argument)


def _may_be_file(annotation: Any) -> bool:
    """Whether a value may name a file: a path, or a text such as a dataset."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _may_be_file(arguments[0])
    if origin in (Union, types.UnionType):
        return any(map(_may_be_file, arguments))
    return annotation in (str, Path)


def _preset_or_file(prefix: str, **_: object) -> Mapping[str, str]:
    from argcomplete.completers import FilesCompleter  # late: it is an extra

    files: list[str] = list(FilesCompleter(["yaml", "yml"])(prefix))
    return {**dict.fromkeys(files, "file"), **dict.fromkeys(bundled(prefix), "preset")}


def _nothing(**_: object) -> tuple[str, ...]:
    return ()
