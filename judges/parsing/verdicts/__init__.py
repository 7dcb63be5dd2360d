"""Every parser of a judge's text, a module for each kind of verdict.

Rules of all parsers: return a value or `None`; never guess, clamp or raise; read only the judge's own text after its
thinking; the last verdict wins; what is returned was written in the text.
"""

from judges.parsing.verdicts.arena import ARENA_LABELS, ArenaLabel, arena_label
from judges.parsing.verdicts.aspect import binary_verdict, verdict_reason, yes_or_no
from judges.parsing.verdicts.choice import choice_letter, choice_letter_official
from judges.parsing.verdicts.listwise import ListwiseScores, ScoredAnswer, listwise_fault, listwise_scores
from judges.parsing.verdicts.peer import ScoreObject, score_object
from judges.parsing.verdicts.rating import rating, rating_official
from judges.parsing.verdicts.rubric import (
    RubricFormat,
    before_feedback,
    feedback_score,
    feedback_text,
    is_strict_feedback,
    prometheus_result,
)

__all__ = [
    "ARENA_LABELS",
    "ArenaLabel",
    "ListwiseScores",
    "RubricFormat",
    "ScoreObject",
    "ScoredAnswer",
    "arena_label",
    "before_feedback",
    "binary_verdict",
    "choice_letter",
    "choice_letter_official",
    "feedback_score",
    "feedback_text",
    "is_strict_feedback",
    "listwise_fault",
    "listwise_scores",
    "prometheus_result",
    "rating",
    "rating_official",
    "score_object",
    "verdict_reason",
    "yes_or_no",
]
