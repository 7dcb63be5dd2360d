"""One judge of the reward server: its kind, the settings of all kinds, and how single responses are gathered for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from judges.arena.settings import ArenaJudgeSettings
from judges.aspects.settings import AspectJudgeSettings
from judges.config.fields import setting
from judges.config.judge import JudgeSettings
from judges.config.prompt_layout import PromptLayout
from judges.config.text import TextOrFile
from judges.listwise.settings import ListwiseJudgeSettings
from judges.llm.errors import SettingsError
from judges.pairwise.prompt import MOST_CHOICES
from judges.pairwise.settings import ChoiceJudgeSettings
from judges.peers.settings import PeerJudgeSettings
from judges.rubrics.settings import RubricJudgeSettings
from judges.tournament.settings import TournamentSettings

JudgeKind = Literal["rubric", "aspect", "peer", "arena_hard", "choice", "listwise", "tournament"]
MOST_TOGETHER: Mapping[JudgeKind, int] = {"listwise": 256, "tournament": 64, "arena_hard": 64, "choice": MOST_CHOICES}
"""The most responses that a judge which compares them takes together; 64 in all pairs are 2,016 pairs of two games."""


class CohortPlan(NamedTuple):
    """How single responses are gathered: so many, for at most so many seconds."""

    size: int
    wait_s: float


class JudgeMount(
    TournamentSettings,
    AspectJudgeSettings,
    ChoiceJudgeSettings,
    ListwiseJudgeSettings,
    PeerJudgeSettings,
    RubricJudgeSettings,
):
    """One judge of the server: its kind, and the settings of all kinds under the names that the environments have.

    >>> JudgeMount(judge="aspect", aspects="harmfulness", strictness=3).judge_temperature
    0.7
    """

    help_group: ClassVar[str] = "judge"

    judge: JudgeKind = setting(
        "rubric",
        "Serve this kind of judge. rubric: score on a scale by a rubric. aspect: yes/no questions. peer: score from 0 "
        "to 100 by a rubric. arena_hard: win rate against a baseline, or as tournament. These compare the responses of "
        "one request, or with --group_size of several. listwise: a score for each, in one call. tournament: games "
        "between pairs, many calls (--schedule). choice: 1 for the best, 0 for the others.",
        common=True,
    )
    rubric: TextOrFile | None = setting(
        None,
        "Use this rubric for requests without one (judges rubric, peer, listwise, tournament); @file reads it from a "
        "file. If unset, a general rubric.",
    )
    group_size: int | None = setting(
        None,
        "Gather responses to one prompt that arrive in requests of their own, until there are this many, and judge "
        "them together (judges listwise, tournament, arena_hard, choice). If unset, only those of one request.",
        ge=2,
        common=True,
    )
    group_wait: float | None = setting(
        None,
        "With --group_size: judge those that are there this many seconds after the first one; later ones are flagged "
        "as failed. The rest of the deadline is the judge's. If unset, half of --deadline.",
        gt=0,
    )

    def cohorts(self, deadline_s: float, prefix: str = "") -> CohortPlan | None:
        """How single responses are gathered; `None` if they are not.

        Args:
            deadline_s: seconds within which each response has a result.
            prefix: what an error begins with, before the name of the setting.

        Raises:
            SettingsError: the judge sees each response alone or takes fewer, or no time is left for it.
        """
        if self.group_size is None and self.group_wait is not None:
            raise SettingsError(f"{prefix}group_wait: nothing is gathered without {prefix}group_size")
        if self.group_size is None:
            return None
        most = MOST_TOGETHER.get(self.judge)
        if most is None:
            raise SettingsError(
                f"{prefix}group_size: the judge {self.judge} sees each response alone; those that compare responses "
                f"are {', '.join(MOST_TOGETHER)}"
            )
        if self.group_size > most:
            raise SettingsError(
                f"{prefix}group_size: the judge {self.judge} compares at most {most} responses, found {self.group_size}"
            )
        wait_s = deadline_s / 2 if self.group_wait is None else self.group_wait
        if wait_s >= deadline_s:
            raise SettingsError(
                f"{prefix}group_wait: expected less than the deadline of {deadline_s:g} s, of which the rest is the "
                f"judge's; found {wait_s:g}"
            )
        return CohortPlan(self.group_size, wait_s)

    def vote_count(self) -> int:
        """The number of votes that a judge of this kind takes."""
        return _SETTINGS[self.judge].vote_count(self)

    def usual_layout(self) -> PromptLayout:
        """The layout of the prompt if none is chosen."""
        return "published" if self.judge != "aspect" else AspectJudgeSettings.usual_layout(self)

    def built_in_prompt(self) -> str:
        """The built-in prompt of a judge of this kind."""
        return _SETTINGS[self.judge].built_in_prompt(self)


_SETTINGS: Mapping[JudgeKind, type[JudgeSettings]] = {
    "rubric": RubricJudgeSettings,
    "aspect": AspectJudgeSettings,
    "peer": PeerJudgeSettings,
    "arena_hard": ArenaJudgeSettings,
    "choice": ChoiceJudgeSettings,
    "listwise": ListwiseJudgeSettings,
    "tournament": TournamentSettings,
}
