"""The order of a judge's prompt: a benchmark's own, or the one that a server's prefix cache can use.

vLLM, SGLang and the hosted APIs compute, and charge for, a prefix that several prompts share once. `published` is the
order of the benchmark, paper or specification that a judge follows. In `shared_first` everything that the prompts of
one row have in common comes first, and the completion under judgment last.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator
from typing_extensions import Self

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings

PromptLayout = Literal["published", "shared_first"]


class PromptLayoutSettings(JudgeSettings):
    """The settings of a judge whose prompt can be laid out in both ways."""

    help_group: ClassVar[str] = "judge"

    judge_prompt_layout: PromptLayout = setting(
        "published",
        "Choose the order of the judge's prompt. published: that of the benchmark or paper. shared_first: first "
        "everything that the completions of one prompt share, the completion last, so that a server's prefix cache "
        "computes the shared part once; results are then not comparable with published ones. If unset, shared_first "
        "for a single aspect, whose order is ours, and published for all other judges.",
    )

    @model_validator(mode="after")
    def _set_usual_layout(self) -> Self:
        if "judge_prompt_layout" not in self.model_fields_set:
            self.judge_prompt_layout = self.usual_layout()
            # Not set by the user: a mount inherits only the settings that were given, so it must not inherit this one.
            self.model_fields_set.discard("judge_prompt_layout")
        return self

    def usual_layout(self) -> PromptLayout:
        """The layout of a judge for which the user chose none; judges may override it."""
        return "published"
