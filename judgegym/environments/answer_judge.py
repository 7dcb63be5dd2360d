"""The judge of an environment, opened from the environment's settings.

An environment names one kind of judge in its spec, and its settings inherit that kind's settings.
A jury of such judges may take its place: the same kind with other models, endpoints or settings.
Or the settings are `AnyJudgeConfig`, and the user chooses the judge: a kind, a prompt file, a
composite.

Guarantees of a jury in place of an environment's own judge: those of `judgegym.judges.parts.jury`;
each member sees the task that the environment makes, with the environment's criteria, and the
score is on the environment's own scale. Only one judge can give the detail, such as verdicts on
aspects or two games: it is that of the counted member whose score is nearest to the jury's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, cast

from pydantic import BaseModel, field_validator, model_validator
from typing_extensions import Self

from judgegym.data.answers import PromptTask
from judgegym.engine.settings.env import EnvConfig
from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.environments.spec import EnvSpec
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.conversations.turns import list_images
from judgegym.judges.core.judge import Judge, SingleJudge
from judgegym.judges.core.judgment import Judgment, Scale, ScoreParts
from judgegym.judges.core.naming import suggest_similar
from judgegym.judges.core.tasks import JudgeTask, TaskJudge, render_prompt_text
from judgegym.judges.parts.jury import JuryJudge, JurySettings
from judgegym.judges.parts.part import Members
from judgegym.judges.scorers.columns import USUAL_COLUMNS, read_fields
from judgegym.judges.scorers.fields import make_judge_task
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import (
    DEFAULT_KIND,
    JUDGES,
    SINGLE_KINDS,
    all_kinds,
    built_in_kind,
    check_is_single,
    describe_kinds,
    find_definition,
    find_scale,
    is_kind,
)
from judgegym.judges.scorers.settings import AnyJudgeSettings, JudgeKind
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


class ChosenJudgeSettings(AnyJudgeSettings):
    """Settings with the choice of a judge that scores each completion by itself."""

    judge: JudgeKind = setting(DEFAULT_KIND, describe_kinds(SINGLE_KINDS), common=True)

    @classmethod
    def readers(cls, name: str) -> list[str]:
        """List the values of `judge` that read a setting and judge each response by itself."""
        comparing = {
            f"judge={kind}"
            for kind, judge in all_kinds().items()
            if judge.most_together is not None
        }
        return [choice for choice in super().readers(name) if choice not in comparing]

    @field_validator("judge")
    @classmethod
    def _check_single_judge(cls, value: str) -> str:
        check_is_single(value, "judge")
        return value


class AnyJudgeConfig(ChosenJudgeSettings, EnvConfig):
    """Settings of an environment whose judge the user chooses."""


class EnvironmentJurySettings(GroupJudgeSettings):
    """Settings of the environment's judge, of a jury of such judges, or of a judge of groups."""

    choosing: ClassVar[tuple[str, ...]] = (*GroupJudgeSettings.choosing, "judges")

    judges: Members = setting({}, common=True)
    """Let a jury of these judges judge each answer, in place of one judge. A list such as
    [{"judge_model_name": "a"}, {"judge_model_name": "b", "name": "other"}], or an object by names;
    a setting that a judge leaves out is the environment's. Or names of models:
    gpt-6-luna,claude-sonnet-4-6. @FILE reads YAML or JSON."""

    @classmethod
    def choices(cls) -> Mapping[str, type[BaseModel]]:
        """Return the optional settings by choice, with those of a jury."""
        return {**super().choices(), "judges": JurySettings}

    @classmethod
    def select_choices(cls, values: Mapping[str, Any]) -> Collection[str]:
        """Return the choices that these values make: also `judges`, if the jury has members."""
        return {*super().select_choices(values), *["judges"] * cls.is_changed(values, "judges")}

    @model_validator(mode="after")
    def _check_jury(self) -> Self:
        if not self.judges:
            return self
        for name, default in (
            ("role", "policy"),
            ("group_judge", "none"),
            ("candidates", []),
            ("candidates_play", None),
        ):
            if (value := getattr(self, name, default)) != default:
                conflict = f"{name}={value}" if isinstance(value, str) else name
                raise ValueError(
                    "judges: a jury judges each answer by itself, so that nothing reads it with "
                    f"{conflict}"
                )
        kind = built_in_kind(self.answer_judge)
        for name, fields in self.judges.items():
            if fields.get("judge", kind) != kind:
                raise ValueError(
                    f"judges.{name}.judge: it is {kind} here; the environment prompts takes any"
                )
            for shared in sorted({*self.for_criteria} & {*fields}):  # its cases have them
                raise ValueError(
                    f"judges.{name}.{shared}: all members have that of the environment"
                )
        try:
            _ = self.jury_settings
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    @cached_property
    def jury_settings(self) -> AnyJudgeSettings:
        """Settings of the jury, as `judgegym score` has them.

        Raises:
            SettingsError: a member's setting is wrong.
        """
        names = self.model_fields_set & {
            *self.answer_judge.model_fields,
            *JurySettings.model_fields,
        }
        kind = built_in_kind(self.answer_judge)
        members = {name: {**fields, "judge": kind} for name, fields in self.judges.items()}
        values = {
            **{name: getattr(self, name) for name in names},
            "judge": built_in_kind(JurySettings),
            "judges": members,
        }
        return settings_from_keywords(AnyJudgeSettings, values)

    def judge_name(self) -> str:
        """Return the name of the judge or jury."""
        if self.judges:
            return self.jury_settings.judge_name()
        return super().judge_name()

    @property
    def client_settings(self) -> JudgeSettings:
        """Settings of the client: the jury's, or these without a jury."""
        if self.judges:
            return self.jury_settings
        return self


