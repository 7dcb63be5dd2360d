"""The registry of kinds of judges: built-in ones, those of packages, and users' Python files.

To add a judge, write a module with its settings, prompt, parser and judge, and a `JudgeDefinition`.
An entry point of the group `judgegym.judges`, or `--judge=FILE.py:NAME`, makes it available in
every command.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from pydantic import BaseModel

from judgegym.judges import pairwise, peers
from judgegym.judges.aspects import judge as aspects
from judgegym.judges.checklists import judge as checklists
from judgegym.judges.config.composed import ChoiceHelp
from judgegym.judges.config.fields import DeclaredSetting
from judgegym.judges.config.judge import FLAT_NAMES, JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.judgment import Scale
from judgegym.judges.listwise import judge as listwise
from judgegym.judges.parts import cascade, composite, jury, steps
from judgegym.judges.prompt_files import judge as prompt_files
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.reward_models import judge as reward_models
from judgegym.judges.rubrics import judge as rubrics
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.judges.rules import judge as rules
from judgegym.judges.scorers.own_kinds import is_python_name, load_entry_point, load_python_name
from judgegym.judges.tournament import progress as tournament

DEFAULT_KIND, PROMPT_KIND = "rubric", "prompt"
"""The default kind, and the kind of prompt files."""
JUDGES: Mapping[str, JudgeDefinition] = {
    DEFAULT_KIND: rubrics.JUDGE,
    "aspect": aspects.JUDGE,
    "checklist": checklists.JUDGE,
    "peer": peers.JUDGE,
    "arena_hard": tournament.ARENA_JUDGE,
    "choice": pairwise.JUDGE,
    "listwise": listwise.JUDGE,
    "tournament": tournament.JUDGE,
    "reward_model": reward_models.JUDGE,
    "rule": rules.JUDGE,
    PROMPT_KIND: prompt_files.JUDGE,
    "composite": composite.JUDGE,
    "jury": jury.JUDGE,
    "cascade": cascade.JUDGE,
    "steps": steps.JUDGE,
}
"""The built-in kinds of judges, by their names after `--judge`."""
_COMMON_SETTINGS = frozenset(("judge", "judge_conversation_limit"))
"""Settings of every kind of judge, beside those that environments have, too."""
_ALIASES: Mapping[str, str] = {"arena": "arena_hard"}
"""Aliases: `arena` is Arena-Hard's judge, after the benchmark."""
_loaded: dict[str, JudgeDefinition] = {}
"""Loaded kinds that are not built in."""

_CALL_SETTINGS = frozenset((*FLAT_NAMES.values(), "judge_cache"))
_HELP_GROUP = "judge"
"""The help group of a judge's settings; settings of other groups belong to the run, such as the
seed."""

TASK_FIELDS: Mapping[str, frozenset[str]] = {
    name: frozenset(kind for kind, judge in JUDGES.items() if name in judge.fields)
    for name in ("reference", "rubric", "aspects", "baseline", "context", "criteria")
}
"""The optional fields of a task, and the built-in judges that each is shown to."""
COMPARING_KINDS = tuple(kind for kind, judge in JUDGES.items() if judge.most_together is not None)
"""The built-in judges that compare responses."""
SINGLE_KINDS = tuple(kind for kind in JUDGES if kind not in COMPARING_KINDS)
"""The built-in judges that see each response by itself."""
COMPOSED_KINDS = tuple(kind for kind, judge in JUDGES.items() if judge.parts is not None)
"""The built-in composed judges."""


def built_in_kind(settings: type[JudgeSettings]) -> str:
    """Return the name of the built-in kind with these settings."""
    return next(kind for kind, judge in JUDGES.items() if judge.settings is settings)


def kind_name(value: object) -> object:
    """Resolve an alias to the name of a kind."""
    if isinstance(value, str):
        return _ALIASES.get(value, value)
    return value


def find_definition(kind: str) -> JudgeDefinition:
    """Return the kind of judge with this name: built in, of a package, or `FILE.py:NAME`.

    Raises:
        ValueError: there is no such kind, or it cannot be loaded.
    """
    if kind in JUDGES:
        return JUDGES[kind]
    if kind not in _loaded:
        loaded = load_python_name(kind) if is_python_name(kind) else load_entry_point(kind, JUDGES)
        if loaded is None:
            suggestion = _suggest_kind(kind)
            raise ValueError(f"there is no judge {kind!r}{suggestion}")
        _loaded[kind] = loaded
    return _loaded[kind]


def is_kind(kind: object) -> bool:
    """Return whether there is a kind of judge with this name."""
    try:
        return isinstance(kind, str) and find_definition(kind) is not None
    except ValueError:
        return False


