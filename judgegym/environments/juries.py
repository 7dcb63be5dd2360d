"""A jury in place of an environment's own judge: members are that judge with other models, endpoints or settings.

Guarantees: those of `judgegym.judges.parts.jury`; each member sees the case that the environment makes, and the score
is on the environment's own scale. Parts of the detail that only one judge can have, such as two games, are those of the
member whose score is nearest to the jury's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from pydantic import model_validator
from typing_extensions import Self

from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.judges.arena import ArenaDetail
from judgegym.judges.config.judge import STAND_IN_IDENTITY
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.parts.jury import JuryJudge, JurySettings
from judgegym.judges.parts.part import Part, PartOptions
from judgegym.judges.rubrics.judge import RubricDetail
from judgegym.judges.scorers.registry import ScorerSettings, open_judge
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import ChatSettings

DetailT = TypeVar("DetailT")
_SHARED = frozenset({"scale_min", "scale_max"})
"""Settings that all members have from the environment, since its cases do."""


class CaseJurySettings(GroupJudgeSettings, JurySettings):
    """The members of a jury that judges answers, and how their scores make one.

    Class attributes:
        jury_of: the kind of judge that all members are.
    """

    jury_of: ClassVar[str]

    @model_validator(mode="after")
    def _judges_answers(self) -> Self:
        if not self.judges:
            return self
        others = [
            name for name in ("group_judge", "candidates_play") if getattr(self, name, None) not in (None, "none")
        ]
        if self.policy_is_judge or others:
            what = "role=judge" if self.policy_is_judge else others[0]
            raise ValueError(f"judges: a jury judges each answer by itself, so that nothing reads it with {what}")
        for name, fields in self.judges.items():
            if fields.get("judge", self.jury_of) != self.jury_of:
                raise ValueError(f"judges.{name}.judge: it is {self.jury_of} here; the environment prompts takes any")
            for shared in sorted(_SHARED & {*fields}):
                raise ValueError(f"judges.{name}.{shared}: all members have that of the environment")
        try:
            self.jury_settings()
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    def jury_settings(self) -> ScorerSettings:
        """Return the settings of the jury, as `judgegym score` has them.

        Raises:
            SettingsError: a member has a wrong one.
        """
        names = self.model_fields_set & {*self.answer_judge.model_fields, *JurySettings.model_fields}
        members = {name: {**fields, "judge": self.jury_of} for name, fields in self.judges.items()}
        given = {**{name: getattr(self, name) for name in names}, "judge": "jury", "judges": members}
        return settings_from_keywords(ScorerSettings, given)

    @property
    def without_effect(self) -> Mapping[str, Sequence[str]]:
        """Without a jury, how its members' scores make one."""
        names = [] if self.judges else [name for name in JurySettings.__annotations__ if name.startswith("jury_")]
        return {**super().without_effect, **dict.fromkeys(names, ("judges",))}

    def judge_name(self) -> str:
        """Who judges."""
        return self.jury_settings().judge_name() if self.judges else super().judge_name()

    def chat_settings(self, *, retry_delay: float = 1.0, identity: str = "", section: str = "env.") -> ChatSettings:
        """What the judge's client needs; of a jury, that of its first member."""
        if self.judges and identity != STAND_IN_IDENTITY:
            return self.jury_settings().chat_settings(retry_delay=retry_delay, identity=identity, section=section)
        return super().chat_settings(retry_delay=retry_delay, identity=identity, section=section)


class CaseJury(JuryJudge):
    """A jury that judges the cases of an environment's own judge."""

    @classmethod
    def open(cls, config: CaseJurySettings, client: ChatClient) -> CaseJury | None:
        """Open the jury that the settings name; `None` without one."""
        if not config.judges:
            return None
        settings = config.jury_settings()
        jury = open_judge(settings, client)
        assert isinstance(jury, JuryJudge)  # the settings name one
        return cls(settings, client, jury.parts)

    async def judgment_of(self, part: Part[PartOptions], task: Any) -> Judgment[Any]:
        """A member's judgment of a case."""
        judgment: Judgment[Any] = await part.judge.judge(task)
        return judgment

    async def judge_case(
        self,
        case: object,
        score: Callable[[float], float],
        detail: Callable[[Mapping[str, Judgment[Any]], float], DetailT],
    ) -> Judgment[DetailT]:
        """Judge a case.

        Args:
            case: of the members' judge.
            score: makes the jury's score, from 0 to 1, one of the environment.
            detail: makes the detail from the judgments of the members that have a score, and the jury's score.
        """
        found = await self.ask(self.parts, case)
        whole: Judgment[Any] = self.verdict(found)
        if whole.score is None:
            return replace(whole, detail=None)
        given = {name: judgment for name, judgment in found.items() if judgment.score is not None}
        return replace(whole, score=score(whole.score), detail=detail(given, whole.score))

    def units(self, given: Mapping[str, Judgment[Any]]) -> dict[str, float]:
        """Return the members' scores from 0 to 1."""
        return {name: each for name, each in self.unit_scores(given).items() if each is not None}

    def rubric_detail(self, given: Mapping[str, Judgment[RubricDetail]], score: float) -> JuryRubricDetail:
        """Return the judgments of all members, and their spread."""
        judgments = tuple(one for each in given.values() if each.detail is not None for one in each.detail.judgments)
        scores = [each.score for each in given.values() if each.score is not None]
        spread = statistics.stdev(scores) if len(scores) > 1 else None
        return JuryRubricDetail(judgments, spread, members=self.units(given))

    def arena_detail(self, given: Mapping[str, Judgment[ArenaDetail]], score: float) -> JuryArenaDetail:
        """Return the games of the member that is nearest to the jury, with the jury's score as both entries."""
        units = self.units(given)
        nearest = given[min(units, key=lambda name: abs(units[name] - score))].detail
        assert nearest is not None  # it has a score
        return JuryArenaDetail(nearest.games, (score, score), units)


@dataclass(frozen=True, slots=True)
class JuryRubricDetail(RubricDetail):
    """The judgments of all members; `members` has the score of each from 0 to 1."""

    members: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JuryArenaDetail(ArenaDetail):
    """The games of one member; `members` has the score of each from 0 to 1."""

    members: Mapping[str, float] = field(default_factory=dict)
