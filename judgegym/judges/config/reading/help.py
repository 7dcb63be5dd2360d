"""`--help`: a command's settings in groups; the most used ones, or all with `--help_all`.

Shell completion reads the same flags from a parser, each with its choices or its completer. No
value is checked here; `judgegym.judges.config.sources` reads settings.
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from judgegym.judges.config.composed import ChoiceHelp, composed_sections, expand_choices
from judgegym.judges.config.fields import (
    DeclaredSetting,
    alternatives,
    declared_settings,
    format_default,
)
from judgegym.judges.config.presets import list_presets
from judgegym.judges.config.reading.choices import describe_choices, select_settings

HelpDetail = Literal["common", "all"]
_MAX_WIDTH = 100
_INDENT = 8
_OPTIONAL_VALUE_SETTINGS = ("show_config", "profile", "plan")


class _Formatter(argparse.HelpFormatter):
    """An argparse formatter that keeps names of models and data sets whole at hyphens.

    A flag's possible values are broken after a `|` if they are longer than a line.
    """

    def _format_action_invocation(self, action: argparse.Action) -> str:
        lines = [""]
        for part in re.split(r"(?<=\|)", super()._format_action_invocation(action)):
            if lines[-1] and len(lines[-1] + part) > self._width - _INDENT:
                lines.append("")
            lines[-1] += part
        return f"\n{' ' * _INDENT}".join(lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def parse_help_detail(argv: Iterable[str]) -> HelpDetail | None:
    """Return which help a command line asks for, if any."""
    words = set(argv)
    if words & {"--help_all", "--help-all"}:
        return "all"
    if words & {"--help", "-h"}:
        return "common"
    return None


def render_help(
    settings_type: type[BaseModel],
    *,
    usage: str,
    about: str,
    groups: Mapping[str, str],
    detail: HelpDetail = "common",
    verb: str | None = None,
    most_used: Sequence[str] = (),
    words: Sequence[str] = (),
) -> str:
    """Render a command's help, as wide as the terminal.

    If its words choose a judge, it is the help of that judge.

    Args:
        settings_type: the command's settings.
        usage: the command, for the first line.
        about: what the command does.
        groups: the titles of groups by name, in order; other groups follow.
        detail: only the most used settings, or all, with the most used ones first in each group.
        verb: lists only settings that this verb uses; by default all.
        most_used: the names of its most used settings, in the order of each group; by default those
            declared as common.
        words: the command's arguments.

    Raises:
        SettingsError: the words name an unknown judge.
    """
    chosen = select_settings(settings_type, words)
    for prefix, choice in describe_choices(settings_type, words):
        if detail == "common":
            return _render_choice_page(chosen, prefix, choice, usage=usage)
    settings_type = chosen
    settings = sort_by_use(declared_settings(settings_type, verb=verb), most_used)
    shown_settings = settings
    if detail != "all":
        shown_settings = [setting for setting in settings if _is_most_used(setting, most_used)]
    hidden_count = len(settings) - len(shown_settings)
    shown_groups = {setting.group for setting in shown_settings}
    sections = {
        groups.get(group, group): [setting for setting in shown_settings if setting.group == group]
        for group in [
            *(name for name in groups if name in shown_groups),
            *sorted(shown_groups - groups.keys()),
        ]
    }
    return _format_page(
        f"{usage} [--name=value …]",
        about,
        sections,
        " ".join(_describe_hidden_settings(settings_type, hidden_count, verb)),
    )


def _render_choice_page(
    settings_type: type[BaseModel], prefix: str, choice: ChoiceHelp, *, usage: str
) -> str:
    """Render the help of a judge in a command."""
    declared = {setting.name: setting for setting in declared_settings(settings_type)}
    sections = {
        title: [declared[f"{prefix}{name}"] for name in names]
        for title, names in choice.groups.items()
    }
    flag = f"--{prefix}{choice.setting}"
    more = ""
    if choice.others:
        more = f"{len(choice.others)} more of these settings, and "
    end = (
        f"--help_all lists {more}all of the command. --help without {flag} lists the most used "
        "ones of the command, "
        f"{flag}=NAME --help those of another judge."
    )
    usage = usage.replace(f" {flag} KIND", "")
    return _format_page(f"{usage} {flag}={choice.name} …", None, sections, end)


def _format_page(
    usage: str, about: str | None, sections: Mapping[str, Sequence[DeclaredSetting]], end: str
) -> str:
    width = min(shutil.get_terminal_size().columns, _MAX_WIDTH)
    parser = argparse.ArgumentParser(
        usage=usage.replace("%", "%%"),
        description=about,
        epilog=end,
        add_help=False,
        formatter_class=lambda prog: _Formatter(prog, max_help_position=_INDENT, width=width),
    )
    for title, settings in sections.items():
        section: Any = parser.add_argument_group(title)
        for setting in settings:
            default = format_default(setting.default)
            text = setting.about + (f" Default: {default}." if default not in ("", "false") else "")
            if setting.is_switch:
                kind = {"action": "store_true"}
            else:
                kind = {"metavar": setting.kind}
            section.add_argument(f"--{setting.name}", help=text.replace("%", "%%"), **kind)
    return parser.format_help()


def _describe_hidden_settings(
    settings_type: type[BaseModel], hidden_count: int, verb: str | None
) -> Iterator[str]:
    """Explain how to list the settings that a page does not list."""
    if hidden_count:
        yield f"--help_all lists {hidden_count} more settings."
    for prefix, model in composed_sections(settings_type):
        for name in model.choosing:
            if DeclaredSetting(name, model, name).is_used_by(verb):
                has_names = any(choice.startswith(f"{name}=") for choice in model.choices())
                if has_names:
                    ending = f"=NAME --help lists those of another {name}"
                else:
                    ending = "=… --help lists its settings"
                yield f"--{prefix}{name}{ending}."


def sort_by_use(
    settings: Iterable[DeclaredSetting], most_used: Sequence[str] = ()
) -> list[DeclaredSetting]:
    """Sort settings, most used ones first.

    They are ordered by `most_used`, or by whether they are declared as common.
    """
    positions = {name: position for position, name in enumerate(most_used)}
    return sorted(
        settings,
        key=lambda setting: positions.get(
            setting.name, len(positions) + (not _is_most_used(setting, most_used))
        ),
    )


def _is_most_used(setting: DeclaredSetting, most_used: Sequence[str]) -> bool:
    """Return whether `--help` lists a setting."""
    if most_used:
        return setting.name in most_used
    return setting.is_common


def make_flags_parser(
    settings_type: type[BaseModel], *, verb: str | None = None
) -> argparse.ArgumentParser:
    """Make a parser of every flag that a verb uses, for completion."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--help", action="store_true", help="List the most used settings.")
    parser.add_argument("--help_all", action="store_true", help="List all settings.")
    for setting in declared_settings(expand_choices(settings_type), verb=verb):
        about = setting.about.partition(". ")[0].replace("%", "%%")
        if setting.is_switch:
            parser.add_argument(f"--{setting.name}", action="store_true", help=about)
            continue
        value_types = alternatives(setting.info.annotation)
        words = list(chain.from_iterable(map(_list_choices, value_types)))
        choices = None if str in value_types else words or None
        nargs = None
        if setting.name in _OPTIONAL_VALUE_SETTINGS or setting.is_yes_or_no:
            nargs = "?"
        flag: Any = parser.add_argument(
            f"--{setting.name}", nargs=nargs, choices=choices, help=about
        )
        if setting.name == "config":
            flag.completer = _complete_presets_or_files
        elif words and choices is None:
            flag.completer = partial(_complete_words_or_files, words)
        elif not choices and not {str, Path} & {*value_types}:
            flag.completer = lambda **_: ()  # without a completer, argcomplete completes files
    return parser


def _list_choices(annotation: Any) -> Sequence[str]:
    """List the values of a type that has few of them; none of any other."""
    if annotation is bool:
        return ("true", "false")
    if get_origin(annotation) is Literal:
        return [*map(str, get_args(annotation))]
    return ()


def _complete_words_or_files(words: Sequence[str], prefix: str, **_: object) -> Sequence[str]:
    """Complete a setting's words, and files once a name has begun."""
    from argcomplete.completers import FilesCompleter  # late: it is an extra

    return [*words, *(FilesCompleter()(prefix) if prefix else ())]


def _complete_presets_or_files(prefix: str, **_: object) -> Mapping[str, str]:
    from argcomplete.completers import FilesCompleter  # late: it is an extra

    files: list[str] = list(FilesCompleter(["yaml", "yml"])(prefix))
    return {**dict.fromkeys(files, "file"), **dict.fromkeys(list_presets(prefix), "preset")}