class EnvironmentJury:
    """A jury in place of an environment's own judge, with that judge's scale and detail."""

    def __init__(
        self,
        jury: JuryJudge,
        scale: Scale,
        combine: Callable[[Sequence[Judgment[Any]]], object] | None,
    ) -> None:
        """Judge by `jury` on the environment's scale.

        `combine` merges the members' details into one.
        """
        self._jury, self._scale, self._combine = jury, scale, combine

    @property
    def client(self) -> ChatClient:
        """The client of the jury."""
        return self._jury.client

    async def judge(self, task: JudgeTask) -> Judgment[Any]:
        """Judge a task by all members; raise what `JuryJudge.judge` raises."""
        judgments = await self._jury.ask(self._jury.parts, task)
        combined: Judgment[Any] = self._jury.combine_judgments(judgments)
        unit_score = combined.score
        if unit_score is None:
            return replace(combined, detail=None)
        members = {
            name: score
            for name, score in self._jury.unit_scores(judgments).items()
            if score is not None
        }
        nearest = min(
            self._jury.settings.select_counting(members),
            key=lambda name: abs(members[name] - unit_score),
        )
        if self._combine is None:
            detail = judgments[nearest].detail
        else:
            detail = self._combine([judgments[name] for name in members])
        score = self._scale.low + unit_score * self._scale.span
        return replace(combined, score=score, unit=unit_score, detail=detail, members=members)


