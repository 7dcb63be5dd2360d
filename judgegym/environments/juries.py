"""A jury in place of an environment's own judge: members are that judge with other models, endpoints or settings.

Guarantees: those of `judgegym.judges.parts.jury`; each member sees the task that the environment makes, by the criteria
of the environment, and the score is on the environment's own scale. The detail, which only one judge can have, such as
verdicts on aspects or two games, is that of the member that counts whose score is nearest to the jury's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import model_validator
from typing_extensions import Self

from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.judge import DetailT, Judge
from judgegym.judges.core.judgment import Judgment, Scale
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.jury import JuryJudge, JurySettings
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

UNIT = Scale(0, 1)
Combine = Callable[[Sequence[Judgment[Any]]], object]
"""Makes the detail of a jury's judgment from those of its members that have a score."""


class EnvironmentJurySettings(GroupJudgeSettings, JurySettings):
    """The members of a jury that judges answers, and how their scores make one; all are judges of answers."""

    @model_validator(mode="after")
    def _judges_answers(self) -> Self:
        if not self.judges:
            return self
        for name, usual in (("role", "policy"), ("group_judge", "none"), ("candidates", []), ("candidates_play", None)):
            if (given := getattr(self, name, usual)) != usual:
                what = f"{name}={given}" if isinstance(given, str) else name
                raise ValueError(f"judges: a jury judges each answer by itself, so that nothing reads it with {what}")
        kind = built_in_kind(self.answer_judge)
        for name, fields in self.judges.items():
            if fields.get("judge", kind) != kind:
                raise ValueError(f"judges.{name}.judge: it is {kind} here; the environment prompts takes any")
            for shared in sorted({*self.for_criteria} & {*fields}):  # its cases have them
                raise ValueError(f"judges.{name}.{shared}: all members have that of the environment")
        try:
            self.jury_settings()
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    def jury_settings(self) -> AnyJudgeSettings:
        """Return the settings of the jury, as `judgegym score` has them.

        Raises:
            SettingsError: a member has a wrong one.
        """
        names = self.model_fields_set & {*self.answer_judge.model_fields, *JurySettings.model_fields}
        kind = built_in_kind(self.answer_judge)
        members = {name: {**fields, "judge": kind} for name, fields in self.judges.items()}
        given = {
            **{name: getattr(self, name) for name in names},
            "judge": built_in_kind(JurySettings),
            "judges": members,
        }
        return settings_from_keywords(AnyJudgeSettings, given)

    @property
    def ignored(self) -> Mapping[str, Sequence[str]]:
        """Without a jury, how its members' scores make one."""
        names = [] if self.judges else [name for name in JurySettings.__annotations__ if name.startswith("jury_")]
        return {**super().ignored, **dict.fromkeys(names, ("judges",))}

    def judge_name(self) -> str:
        """Who judges."""
        return self.jury_settings().judge_name() if self.judges else super().judge_name()

    @property
    def client_settings(self) -> JudgeSettings:
        """Those of the jury; without one, these."""
        return self.jury_settings() if self.judges else self


class EnvironmentJury:
    """A jury in place of an environment's own judge, with that judge's scale and detail."""

    def __init__(self, jury: JuryJudge, scale: Scale, combine: Combine | None) -> None:
        """Judge by `jury`, on the scale of the environment; see `open_environment_judge`."""
        self._jury, self._scale, self._combine = jury, scale, combine

    @property
    def client(self) -> ChatClient:
        """The client of the jury."""
        return self._jury.client

    async def judge(self, task: JudgeTask) -> Judgment[Any]:
        """Judge a task by all members; raises as `JuryJudge.judge`."""
        found = await self._jury.ask(self._jury.parts, task)
        whole: Judgment[Any] = self._jury.verdict(found)
        unit = whole.score
        if unit is None:
            return replace(whole, detail=None)
        members = {name: score for name, score in self._jury.unit_scores(found).items() if score is not None}
        nearest = min(self._jury.settings.counting(members), key=lambda name: abs(members[name] - unit))
        detail = found[nearest].detail if self._combine is None else self._combine([found[name] for name in members])
        score = self._scale.low + unit * self._scale.span
        return replace(whole, score=score, unit=unit, detail=detail, members=members)


def open_environment_judge(
    config: EnvironmentJurySettings,
    client: ChatClient,
    own: Callable[[Any, ChatClient], Judge[DetailT]],
    scale: Scale = UNIT,
    combine: Combine | None = None,
) -> Judge[DetailT]:
    """Open the jury that the settings name; without one, the environment's own judge.

    Args:
        config: the settings.
        client: of the judge.
        own: opens the environment's own judge.
        scale: that of the environment's scores.
        combine: makes the detail of a jury's judgment; `None` takes that of the nearest member.
    """
    if not config.judges:
        return own(config, client)
    jury = open_judge(config.jury_settings(), client)
    assert isinstance(jury, JuryJudge)  # the settings name one
    return EnvironmentJury(jury, scale, combine)
