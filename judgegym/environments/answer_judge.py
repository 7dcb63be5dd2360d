"""The judge of an environment, made from its settings: no environment constructs a judge, and none forgets a setting.

An environment names one kind of judge in its spec, and its settings inherit that kind's; a jury of such judges may take
its place. Or its settings are `AnyJudgeConfig`, and the user chooses the judge: a kind, a prompt file, a composite.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from judgegym.data.answers import PromptTask
from judgegym.engine.settings.env import EnvConfig
from judgegym.environments.juries import EnvironmentJurySettings, open_environment_judge
from judgegym.environments.spec import EnvSpec
from judgegym.judges.conversations.turns import images_of
from judgegym.judges.core.judge import Judge, SingleJudge
from judgegym.judges.core.judgment import Judgment, Scale, ScoreParts
from judgegym.judges.core.naming import did_you_mean
from judgegym.judges.core.tasks import JudgeTask, TaskJudge, prompt_of_answers
from judgegym.judges.scorers.columns import USUAL_COLUMNS, usual_fields
from judgegym.judges.scorers.fields import judge_task_of
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import JUDGES, built_in_kind, definition, is_kind, scale_of
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


class AnyJudge:
    """A judge of any kind: a score from 0 to 1, with the numbers that it was computed from."""

    def __init__(self, single: SingleJudge[Any, Any], settings: AnyJudgeSettings) -> None:
        """Judge by `single`, which `settings` name."""
        self.single, self.client = single, single.client
        self._settings, self._shown = settings, settings.shown_fields

    @property
    def shown_columns(self) -> list[str]:
        """The columns of a row beside its prompt that the judge is shown."""
        return sorted({column for name in self._shown for column in USUAL_COLUMNS.get(name, (name,))})

    def task(self, row: PromptTask, answer: str, prompt: str | None = None) -> JudgeTask:
        """Make the judge's task of a row of `prompt_tasks(…, also=shown_columns)` with an answer.

        Args:
            row: the row.
            answer: what the policy wrote.
            prompt: what it answers, if that is not the row's prompt alone.

        Raises:
            ValueError: a column that the judge is shown cannot be read.
        """
        asked = prompt_of_answers(row.question if prompt is None else prompt, self._settings)
        fields = usual_fields(row.fields, sorted(self._shown & USUAL_COLUMNS.keys()))
        return replace(judge_task_of(asked, (answer,), fields), images=images_of(row.turns)).numbered()

    def check(self, row: PromptTask) -> None:
        """Check that answers to a row can be judged.

        Raises:
            ValueError: it lacks what the judge is shown, or that cannot be read.
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


def spec_problem(spec: EnvSpec, config_type: type[EnvConfig]) -> str | None:
    """Return why an environment with these settings cannot have the judge that its spec names, or `None`."""
    if not isinstance(spec.judge, str):
        return None
    if not is_kind(spec.judge):
        return f"its spec names no kind of judge: {spec.judge!r}{did_you_mean(spec.judge, JUDGES)}"
    needed = definition(spec.judge).settings
    inherits = issubclass(config_type, needed)
    return None if inherits else f"its judge is {spec.judge}, so that its settings must inherit {needed.__name__}"


def has_answer_judge(spec: EnvSpec, config: EnvConfig) -> bool:
    """Return whether a judge, and not the policy, judges the completions of an environment."""
    return not config.policy_is_judge and (spec.judge is not None or isinstance(config, AnyJudgeSettings))


def open_answer_judge(spec: EnvSpec, config: EnvConfig, client: ChatClient) -> Judge[Any]:
    """Open the judge of an environment, or the jury that takes its place.

    Raises:
        SettingsError: there is none, or its settings are wrong.
    """
    if isinstance(config, AnyJudgeSettings):
        judge = open_judge(config, client)
        assert isinstance(judge, SingleJudge)  # the settings allow no other kind
        return AnyJudge(judge, config)
    if spec.judge is None:
        raise SettingsError(f"{spec.name} names no judge: expected EnvSpec(judge=…), or settings of AnyJudgeConfig")
    open_own: Any = partial(open_kind, spec.judge) if isinstance(spec.judge, str) else spec.judge
    if not isinstance(config, EnvironmentJurySettings):
        return open_own(config, client)  # type: ignore[no-any-return]  # which the spec says
    scale: Any = scale_of(built_in_kind(config.answer_judge), config) or Scale(*map(int, spec.reward_range))
    return open_environment_judge(config, client, open_own, scale, spec.jury_detail)


def open_kind(kind: str, config: EnvConfig, client: ChatClient) -> TaskJudge:
    """Open a kind of judge whose settings are the environment's."""
    if isinstance(config, AnyJudgeSettings):
        return open_judge(config, client)
    return definition(kind).judge(config, client, getattr(config, "rubric", None))


def anchor_kind(spec: EnvSpec, config: EnvConfig) -> str | None:
    """Return the kind of judge that judges anchors, as `judgegym score --judge` names it; `None` without one."""
    if isinstance(config, AnyJudgeSettings):
        return config.judge
    is_jury = isinstance(config, EnvironmentJurySettings) and config.is_jury
    return None if is_jury or not isinstance(spec.judge, str) else spec.judge
