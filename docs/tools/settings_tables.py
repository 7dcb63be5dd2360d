"""Tables of settings, made from the classes that declare them, in place of a page's markers.

    <!-- settings: env policy -->

is replaced by a table of the settings of that kind, in the words of `--help_all`. Kinds: `command` (the flags of
`evaluate`, `serve` and `process`), `openai`, `env GROUP …` (those of every environment), `groups` (judged together),
`own ENVIRONMENT` (its own, and those whose default it changes), `judge-server GROUP …`, `score GROUP …`,
`attack GROUP …`, and `flags COMMAND` (any other command of `judgegym`).
"""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from judgegym.cli.commands import find_command
from judgegym.cli.environments import load_environment
from judgegym.datasets.sample import USED_BY
from judgegym.datasets.score.command import MOST_USED
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.settings.env import EnvConfig
from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.engine.settings.policy import PolicySettings
from judgegym.environments.command_line.arguments import process_defaults, settings_type
from judgegym.judges.config.composed import with_all_choices
from judgegym.judges.config.fields import DeclaredSetting, declared_settings, in_words
from judgegym.judges.config.reading.help import in_order_of_use
from judgegym.judges.config.sources import SourcedSettings
from judgegym.server.settings import RewardServerSettings
from judgegym_trials.attacks.settings import AttackSettings

_MARKER = re.compile(r"^<!-- settings: (?P<kind>[\w-]+)(?P<words>(?: [\w-]+)*) -->$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_OF_PROCESS = process_defaults("ENVIRONMENT")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        anchor: its id on the page.
        name: the setting, as it is typed.
        kind: the kind of its value, or its values with `|` between them.
        default: its default; empty where that is empty or unset.
        about: what it does.
        facts: which commands use it, and whether a resumed run may change it.
    """

    anchor: str
    name: str
    kind: str
    default: str
    about: str
    facts: str = ""


def with_tables(markdown: str) -> str:
    """A page with tables in place of its markers."""
    return _MARKER.sub(lambda found: _table(_KINDS[found["kind"]](*found["words"].split())), markdown)


def _table(rows: Iterable[Row]) -> str:
    """HTML, since texts of settings hold what Markdown would take for its own."""
    head = "".join(f"<th>{title}</th>" for title in ("setting", "value", "default", "what it does"))
    body = "".join(map(_row, rows))
    return f'<div class="settings"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(row: Row) -> str:
    kind = ", ".join(f"<code>{html.escape(word)}</code>" for word in row.kind.split("|"))
    default = f"<code>{html.escape(row.default)}</code>" if row.default else ""
    about = _CODE.sub(r"<code>\1</code>", html.escape(row.about, quote=False))
    facts = f" <em>{html.escape(row.facts)}</em>" if row.facts else ""
    name = html.escape(row.name).replace("_", "_<wbr>").replace(".", ".<wbr>")
    cells = (f"<code>{name}</code>", kind, default, about + facts)
    return f'<tr id="{row.anchor}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _command() -> Iterator[Row]:
    settings = settings_type(load_environment("arena_hard"))
    return _rows(setting for setting in declared_settings(settings) if "." not in setting.name)


def _openai() -> Iterator[Row]:
    return _rows(declared_settings(PolicySettings, "openai."))


def _env(*groups: str) -> Iterator[Row]:
    return _rows(setting for setting in declared_settings(EnvConfig, "env.") if setting.group in groups)


def _groups() -> Iterator[Row]:
    model = with_all_choices(load_environment("aspect_critique").config_type)
    own = _of_groups() - EnvConfig.model_fields.keys()
    return _rows(setting for setting in declared_settings(model, "env.") if setting.field in own)


def _of_groups() -> set[str]:
    return {*with_all_choices(GroupJudgeSettings).model_fields}


def _own(environment: str) -> Iterator[Row]:
    """Settings that not every environment has, and those of all with a default of its own."""
    model = with_all_choices(load_environment(environment).config_type)
    shared = set(EnvConfig.model_fields)
    if issubclass(model, GroupJudgeSettings):
        shared |= _of_groups() - model.answer_judge.model_fields.keys()
    everywhere = {setting.field: setting for setting in declared_settings(EnvConfig, "env.")}
    own = [setting for setting in declared_settings(model, "env.") if setting.field not in shared]
    changed = [
        setting
        for setting in declared_settings(model, "env.")
        if setting.field in everywhere and _cells(setting) != _cells(everywhere[setting.field])
    ]
    yield from _rows(own, anchor=f"{environment}.")
    for row, setting in zip(_rows(changed, anchor=f"{environment}."), in_order_of_use(changed), strict=True):
        elsewhere = in_words(everywhere[setting.field].default) or "unset"
        yield Row(row.anchor, row.name, row.kind, row.default, f"{row.about} (Elsewhere: {elsewhere}.)", row.facts)


def _flat(settings: type[SourcedSettings], command: str, most_used: Sequence[str] = ()) -> Callable[..., Iterator[Row]]:
    """The rows of a command whose settings have no `env`."""

    def rows(*groups: str) -> Iterator[Row]:
        return _rows(
            (each for each in declared_settings(with_all_choices(settings), verb=USED_BY) if each.group in groups),
            anchor=f"{command}.",
            most_used=most_used,
        )

    return rows


def _flags(command: str) -> Iterator[Row]:
    """The arguments of a command that has a parser of its own."""
    entry = find_command(command)
    assert entry is not None, command
    for action in entry.load().parser_of(f"judgegym {command}")._actions:  # argparse has no public list
        if action.dest == "help":
            continue
        name = (
            action.option_strings[-1].removeprefix("--")
            if action.option_strings
            else str(action.metavar or action.dest)
        )
        default = "" if action.default in (None, False, argparse.SUPPRESS) else str(action.default)
        about = (action.help or "").replace(" (default: %(default)s)", "").replace("%%", "%")
        yield Row(f"{command}.{name.lower()}", name, _kind_of(action), default, _sentence(about))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{' '.join(text[1:].split())}."


def _kind_of(action: argparse.Action) -> str:
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    if action.nargs == 0:
        return "a switch"
    if isinstance(action.metavar, str) and action.option_strings:
        return action.metavar
    return {int: "INT", float: "NUMBER"}.get(action.type, "TEXT") if isinstance(action.type, type) else "TEXT"


def _rows(settings: Iterable[DeclaredSetting], *, anchor: str = "", most_used: Sequence[str] = ()) -> Iterator[Row]:
    for setting in in_order_of_use(settings, most_used):
        name, kind, default, about = _cells(setting)
        if name.startswith("env.") and setting.field in _OF_PROCESS:
            about += f" (process: {in_words(_OF_PROCESS[setting.field])}.)"
        yield Row(anchor + name, name, kind, default, about, _facts(setting))


def _cells(setting: DeclaredSetting) -> tuple[str, str, str, str]:
    return setting.name, setting.kind, in_words(setting.default), setting.about


def _facts(setting: DeclaredSetting) -> str:
    verbs = ", ".join(setting.verbs)
    resumable = "may change on --resume" if setting.is_operational else ""
    return f"({'; '.join(filter(None, (verbs, resumable)))})" if verbs or resumable else ""


_KINDS: dict[str, Callable[..., Iterator[Row]]] = {
    "command": _command,
    "openai": _openai,
    "env": _env,
    "groups": _groups,
    "own": _own,
    "judge-server": _flat(RewardServerSettings, "judge-server"),
    "score": _flat(ScoreSettings, "score", MOST_USED),
    "attack": _flat(AttackSettings, "attack"),
    "flags": _flags,
}
