"""Judges: text in, judgment out.

The names for writing a judge are importable from here: `from judgegym.judges import ModelJudge, …`.
They are imported on first use.
"""

from itertools import chain
from typing import TYPE_CHECKING

from judgegym._lazy import import_lazily

if TYPE_CHECKING:
    from judgegym.judges.config.fields import setting as setting
    from judgegym.judges.config.judge import JudgeSettings as JudgeSettings
    from judgegym.judges.core.calls import ask as ask
    from judgegym.judges.core.calls import failed_judgment as failed_judgment
    from judgegym.judges.core.delimiters import Lookalikes as Lookalikes
    from judgegym.judges.core.judge import JudgeDefinition as JudgeDefinition
    from judgegym.judges.core.judge import SingleJudge as SingleJudge
    from judgegym.judges.core.judgment import Judgment as Judgment
    from judgegym.judges.core.judgment import Scale as Scale
    from judgegym.judges.core.judgment import Status as Status
    from judgegym.judges.core.message_template import MessageTemplate as MessageTemplate
    from judgegym.judges.core.model_judge import Answers as Answers
    from judgegym.judges.core.model_judge import ModelJudge as ModelJudge
    from judgegym.judges.core.model_judge import Question as Question
    from judgegym.judges.core.prompt_format import PromptFormat as PromptFormat
    from judgegym.judges.core.prompt_format import StandInPrompt as StandInPrompt
    from judgegym.judges.core.tasks import JudgeTask as JudgeTask
    from judgegym.judges.parsing.verdict_parser import ParsedVerdict as ParsedVerdict
    from judgegym.judges.parsing.verdict_parser import verdict_parser as verdict_parser

if __name__ != "judgegym.judges":  # a second import would make different classes
    raise ImportError(
        "the package is judgegym.judges: `judges/` is a link to its files", name=__name__
    )

_MODULES = {
    "judgegym.judges.config.fields": ("setting",),
    "judgegym.judges.config.judge": ("JudgeSettings",),
    "judgegym.judges.core.calls": ("ask", "failed_judgment"),
    "judgegym.judges.core.delimiters": ("Lookalikes",),
    "judgegym.judges.core.judge": ("JudgeDefinition", "SingleJudge"),
    "judgegym.judges.core.judgment": ("Judgment", "Scale", "Status"),
    "judgegym.judges.core.message_template": ("MessageTemplate",),
    "judgegym.judges.core.model_judge": ("Answers", "ModelJudge", "Question"),
    "judgegym.judges.core.prompt_format": ("PromptFormat", "StandInPrompt"),
    "judgegym.judges.core.tasks": ("JudgeTask",),
    "judgegym.judges.parsing.verdict_parser": ("ParsedVerdict", "verdict_parser"),
}

__all__ = [*chain.from_iterable(_MODULES.values())]
__getattr__ = import_lazily(__name__, _MODULES)
