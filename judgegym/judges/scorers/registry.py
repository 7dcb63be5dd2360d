"""The kinds of judges: one line in `JUDGES` for each, and all that commands know of them.

A further judge is a module with its settings, prompt, parser, case and judge, and a `JudgeDefinition`; with its line
here `score`, the server, plans and `--help` have it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, field_validator

from judgegym.judges import pairwise, peers
from judgegym.judges.aspects import judge as aspects
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.checklists import judge as checklists
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings, PromptLayout, PromptLayoutSettings
from judgegym.judges.config.sources import LoadedSettings, SettingsT
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.tasks import TaskJudge
from judgegym.judges.listwise import judge as listwise
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.pairwise import ChoiceJudgeSettings
from judgegym.judges.peers import PeerJudgeSettings
from judgegym.judges.rubrics import judge as rubrics
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.judges.tournament import progress as tournament
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

JUDGES: Mapping[str, JudgeDefinition] = {
    "rubric": rubrics.JUDGE,
    "aspect": aspects.JUDGE,
    "checklist": checklists.JUDGE,
    "peer": peers.JUDGE,
    "arena_hard": tournament.ARENA_JUDGE,
    "choice": pairwise.JUDGE,
    "listwise": listwise.JUDGE,
    "tournament": tournament.JUDGE,
}
"""The kinds of judges, by their names after `--judge`."""

TASK_FIELDS: Mapping[str, frozenset[str]] = {
    name: frozenset(kind for kind, judge in JUDGES.items() if name in judge.fields)
    for name in ("reference", "rubric", "aspects", "baseline", "context", "criteria")
}
"""The fields of a task beside prompt and responses, and the judges that are shown each of them."""
MOST_TOGETHER: Mapping[str, int] = {
    kind: judge.most_together for kind, judge in JUDGES.items() if judge.most_together is not None
}
"""The most responses that a judge which compares them takes together."""
SINGLE = tuple(kind for kind in JUDGES if kind not in MOST_TOGETHER)
"""The judges that see each response by itself."""


def about(kinds: Collection[str]) -> str:
    """What the setting `judge` does, for `--help`."""
    return f"Judge in this way. {'. '.join(f'{kind}: {JUDGES[kind].about}' for kind in kinds)}."


if TYPE_CHECKING:
    JudgeKind: TypeAlias = str
    SingleKind: TypeAlias = str

    class _SettingsOfAll(
        TournamentSettings,
        AspectJudgeSettings,
        ChecklistJudgeSettings,
        ChoiceJudgeSettings,
        ListwiseJudgeSettings,
        PeerJudgeSettings,
        RubricJudgeSettings,
    ):
        """The settings of all kinds."""
else:
    JudgeKind = Literal[tuple(JUDGES)]
    SingleKind = Literal[SINGLE]
    _found = [judge.settings for judge in reversed(JUDGES.values())]
    _bases = [one for one in _found if not any(one in other.__mro__[1:] for other in _found)]
    _SettingsOfAll = type("_SettingsOfAll", tuple(_bases), {"__module__": __name__})


class KindSettings(BaseModel, use_attribute_docstrings=True):
    """Which judge it is, and the criteria of judges that take a text."""

    help_group: ClassVar[str] = "judge"

    judge: JudgeKind = setting("rubric", about(JUDGES), common=True)
    rubric: TextOrFile | None = setting(
        None,
        f"Use this rubric where the data has none (judges "
        f"{', '.join(kind for kind, judge in JUDGES.items() if judge.reads_rubric)}); @file reads it from a file. "
        "If unset, a general rubric.",
    )

    @field_validator("judge", mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        """`arena` is Arena-Hard's judge, whatever the benchmark's name."""
        return "arena_hard" if value == "arena" else value


class ScorerSettings(_SettingsOfAll, KindSettings):
    """A judge: its kind, and the settings of all kinds under the names that the environments have.

    >>> ScorerSettings(judge="aspect", aspects="harmfulness", strictness=3).judge_temperature
    0.7
    """

    help_group: ClassVar[str] = "judge"

    def vote_count(self) -> int:
        """The number of votes that a judge of this kind takes."""
        return JUDGES[self.judge].settings.vote_count(self)

    def usual_layout(self) -> PromptLayout:
        """The layout of the prompt if none is chosen."""
        own = JUDGES[self.judge].settings
        return own.usual_layout(self) if issubclass(own, PromptLayoutSettings) else "published"

    def built_in_prompt(self) -> str:
        """The built-in prompt of a judge of this kind."""
        return JUDGES[self.judge].settings.built_in_prompt(self)


def open_judge(settings: ScorerSettings, client: ChatClient) -> TaskJudge:
    """The judge that the settings name."""
    return JUDGES[settings.judge].judge(settings, client, settings.rubric)


def kinds_that_read(name: str) -> frozenset[str]:
    """The kinds of judges that read a setting of `ScorerSettings`."""
    if name == "rubric":
        return frozenset(kind for kind, judge in JUDGES.items() if judge.reads_rubric)
    if name in KindSettings.model_fields or name in JudgeSettings.model_fields:
        return frozenset(JUDGES)
    reading = {kind for kind, judge in JUDGES.items() if name in judge.settings.model_fields}
    return frozenset(reading | {"arena_hard"} if "tournament" in reading else reading)


def check_flags_are_read(loaded: LoadedSettings[SettingsT], judges: Collection[str]) -> None:
    """Check that one of the judges reads each of their settings that the command line gives another value.

    Raises:
        SettingsError: none of them does.
    """
    for name in sorted(ScorerSettings.model_fields):
        reading = kinds_that_read(name)
        if loaded.origins.get(name) != "command line" or reading & {*judges}:
            continue
        if getattr(loaded.settings, name) != ScorerSettings.model_fields[name].get_default(call_default_factory=True):
            words = " or ".join(f"--judge={kind}" for kind in JUDGES if kind in reading)
            raise SettingsError(f"--{name} (command line): nothing reads it without {words}")
