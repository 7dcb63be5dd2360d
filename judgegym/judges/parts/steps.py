"""A judge of an agent's steps: judges each policy turn in context and combines the scores.

A step is a turn of the policy with a text or a tool call. The judge sees the prompt with all turns
before the step as the conversation, and the step as the response; later turns are not shown. All
steps are judged at once. A response that came as a text is one step.

Guarantees: `step_3` is the turn with index 3 of the response's turns, from 0; if a step fails,
    there is no score; if there are more steps than `steps_most`, the first, the last and others at
    equal distances are judged, and the explanation names the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Annotated, Literal

from pydantic import BeforeValidator, JsonValue
from pydantic_settings import NoDecode

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.conversations.turns import (
    append_turns,
    list_images,
    render_transcript,
    text_turn,
)
from judgegym.judges.core.judge import JudgeDefinition, PartsDefinition
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.part import Part, PartOptions, PartsDetail, PartsJudge, read_text
from judgegym.llm.at_once import gather_results

STEP = "step"
"""The part's name; each step's name has its index appended."""
LEFT_OUT = "steps.left_out"
"""A component of the score: the number of steps not judged because of `steps_most`."""
_COMBINATIONS: Mapping[str, Callable[[list[float]], float]]
_COMBINATIONS = {"mean": fmean, "min": min, "last": lambda scores: scores[-1], "product": math.prod}


def _parse_judge(value: object) -> object:
    """Parse the judge's settings, the name of a model, or a list of one of these.

    The result is keyed by the name of the part.
    """
    value = read_text(value)
    judge = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(judge, str):
        judge = {"judge_model_name": judge}
    if isinstance(judge, Mapping) and set(judge) == {STEP}:
        return judge
    return {STEP: judge}


class StepsSettings(JudgeSettings):
    """The judge of the steps, and how their scores are combined."""

    steps_judge: Annotated[
        dict[str, dict[str, JsonValue]], NoDecode, BeforeValidator(_parse_judge)
    ] = setting({STEP: {}}, common=True)
    """With the judge steps: judge each step of an agent's trace by this judge, such as {"judge":
    "aspect", "aspects": "harmfulness"}; or the name of a model. It inherits unset settings from the
    command. If unset, a rubric judges."""
    steps_combine: Literal["mean", "min", "last", "product"] = setting("mean", common=True)
    """Combine the steps' scores in this way. mean; min: the lowest; last: the last step's;
    product."""
    steps_most: int | None = setting(None, ge=2)
    """Judge at most this many steps of a response: the first, the last, and evenly spaced ones in
    between. If unset, all."""


class StepsJudge(PartsJudge[StepsSettings, PartOptions]):
    """A judge of the steps of a response, each judged by the only part."""

    part_label = "judge"

    def role(self, part: Part[PartOptions]) -> str:
        """Return `step`."""
        return STEP

    async def judge(self, task: JudgeTask) -> Judgment[PartsDetail]:
        """Judge all steps at once; without a score if one of them has none."""
        turns = task.trace or (text_turn("assistant", task.response),)
        steps = [index for index, turn in enumerate(turns) if turn.is_step]
        count = min(len(steps), self.settings.steps_most or len(steps))
        selected = [
            steps[position * (len(steps) - 1) // max(1, count - 1)] for position in range(count)
        ]
        tasks = {
            f"{STEP}_{index}": replace(
                task,
                prompt=append_turns(task.prompt, turns[:index], is_marked=bool(task.images)),
                responses=(render_transcript(turns[index : index + 1]),),
                traces=(turns[index : index + 1],),
                images=(*task.images, *list_images(turns[:index])),
            ).number_images()
            for index in selected
        }
        parts = [replace(self.parts[0], name=name) for name in tasks]
        judge = StepsJudge(self.settings, self.client, parts)
        results = await gather_results(judge.judge_part(part, tasks[part.name]) for part in parts)
        judgments = dict(zip(tasks, results, strict=True))
        scores = [score for score in judge.unit_scores(judgments).values() if score is not None]
        if scores and len(scores) == len(tasks):
            value = _COMBINATIONS[self.settings.steps_combine](scores)
        else:
            value = None
        left_out = [f"{STEP}_{index}" for index in steps if index not in selected]
        reason = ""
        if not steps:
            reason = "the response has no turn of the policy with a text or a tool call"
        judgment = judge.make_judgment(
            judgments,
            value,
            numbers={LEFT_OUT: len(left_out)} if left_out else {},
            reason=reason,
        )
        note = ""
        if left_out:
            note = f"\n\nnot judged (steps_most): {', '.join(left_out)}"
        return replace(judgment, explanation=judgment.explanation + note)


JUDGE = JudgeDefinition(
    StepsSettings,
    "each step of an agent's trace (--steps_judge)",
    StepsJudge,
    parts=PartsDefinition("steps_judge", "step", PartOptions, _parse_judge),
)
