"""The settings of the rubric judge."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ValidationInfo, field_validator

from judgegym.judges.config.fields import setting
from judgegym.judges.config.prompt_layout import PromptLayoutSettings
from judgegym.judges.core.scale import Scale
from judgegym.judges.core.voting import MOST_VOTES
from judgegym.judges.parsing.verdicts import RubricFormat
from judgegym.judges.rubrics.expected_score import check_scale
from judgegym.judges.rubrics.prompt import rubric_instructions
from judgegym.llm.errors import SettingsError

Weighting = Literal["none", "logprobs"]
Pooling = Literal["mean", "median"]


class RubricJudgeSettings(PromptLayoutSettings):
    """How a response is scored: the answer format, the scale, and how several judgments are pooled."""

    help_group: ClassVar[str] = "judge"

    output_format: RubricFormat = setting(
        "feedback_score",
        "Ask the judge to answer in this format. feedback_score: [FEEDBACK] … [SCORE] n. result: Feedback: … "
        "[RESULT] n, which Prometheus models are trained on.",
    )
    scale_min: int = setting(1, "Use this as the lowest score of the scale.")
    scale_max: int = setting(5, "Use this as the highest score of the scale; above scale_min.", validate_default=True)
    samples_per_item: int = setting(
        1, "Ask for this many independent judgments of each response, one call each.", ge=1, le=MOST_VOTES
    )
    samples_pooling: Pooling = setting("mean", "Pool the judgments of one response into their mean or their median.")
    weighting: Weighting = setting(
        "none",
        "Choose how a score is read. none: from the text. logprobs: the expected score over the scale's tokens; the "
        "endpoint must return top_logprobs.",
    )

    @field_validator("scale_max")
    @classmethod
    def _is_above_lowest(cls, value: int, info: ValidationInfo) -> int:
        lowest = info.data.get("scale_min", value - 1)
        if lowest >= value:
            raise ValueError(f"scale_max ({value}) must be above scale_min ({lowest})")
        return value

    @field_validator("weighting")
    @classmethod
    def _fits_scale(cls, value: Weighting, info: ValidationInfo) -> Weighting:
        if value == "logprobs" and {"scale_min", "scale_max"} <= info.data.keys():
            try:
                check_scale(Scale(info.data["scale_min"], info.data["scale_max"]))
            except SettingsError as error:
                raise ValueError(str(error)) from error
        return value

    @property
    def scale(self) -> Scale:
        """The scale of the scores, from lowest to highest."""
        return Scale(self.scale_min, self.scale_max)

    def vote_count(self) -> int:
        """The number of judgments of each response."""
        return self.samples_per_item

    def built_in_prompt(self) -> str:
        """The system prompt for rows with a reference."""
        return rubric_instructions(self.scale, self.output_format, self.judge_prompt_layout, with_reference=True)
