"""The settings of a judge of any kind: which kind it is, and the settings of all kinds under one set of names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Literal

from pydantic import BaseModel, field_validator

from judgegym.judges.arena.settings import ArenaJudgeSettings
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.prompt_layout import PromptLayout
from judgegym.judges.config.sources import LoadedSettings, SettingsT
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.pairwise.judge import MOST_CHOICES, ChoiceJudgeSettings
from judgegym.judges.peers.judge import PeerJudgeSettings
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.judges.tournament.game import TournamentSettings
from judgegym.llm.errors import SettingsError

JudgeKind = Literal["rubric", "aspect", "peer", "arena_hard", "choice", "listwise", "tournament"]
MOST_TOGETHER: Mapping[JudgeKind, int] = {"listwise": 256, "tournament": 64, "arena_hard": 64, "choice": MOST_CHOICES}
"""The most responses that a judge which compares them takes together; 64 in all pairs are 2,016 pairs of two games."""


class KindSettings(BaseModel):
    """Which judge it is, and the criteria of judges that take a text."""

    help_group: ClassVar[str] = "judge"

    judge: JudgeKind = setting(
        "rubric",
        "Judge in this way. rubric: score on a scale by a rubric. aspect: yes/no questions. peer: score from 0 to 100 "
        "by a rubric. arena_hard: win rate against a baseline; without one as tournament. Three compare several "
        "responses to one prompt: listwise: a score for each, in one call; tournament: games between pairs, many calls "
        "(--schedule); choice: 1 for the best, 0 for the others.",
        common=True,
    )
    rubric: TextOrFile | None = setting(
        None,
        "Use this rubric where the data has none (judges rubric, peer, listwise, tournament); @file reads it from a "
        "file. If unset, a general rubric.",
    )

    @field_validator("judge", mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        """`arena` is Arena-Hard's judge, whatever the benchmark's name."""
        return "arena_hard" if value == "arena" else value


class ScorerSettings(
    TournamentSettings,
    AspectJudgeSettings,
    ChoiceJudgeSettings,
    ListwiseJudgeSettings,
    PeerJudgeSettings,
    RubricJudgeSettings,
    KindSettings,
):
    """A judge: its kind, and the settings of all kinds under the names that the environments have.

    >>> ScorerSettings(judge="aspect", aspects="harmfulness", strictness=3).judge_temperature
    0.7
    """

    help_group: ClassVar[str] = "judge"
    how_to_gather: ClassVar[str] = ""
    """How single responses come to be judged together, for the message about a response that is alone."""

    @property
    def gathers(self) -> bool:
        """Whether single responses are gathered, so that the judge must be able to compare them."""
        return False

    def vote_count(self) -> int:
        """The number of votes that a judge of this kind takes."""
        return SETTINGS_OF_KINDS[self.judge].vote_count(self)

    def usual_layout(self) -> PromptLayout:
        """The layout of the prompt if none is chosen."""
        return "published" if self.judge != "aspect" else AspectJudgeSettings.usual_layout(self)

    def built_in_prompt(self) -> str:
        """The built-in prompt of a judge of this kind."""
        return SETTINGS_OF_KINDS[self.judge].built_in_prompt(self)


SETTINGS_OF_KINDS: Mapping[JudgeKind, type[JudgeSettings]] = {
    "rubric": RubricJudgeSettings,
    "aspect": AspectJudgeSettings,
    "peer": PeerJudgeSettings,
    "arena_hard": ArenaJudgeSettings,
    "choice": ChoiceJudgeSettings,
    "listwise": ListwiseJudgeSettings,
    "tournament": TournamentSettings,
}
"""The settings that a judge of each kind reads."""

_READ_RUBRICS: frozenset[JudgeKind] = frozenset(("rubric", "peer", "listwise", "tournament"))


def kinds_that_read(name: str) -> frozenset[JudgeKind]:
    """The kinds of judges that read a setting of `ScorerSettings`."""
    if name == "rubric":
        return _READ_RUBRICS
    if name in KindSettings.model_fields or name in JudgeSettings.model_fields:
        return frozenset(SETTINGS_OF_KINDS)
    reading = {kind for kind, settings in SETTINGS_OF_KINDS.items() if name in settings.model_fields}
    return frozenset(reading | {"arena_hard"} if "tournament" in reading else reading)


def check_flags_are_read(loaded: LoadedSettings[SettingsT], judges: Collection[JudgeKind]) -> None:
    """Check that one of the judges reads each of their settings that the command line gives another value.

    Raises:
        SettingsError: none of them does.
    """
    for name in sorted(ScorerSettings.model_fields):
        reading = kinds_that_read(name)
        if loaded.origins.get(name) != "command line" or reading & {*judges}:
            continue
        if getattr(loaded.settings, name) != ScorerSettings.model_fields[name].get_default(call_default_factory=True):
            words = " or ".join(f"--judge={kind}" for kind in SETTINGS_OF_KINDS if kind in reading)
            raise SettingsError(f"--{name} (command line): nothing reads it without {words}")
