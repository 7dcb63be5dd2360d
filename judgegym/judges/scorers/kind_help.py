"""What `--judge KIND --help` says: the settings of that kind, those of every judge, and those of the model it asks."""

from __future__ import annotations

from pydantic import BaseModel

from judgegym.judges.config.composed import ChoiceHelp
from judgegym.judges.config.fields import DeclaredSetting
from judgegym.judges.config.judge import FLAT_NAMES, JudgeSettings
from judgegym.judges.scorers.registry import definition, reads

_OF_CALLS = frozenset((*FLAT_NAMES.values(), "judge_cache"))
_GROUP = "judge"
"""The group of settings that are a judge's; those of another one are a run's, such as the seed."""


def kind_help(kind: str, settings: type[BaseModel]) -> ChoiceHelp:
    """What help says about a kind of judge.

    Args:
        kind: its name.
        settings: the composed settings of a host that have those of the kind.
    """
    judge = definition(kind)
    declared = (DeclaredSetting(name, settings, name) for name in settings.model_fields if reads(kind, name))
    listed = {each.name: each for each in declared if each.group == _GROUP and each.name != "judge"}
    of_kind = (judge.group_settings or judge.settings).model_fields.keys() - JudgeSettings.model_fields.keys()
    own = [name for name in listed if name in of_kind or (name == "rubric" and judge.reads_rubric)]
    own.sort(key=lambda name: (name != "rubric", not listed[name].is_common))
    calls = [name for name in listed if name in _OF_CALLS]
    common = [name for name in calls if listed[name].is_common]
    shared = [name for name in listed if name not in {*own, *calls}]
    whose, asked = "what every judge has", "the model that it asks"
    if judge.parts is not None:
        whose, asked = "what its judges have, unless they say otherwise", "the model that they ask, unless they do"
    groups = {f"{kind}: {judge.about}": own, whose: shared, asked: common}
    others = [name for name in calls if name not in common]
    return ChoiceHelp("judge", kind, {title: names for title, names in groups.items() if names}, others)
