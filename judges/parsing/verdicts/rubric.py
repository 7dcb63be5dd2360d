"""The score and the feedback of a rubric's judge."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from judges.parsing.found import Found, verdict_parser
from judges.parsing.last_match import last_of
from judges.parsing.thinking import after_thinking
from judges.parsing.two_forms import verdict_in_either
from judges.parsing.verdict_form import CRITIQUE, VerdictForm, integer, text_field
from judges.parsing.verdicts.whole_score import whole_score
from judges.parsing.written_object import WrittenObject, written_object

RubricFormat = Literal["feedback_score", "result"]
"""How a rubric's judge answers: `[FEEDBACK] … [SCORE] n`, or `Feedback: … [RESULT] n`."""

_LONGEST_SCORE_LINE = 100
_LONGEST_DECORATED = 1000  # the same with its markdown and white space


SCORE_FIELD = re.compile(r'"score"\s*:', re.IGNORECASE)
"""Matches what stands before the score in an object; within a text of the object the quotation marks are escaped."""


def rubric_form(scale: tuple[int, int]) -> VerdictForm:
    """The form of a score of a scale."""
    return VerdictForm("rubric_score", {"feedback": text_field("your feedback"), "score": integer(*scale)})


@verdict_parser
def feedback_score(own: str, scale: tuple[int, int] = (1, 5)) -> Found[int] | None:
    """The score of a rubric's judge: the rest of the line after the last `[SCORE]`.

    It must be one integer of the scale and nothing else, optionally in (), [] or markdown, with "/5" or "out of 5" (the
    highest score of the scale) or a final stop. "4.5", "3-4", "3 or 4", and "0" or "10" of 1 to 5 are no score. An
    object of `rubric_form` at the end is read, too (`judges.parsing.two_forms`).

    Args:
        own: the judge's own text.
        scale: the lowest and the highest score.
    """
    return _behind_tag("SCORE", own, scale)


@verdict_parser
def prometheus_result(own: str, scale: tuple[int, int] = (1, 5)) -> Found[int] | None:
    """As `feedback_score`, after the last `[RESULT]`: the format that Prometheus judges are trained on.

    Source:
        Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models (2023).
    """
    return _behind_tag("RESULT", own, scale)


_LAST_TAG = {tag: last_of(rf"\[{tag}\]([^\r\n]*)", re.IGNORECASE) for tag in ("SCORE", "RESULT")}


def _behind_tag(tag: str, own: str, scale: tuple[int, int]) -> Found[int] | None:
    return verdict_in_either(
        own, "score", lambda value: whole_score(value, scale), lambda words: _in_words(tag, words, scale)
    )


def _in_words(tag: str, own: str, scale: tuple[int, int]) -> Found[int] | None:
    match = _LAST_TAG[tag].match(own)
    if match is None:
        return None
    decorated = match[1].strip()
    line = re.sub(r"[*_`\s]+", " ", decorated[: _LONGEST_DECORATED + 1]).strip()
    if not line or len(line) > _LONGEST_SCORE_LINE or len(decorated) > _LONGEST_DECORATED:
        return None
    low, high = scale
    number = _score_line(high).fullmatch(line)
    if number is None:
        return None
    value = int(next(group for group in number.groups() if group is not None))
    place = match.start(1) - len(f"[{tag}]"), match.start(1) + len(match[1].rstrip())
    return Found(value, place) if low <= value <= high else None


@lru_cache
def _score_line(high: int) -> re.Pattern[str]:
    """The pattern of a score, of a scale with this highest one, as it may stand behind a tag."""
    of_highest = rf"(?: ?(?:/|out of) ?{high})?"
    number = rf"(-?[0-9]{{1,9}}){of_highest}"
    wrapped = rf"(?:{number}|\( ?{number} ?\){of_highest}|\[ ?{number} ?\]{of_highest})"
    return re.compile(rf"(?:: ?)?{wrapped} ?\.?")


_LAST_SCORE = last_of(r"\[(?:SCORE|RESULT)\]", re.IGNORECASE)
_LAST_FEEDBACK = last_of(r"\[FEEDBACK\]", re.IGNORECASE)
_LAST_FEEDBACK_LINE = re.compile(r"(?s:.*\n)?([ \t]*Feedback:)", re.IGNORECASE)
_BOLD = "**"


def feedback_text(text: str) -> str | None:
    """The feedback of a rubric's judge: between `[FEEDBACK]` (or `Feedback:`) and the last `[SCORE]` (or `[RESULT]`).

    It starts after the last `[FEEDBACK]` before that score, or at the start of the text; without a score it extends to
    the end. `None` if there is neither tag, or no text. Of an object of `rubric_form` it is the field.
    """
    written = _object(text)
    if written is not None:
        return written.text("feedback")
    span = _feedback_span(after_thinking(text))
    return None if span is None else span[1].strip(" \t\r\n") or None


def before_feedback(text: str) -> str:
    """The text of a rubric's judge before its last feedback, such as a critique of an earlier one."""
    written = _object(text)
    if written is not None:
        return written.text(CRITIQUE) or written.before
    span = _feedback_span(after_thinking(text))
    return "" if span is None else span[0].strip(" \t\r\n")


def _object(text: str) -> WrittenObject | None:
    return written_object(after_thinking(text), "score")


@lru_cache(maxsize=16)  # for what stands before the feedback and for the feedback
def _feedback_span(own: str) -> tuple[str, str] | None:
    """The text before the feedback's tag, and the text from there to the score's tag."""
    score = _LAST_SCORE.match(own)
    until = own if score is None else own[: score.start(1)].removesuffix(_BOLD)
    tag, line = _LAST_FEEDBACK.match(until), _LAST_FEEDBACK_LINE.match(until)
    if tag is not None and (line is None or tag.start(1) > line.start(1)):
        before, words = until[: tag.start(1)], until[tag.end() :]
        # The asterisks of a tag in bold belong to the tag.
        return (before[:-2], words.removeprefix(_BOLD)) if before.endswith(_BOLD) else (before, words)
    if line is not None:
        return until[: line.start(1)], until[line.end() :]
    return None if score is None else ("", until)


def is_strict_feedback(text: str, output_format: RubricFormat, scale: tuple[int, int] = (1, 5)) -> bool:
    """Whether the text is exactly of the format: feedback and score, once each, without markup or other text."""
    begins, tag = ("[FEEDBACK]", "[SCORE]") if output_format == "feedback_score" else ("Feedback:", "[RESULT]")
    opening, begin, body = after_thinking(text).strip().partition(begins)
    words, _, score = body.partition(tag)
    if opening or not begin or begins in words or not words.strip() or not words[0].isspace():
        return False
    number = re.fullmatch(r"[ \t]*(-?[0-9]{1,9})", score)
    return number is not None and scale[0] <= int(number[1]) <= scale[1]


def is_strict_object(text: str, scale: tuple[int, int] = (1, 5)) -> bool:
    """Whether the text is exactly an object of `rubric_form`, or of its form with a critique."""
    own = after_thinking(text).strip()
    written = written_object(own, "score")
    if written is None or written.at != (0, len(own)):
        return False
    form, score = rubric_form(scale), written.fields["score"]
    if [*written.fields] not in ([*form.fields], [*form.with_critique().fields]):
        return False
    return written.text("feedback") is not None and type(score) is int and scale[0] <= score <= scale[1]
