"""Every parser of a judge's text, a module for each kind of verdict.

Rules of all parsers: return a value or `None`; never guess, clamp or raise; read only the judge's own text after its
thinking; the last verdict wins; an object of the verdict's form at the end is one, unless words before it have another
verdict (`judgegym.judges.parsing.two_forms`); what is returned was written in the text.
"""

from judgegym.judges.parsing.verdicts.arena import ARENA_LABELS, ArenaLabel, arena_form, arena_label
from judgegym.judges.parsing.verdicts.aspect import ASPECT_FORM, binary_verdict, verdict_reason, yes_or_no
from judgegym.judges.parsing.verdicts.choice import choice_form, choice_letter, choice_letter_official
from judgegym.judges.parsing.verdicts.listwise import (
    LISTWISE_FORM,
    ListwiseScores,
    ScoredAnswer,
    listwise_fault,
    listwise_scores,
)
from judgegym.judges.parsing.verdicts.peer import PEER_FORM, ScoreObject, score_object
from judgegym.judges.parsing.verdicts.rating import RATING_FORM, rating, rating_official
from judgegym.judges.parsing.verdicts.rubric import (
    SCORE_FIELD,
    RubricFormat,
    before_feedback,
    feedback_score,
    feedback_text,
    is_strict_feedback,
    is_strict_object,
    prometheus_result,
    rubric_form,
)

__all__ = [
    "ARENA_LABELS",
    "ASPECT_FORM",
    "LISTWISE_FORM",
    "PEER_FORM",
    "RATING_FORM",
    "SCORE_FIELD",
    "ArenaLabel",
    "ListwiseScores",
    "RubricFormat",
    "ScoreObject",
    "ScoredAnswer",
    "arena_form",
    "arena_label",
    "before_feedback",
    "binary_verdict",
    "choice_form",
    "choice_letter",
    "choice_letter_official",
    "feedback_score",
    "feedback_text",
    "is_strict_feedback",
    "is_strict_object",
    "listwise_fault",
    "listwise_scores",
    "prometheus_result",
    "rating",
    "rating_official",
    "rubric_form",
    "score_object",
    "verdict_reason",
    "yes_or_no",
]
