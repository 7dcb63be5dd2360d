"""Tables of settings, made from the classes that declare them, in the words of `--help_all`.

Kinds: `command` (the flags of `evaluate`, `serve` and `process`), `openai`, `env GROUP …` (those of
every environment), `groups` (judged together), `own ENVIRONMENT` (its own, and those whose default
it changes), `judge-server GROUP …`, `score GROUP …`, `attack GROUP …`, `flags COMMAND` (any other
command of `judgegym`) and `judge KIND …` (what only judges of these kinds have, as `score` takes
it).
"""

from __future__ import annotations

import argparse
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
from judgegym.environments.command_line.arguments import list_process_defaults, make_settings_type
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import DeclaredSetting, declared_settings, format_default
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.reading.help import sort_by_use
from judgegym.judges.config.sources import SourcedSettings
from judgegym.judges.scorers.registry import JUDGES
from judgegym.server.settings import RewardServerSettings
from judgegym_trials.attacks.settings import AttackSettings

_CODE = re.compile(r"(`[^`]+`)")
_OF_PROCESS = list_process_defaults("ENVIRONMENT")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        name: the setting, as it is typed.
        kind: the kind of its value, or its values with `|` between them.
        default: its default; empty where that is empty or unset.
        about: what it does.
        facts: which commands use it, and whether a resumed run may change it.
    """

    name: str
    kind: str
    default: str
    about: str
    facts: str = ""


def settings_table(words: str) -> str:
    """Return a table in Markdown of the settings of a kind."""
    kind, *names = words.split()
    rows = _KINDS[kind](*names)
    table = ["| setting | value | default | what it does |", "|---|---|---|---|", *map(_row, rows)]
    return "\n".join(['<div class="settings" markdown="1">', "", *table, "", "</div>"])


def _row(row: Row) -> str:
    kind = ", ".join(map(_code, row.kind.split("|")))
    facts = f" *{row.facts}*" if row.facts else ""
    cells = (_code(row.name), kind, _code(row.default), _text(row.about) + facts)
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """A text as code in a cell of a table."""
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def _text(text: str) -> str:
    """A text in a cell of a table, in which only code between back ticks has a meaning."""
    parts = _CODE.split(text)
    plain = [part if part.startswith("`") else re.sub(r"([*<\[])", r"\\\1", part) for part in parts]
    return "".join(plain).replace("|", r"\|")


def _command() -> Iterator[Row]:
    settings = make_settings_type(load_environment("arena_hard"))
    return _rows(setting for setting in declared_settings(settings) if "." not in setting.name)


def _openai() -> Iterator[Row]:
    return _rows(declared_settings(PolicySettings, "openai."))


def _env(*groups: str) -> Iterator[Row]:
    return _rows(
        setting for setting in declared_settings(EnvConfig, "env.") if setting.group in groups
    )


def _groups() -> Iterator[Row]:
    model = expand_choices(load_environment("aspect_critique").config_type)
    own = _of_groups() - EnvConfig.model_fields.keys()
    return _rows(setting for setting in declared_settings(model, "env.") if setting.field in own)


def _of_groups() -> set[str]:
    return {*expand_choices(GroupJudgeSettings).model_fields}


def _own(environment: str) -> Iterator[Row]:
    """Settings that not every environment has, and those of all with a default of its own."""
    model = expand_choices(load_environment(environment).config_type)
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
    yield from _rows(own)
    for row, setting in zip(_rows(changed), sort_by_use(changed), strict=True):
        elsewhere = format_default(everywhere[setting.field].default) or "unset"
        yield Row(
            row.name, row.kind, row.default, f"{row.about} (Elsewhere: {elsewhere}.)", row.facts
        )


def _flat(
    settings: type[SourcedSettings], most_used: Sequence[str] = ()
) -> Callable[..., Iterator[Row]]:
    """The rows of a command whose settings have no `env`."""

    def rows(*groups: str) -> Iterator[Row]:
        return _rows(
            (
                each
                for each in declared_settings(expand_choices(settings), verb=USED_BY)
                if each.group in groups
            ),
            most_used=most_used,
        )

    return rows


def _judge(*kinds: str) -> Iterator[Row]:
    """The settings that only judges of these kinds have."""
    models = [JUDGES[kind].group_settings or JUDGES[kind].settings for kind in kinds]
    own = {
        field for model in models for field in model.model_fields
    } - JudgeSettings.model_fields.keys()
    return _rows(
        each for each in declared_settings(expand_choices(ScoreSettings)) if each.field in own
    )


def _flags(command: str) -> Iterator[Row]:
    """The arguments of a command that has a parser of its own."""
    entry = find_command(command)
    assert entry is not None, command
    for action in (
        entry.load().make_parser(f"judgegym {command}")._actions
    ):  # argparse has no public list
        if action.dest == "help":
            continue
        name = (
            action.option_strings[-1].removeprefix("--")
            if action.option_strings
            else str(action.metavar or action.dest)
        )
        default = "" if action.default in (None, False, argparse.SUPPRESS) else str(action.default)
        about = (action.help or "").replace(" (default: %(default)s)", "").replace("%%", "%")
        yield Row(name, _make_label_converter(action), default, _sentence(about))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{' '.join(text[1:].split())}."


def _make_label_converter(action: argparse.Action) -> str:
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    if action.nargs == 0:
        return "a switch"
    if isinstance(action.metavar, str) and action.option_strings:
        return action.metavar
    return (
        {int: "INT", float: "NUMBER"}.get(action.type, "TEXT")
        if isinstance(action.type, type)
        else "TEXT"
    )


def _rows(settings: Iterable[DeclaredSetting], *, most_used: Sequence[str] = ()) -> Iterator[Row]:
    for setting in sort_by_use(settings, most_used):
        name, kind, default, about = _cells(setting)
        if name.startswith("env.") and setting.field in _OF_PROCESS:
            about += f" (process: {format_default(_OF_PROCESS[setting.field])}.)"
        yield Row(name, kind, default, about, _facts(setting))


def _cells(setting: DeclaredSetting) -> tuple[str, str, str, str]:
    return setting.name, setting.kind, format_default(setting.default), setting.about


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
    "judge-server": _flat(RewardServerSettings),
    "score": _flat(ScoreSettings, MOST_USED),
    "attack": _flat(AttackSettings),
    "flags": _flags,
    "judge": _judge,
}
