"""The settings of each command: all, and those that are not a judge's.

    python -m tests.house.settings

prints their number for each verb of each environment, for `score` and for `judge-server`, and the
options of the commands with a small parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from judgegym.cli.commands import COMMANDS, load_installed_commands
from judgegym.cli.environments import built_in_modules, load_environment
from judgegym.datasets.sample import USED_BY
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.command_line.arguments import make_settings_type
from judgegym.environments.command_line.program import VERBS
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import DeclaredSetting, declared_settings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.server.settings import RewardServerSettings


def is_of_judge(setting: DeclaredSetting) -> bool:
    """Whether it is a setting of a judge; those of the policy under `openai` have some names in common."""
    return not setting.name.startswith("openai.") and (
        setting.field in expand_choices(AnyJudgeSettings).model_fields or setting.group == "judge"
    )


def settings_of(model: Any, verb: str | None = None) -> tuple[Sequence[str], Sequence[str]]:
    """The dotted names of the settings that a verb uses: all, and those that are not a judge's."""
    declared = [*declared_settings(expand_choices(model), verb=verb)]
    return [each.name for each in declared], [
        each.name for each in declared if not is_of_judge(each)
    ]


def settings_of_verb(verb: Verb, environment: str) -> tuple[Sequence[str], Sequence[str]]:
    """The same of a verb of an environment."""
    return settings_of(make_settings_type(load_environment(environment)), verb)


def lines() -> Iterator[str]:
    """What is printed: a command, the number of its settings, and of those that are not a judge's."""
    for verb in VERBS:
        for environment in built_in_modules():
            every, others = settings_of_verb(verb, environment)
            yield f"{f'{verb} {environment}':<32}{len(every):>6}{len(others):>6}"
    for name, model, used_by in (
        ("score", ScoreSettings, USED_BY),
        ("judge-server", RewardServerSettings, None),
    ):
        every, others = settings_of(model, used_by)
        yield f"{name:<32}{len(every):>6}{len(others):>6}"
    for name, command in {**COMMANDS, **load_installed_commands()[0]}.items():
        if name not in ("score", "judge-server") and name not in VERBS:
            flags = [
                each for each in command.load().make_parser(name)._actions if each.option_strings
            ]
            yield f"{name:<32}{len(flags):>6}"


if __name__ == "__main__":
    print("\n".join(lines()))