class AnyJudge:
    """Judge of any kind: a score from 0 to 1, with the numbers that it was computed from."""

    def __init__(self, single: SingleJudge[Any, Any], settings: AnyJudgeSettings) -> None:
        """Judge by `single`, configured by `settings`."""
        self.single, self.client = single, single.client
        self._settings, self._shown = settings, settings.shown_fields

    @property
    def shown_columns(self) -> list[str]:
        """Columns of a row that the judge is shown beside the prompt."""
        columns = set[str]()
        for name in self._shown:
            columns.update(USUAL_COLUMNS.get(name, (name,)))
        return sorted(columns)

    def task(self, row: PromptTask, answer: str, prompt: str | None = None) -> JudgeTask:
        """Make the judge's task from a row of `prompt_tasks(…, also=shown_columns)` and an answer.

        Args:
            row: the row.
            answer: what the policy wrote.
            prompt: the prompt that the answer is for, if it is not the row's prompt alone.

        Raises:
            ValueError: a column that the judge needs cannot be read.
        """
        if prompt is None:
            prompt = row.question
        prompt_text = render_prompt_text(prompt, self._settings)
        fields = read_fields(row.fields, sorted(self._shown & USUAL_COLUMNS.keys()))
        task = make_judge_task(prompt_text, (answer,), fields)
        return replace(task, images=list_images(row.turns)).number_images()

    def check(self, row: PromptTask) -> None:
        """Check that answers to a row can be judged.

        Raises:
            ValueError: the row lacks a column that the judge needs, or the column cannot be read.
        """
        self.single.check(self.task(row, ""))

    async def judge_answer(self, row: PromptTask, answer: str) -> Judgment[ScoreParts]:
        """Judge an answer to a row; never raises because of a model's reply."""
        return await self.judge(self.task(row, answer))

    async def judge(self, task: JudgeTask) -> Judgment[ScoreParts]:
        """Judge a task; never raises because of a model's reply."""
        judgment = await self.single.judge_task(task)
        if judgment.score is None:
            return replace(judgment, detail=None)
        parts = ScoreParts(dict(judgment.components), dict(judgment.contributions))
        return replace(judgment, score=judgment.unit_score, unit=None, detail=parts)


def find_spec_problem(spec: EnvSpec, config_type: type[EnvConfig]) -> str | None:
    """Return why an environment with these settings cannot have the judge of its spec.

    `None` if it can.
    """
    if not isinstance(spec.judge, str):
        return None
    if not is_kind(spec.judge):
        hint = suggest_similar(spec.judge, JUDGES)
        return f"its spec names no kind of judge: {spec.judge!r}{hint}"
    settings_type = find_definition(spec.judge).settings
    if issubclass(config_type, settings_type):
        return None
    return f"its judge is {spec.judge}, so its settings must inherit {settings_type.__name__}"


def has_answer_judge(spec: EnvSpec, config: EnvConfig) -> bool:
    """Return whether a judge, and not the policy, judges the environment's completions."""
    return not config.policy_is_judge and (
        spec.judge is not None or isinstance(config, AnyJudgeSettings)
    )


def open_answer_judge(spec: EnvSpec, config: EnvConfig, client: ChatClient) -> Judge[Any]:
    """Open the judge of an environment, or the jury that takes its place.

    Raises:
        SettingsError: the environment has no judge, or its settings are wrong.
    """
    if isinstance(config, AnyJudgeSettings):
        judge = open_judge(config, client)
        assert isinstance(judge, SingleJudge)  # the settings allow no other kind
        return AnyJudge(judge, config)
    if spec.judge is None:
        raise SettingsError(
            f"{spec.name} names no judge: expected EnvSpec(judge=…), or settings of AnyJudgeConfig"
        )
    if isinstance(config, EnvironmentJurySettings) and config.judges:
        jury = open_judge(config.jury_settings, client)
        assert isinstance(jury, JuryJudge)  # the settings name one
        scale = find_scale(built_in_kind(config.answer_judge), config)
        if scale is None:
            scale = Scale(*map(int, spec.reward_range))
        return EnvironmentJury(jury, scale, spec.jury_detail)
    if not isinstance(spec.judge, str):
        return spec.judge(config, client)
    return cast("Judge[Any]", open_kind(spec.judge, config, client))  # the spec says so


def open_kind(kind: str, config: EnvConfig, client: ChatClient) -> TaskJudge:
    """Open a judge of a kind whose settings the environment's settings inherit."""
    if isinstance(config, AnyJudgeSettings):
        return open_judge(config, client)
    return find_definition(kind).judge(config, client, getattr(config, "rubric", None))


def find_anchor_kind(spec: EnvSpec, config: EnvConfig) -> str | None:
    """Return the kind of `judgegym score --judge` that judges anchors; `None` without one."""
    if isinstance(config, AnyJudgeSettings):
        return config.judge
    if isinstance(config, JurySettings) or not isinstance(spec.judge, str):
        return None
    return spec.judge