def all_kinds() -> Mapping[str, JudgeDefinition]:
    """Return the built-in kinds and the loaded ones, by name."""
    return {**JUDGES, **_loaded}


def _suggest_kind(kind: str) -> str:
    close = difflib.get_close_matches(kind, JUDGES, n=1)
    if close:
        return f", did you mean {close[0]}?"
    judge_list = ", ".join(JUDGES)
    return f"; expected one of {judge_list}, FILE.yaml or FILE.py:NAME"


def check_is_single(kind: object, location: str, *, baselines: bool = False) -> None:
    """Check that judges of a kind see each response by itself.

    Args:
        kind: the name of the kind.
        location: the setting that holds it, for messages.
        baselines: also accept judges that compare each response with a baseline.

    Raises:
        ValueError: they compare responses, or there is no such kind.
    """
    try:
        judge = find_definition(kind) if isinstance(kind, str) else None
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from None
    usable = {
        name for name, kind_definition in JUDGES.items() if _is_single(kind_definition, baselines)
    }
    if judge is None or not _is_single(judge, baselines):
        expected = ", ".join(name for name in JUDGES if name in usable)
        raise ValueError(
            f"{location}: expected one that sees each response by itself ({expected}), found "
            f"{kind!r}"
        )


def _is_single(judge: JudgeDefinition, baselines: bool) -> bool:
    if baselines:
        return not judge.needs_group
    return judge.most_together is None


def reads_setting(kind: str, name: str) -> bool:
    """Return whether judges of a kind read a setting."""
    judge = find_definition(kind)
    if name == "rubric":
        return judge.reads_rubric or judge.parts is not None
    if name in JudgeSettings.model_fields or name in _COMMON_SETTINGS:
        return name not in judge.unused_settings and (
            judge.asks_endpoint or not name.startswith("judge_")
        )
    return name in (judge.group_settings or judge.settings).model_fields


def find_scale(kind: str, settings: JudgeSettings) -> Scale | None:
    """Return the scale of a judge's raw scores.

    `None` for judges without levels, or with levels for each row.
    """
    if kind == PROMPT_KIND and isinstance(settings, PromptJudgeSettings):
        return settings.prompt_file.labels.scale
    is_rubric = find_definition(kind).settings is RubricJudgeSettings
    if is_rubric and isinstance(settings, RubricJudgeSettings):
        return settings.scale
    return None


def describe_scale(kind: str, scale: Scale) -> str:
    """Describe a judge's scale and the settings that define it, for messages."""
    if kind == PROMPT_KIND:
        source = "the prompt file"
    else:
        source = "--scale_min, --scale_max"
    return f"{scale.low} to {scale.high} ({source})"


def describe_kinds(kinds: Collection[str]) -> str:
    """Return the help text of the setting `judge`."""
    return (
        f"Judge in this way. {'. '.join(f'{kind}: {JUDGES[kind].about}' for kind in kinds)}. Or a "
        "judge of your own: a "
        "prompt file, FILE.yaml; a judge in Python, FILE.py:NAME; or the name that an installed "
        "package has for one."
    )


def make_kind_help(kind: str, settings: type[BaseModel]) -> ChoiceHelp:
    """Make the page of `--judge KIND --help`.

    It lists the settings of the kind, those of every judge, and those of its model.

    Args:
        kind: its name.
        settings: the composed settings of a host that have those of the kind.
    """
    judge = find_definition(kind)
    declared = (
        DeclaredSetting(name, settings, name)
        for name in settings.model_fields
        if reads_setting(kind, name)
    )
    declared_settings = {field.name: field for field in declared if field.group == _HELP_GROUP}
    declared_settings.pop("judge", None)
    kind_settings = judge.group_settings or judge.settings
    kind_fields = kind_settings.model_fields.keys() - JudgeSettings.model_fields.keys()
    if judge.reads_rubric:
        kind_fields = kind_fields | {"rubric"}
    own_settings = [name for name in declared_settings if name in kind_fields]
    own_settings.sort(key=lambda name: (name != "rubric", not declared_settings[name].is_common))
    calls = [name for name in declared_settings if name in _CALL_SETTINGS]
    common = [name for name in calls if declared_settings[name].is_common]
    shared = [name for name in declared_settings if name not in {*own_settings, *calls}]
    common_title, model_title = "what every judge has", "the model that it asks"
    if judge.parts is not None:
        common_title = "what its judges have, unless they say otherwise"
        model_title = "the model that they ask, unless they do"
    groups = {f"{kind}: {judge.about}": own_settings, common_title: shared, model_title: common}
    hidden = [name for name in calls if name not in common]
    return ChoiceHelp(
        "judge", kind, {title: names for title, names in groups.items() if names}, hidden
    )
