"""Score and feedback of a rubric judge."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from judgegym.judges.parsing.candidates import (
    MOST_COMPARED,
    NUMBERS,
    SCORE,
    NamedValues,
    VerdictCandidate,
    VerdictKind,
    fold_characters,
    last_candidate,
)
from judgegym.judges.parsing.json_objects import BLANK, TextObject, find_final_object
from judgegym.judges.parsing.scores import parse_stated_score, parse_whole_score
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import (
    CRITIQUE,
    ParsedVerdict,
    VerdictForm,
    compile_last,
    integer,
    text_field,
    verdict_parser,
)

RubricFormat = Literal["feedback_score", "result"]
"""How a rubric's judge answers: `[FEEDBACK] … [SCORE] n`, or `Feedback: … [RESULT] n`."""

_LONGEST_SCORE_LINE = 100
_LONGEST_DECORATED = 1000  # including markdown and white space


SCORE_FIELD = re.compile(r'"score"\s*:', re.IGNORECASE)
"""Match what precedes the score in an object.

Within a text of the object the quotation marks are escaped.
"""


def rubric_form(scale: tuple[int, int]) -> VerdictForm:
    """Return the form of a score on a scale."""
    return VerdictForm(
        "rubric_score", {"feedback": text_field("your feedback"), "score": integer(*scale)}
    )


@verdict_parser
def feedback_score(own_text: str, scale: tuple[int, int] = (1, 5)) -> ParsedVerdict[int] | None:
    """Return the score of a rubric judge: the rest of the line after the last `[SCORE]`.

    If that is empty, the next line is read.

    It must be one integer of the scale and nothing else, optionally in (), [] or markdown, with
    "/5" or "out of 5" (the highest score of the scale) or a final stop. "4.5", "3-4", "3 or 4", and
    "0" or "10" of 1 to 5 are no score. Without any tag, `Score: 4` or `Result: 4` is read at the
    end of a text that begins with the tag of the feedback and states no other score. An object of
    `rubric_form` at the end is read, too. The last candidate decides
    (`judgegym.judges.parsing.candidates`).

    Args:
        own_text: the judge's own text.
        scale: the lowest and the highest score.
    """
    return _parse_tagged("SCORE", own_text, scale)


@verdict_parser
def prometheus_result(own_text: str, scale: tuple[int, int] = (1, 5)) -> ParsedVerdict[int] | None:
    """Return the score after the last `[RESULT]`, as `feedback_score` does.

    Prometheus judges are trained on this format.

    Source:
        Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models
            (2023).
    """
    return _parse_tagged("RESULT", own_text, scale)


# An invisible character is a space here.
_SPELLED = "|".join(r"[\s\\*_`]{0,3}".join(word) for word in ("SCORE", "RESULT"))
_TAG = re.compile(
    rf"\\?[\[({{<][\s\\*_`]{{0,4}}(?:{_SPELLED})[\s*_`]{{0,4}}"
    r"(?:\\?[\])}>]|[:\s]\s?[^\[\](){}<>\n]{0,20}[\])}>])",
    re.IGNORECASE,
)
"""Everything like a tag."""
_REST = re.compile(rf"[^\r\n]{{0,{_LONGEST_DECORATED + 1}}}")
_NEXT_LINE = re.compile(rf"\s*[^\r\n]{{0,{_LONGEST_DECORATED + 1}}}")
_LAST_LINE = re.compile(
    r"(?:\A|\n)[*_# \t]*(?P<named>(?:SCORE|RESULT)[*_]{0,4}:(?P<rest>[^\r\n]*\S))\s*\Z",
    re.IGNORECASE,
)
_FEEDBACK_FIRST = re.compile(r"[\s*_#`]*(?:\[FEEDBACK\]|FEEDBACK:)", re.IGNORECASE)
_NAMED = NamedValues(SCORE, NUMBERS)


def _parse_tagged(tag: str, own_text: str, scale: tuple[int, int]) -> ParsedVerdict[int] | None:
    kind = VerdictKind(
        "score",
        lambda fields: parse_whole_score(fields["score"], scale),
        lambda words: _find_in_words(f"[{tag}]", words, scale),
        has_text_form=True,
        options=range(scale[0], scale[1] + 1),
    )
    return last_candidate(own_text, kind)


def _find_in_words(tag: str, words: str, scale: tuple[int, int]) -> Iterator[VerdictCandidate[int]]:
    plain = fold_characters(words)
    tagged = [*_find_tagged(tag, words, plain, scale)]
    named = [*_NAMED.find_in_words(plain, lambda value: parse_stated_score(value, scale))]
    yield from tagged
    yield from named
    line = None
    if _FEEDBACK_FIRST.match(words) and BLANK not in words and not tagged:
        line = _LAST_LINE.search(words)
    value = None
    if line is not None:
        value = _parse_score(line["rest"], scale)
    if (
        line is not None
        and value is not None
        and all(line.start("named") <= candidate.at[0] for candidate in named)
    ):
        yield VerdictCandidate(line.span("named"), value, is_exact=True, is_statement=True)


def _find_tagged(
    tag: str, words: str, plain: str, scale: tuple[int, int]
) -> Iterator[VerdictCandidate[int]]:
    for match in deque(_TAG.finditer(plain), MOST_COMPARED):
        start, end = match.span()
        tail = _REST.match(words, end)[0]  # type: ignore[index]  # matches everywhere
        if not tail.strip(":*_` \t"):
            tail += _NEXT_LINE.match(words, end + len(tail))[0]  # type: ignore[index]
        value = _parse_score(tail, scale)
        is_tag = words[start:end].upper() == tag
        exact = is_tag and value is not None
        until = end
        if exact:
            until += len(tail.rstrip())
        stated = value is not None
        if is_tag and value is None:
            # A template token may follow the score.
            value = _parse_score(tail.partition("<")[0], scale)
        yield VerdictCandidate(
            (start, until), value, is_exact=exact, is_statement=stated, is_full=is_tag
        )


def _parse_score(tail: str, scale: tuple[int, int]) -> int | None:
    """Parse the score after a tag, if nothing else follows."""
    decorated = tail.strip()
    line = re.sub(r"[*_`\s]+", " ", decorated[: _LONGEST_DECORATED + 1]).strip()
    if not line or len(line) > _LONGEST_SCORE_LINE or len(decorated) > _LONGEST_DECORATED:
        return None
    low, high = scale
    number = _score_line(high).fullmatch(line)
    if number is None:
        return None
    value = int(next(group for group in number.groups() if group is not None))
    if not low <= value <= high:
        return None
    return value


@lru_cache
def _score_line(high: int) -> re.Pattern[str]:
    """Return the pattern of a score after a tag, on a scale with this highest score."""
    of_highest = rf"(?: ?(?:/|out of) ?{high})?"
    number = rf"(-?[0-9]{{1,9}}){of_highest}"
    wrapped = rf"(?:{number}|\( ?{number} ?\){of_highest}|\[ ?{number} ?\]{of_highest})"
    return re.compile(rf"(?:: ?)?{wrapped} ?\.?")


_LAST_SCORE = compile_last(r"\[(?:SCORE|RESULT)\]", re.IGNORECASE)
_LAST_FEEDBACK = compile_last(r"\[FEEDBACK\]", re.IGNORECASE)
_LAST_FEEDBACK_LINE = re.compile(r"(?s:.*\n)?([ \t]*Feedback:)", re.IGNORECASE)
_BOLD = "**"


def feedback_text(text: str) -> str | None:
    """Return the feedback of a rubric judge.

    It is between the last `[FEEDBACK]` (or `Feedback:`) and the last `[SCORE]` (or `[RESULT]`).

    Without the first tag it starts at the beginning of the text; without a score it extends to the
    end. `None` if there is neither tag, or no text. For an object of `rubric_form` it is the field.
    """
    written = _find_score_object(text)
    if written is not None:
        return written.text("feedback")
    span = _feedback_span(cut_thinking(text))
    if span is None:
        return None
    return span[1].strip(" \t\r\n") or None


def cut_feedback(text: str) -> str:
    """Return the text before a rubric judge's last feedback, such as an earlier critique."""
    written = _find_score_object(text)
    if written is not None:
        return written.text(CRITIQUE) or written.before
    span = _feedback_span(cut_thinking(text))
    if span is None:
        return ""
    return span[0].strip(" \t\r\n")


def _find_score_object(text: str) -> TextObject | None:
    return find_final_object(cut_thinking(text), "score")


@lru_cache(maxsize=16)  # called for the text before the feedback and for the feedback
def _feedback_span(own_text: str) -> tuple[str, str] | None:
    """Return the text before the feedback's tag, and the text from there to the score's tag."""
    score = _LAST_SCORE.match(own_text)
    until = own_text
    if score is not None:
        until = own_text[: score.start(1)].removesuffix(_BOLD)
    tag, line = _LAST_FEEDBACK.match(until), _LAST_FEEDBACK_LINE.match(until)
    if tag is not None and (line is None or tag.start(1) > line.start(1)):
        before, words = until[: tag.start(1)], until[tag.end() :]
        # The asterisks of a tag in bold belong to the tag.
        if not before.endswith(_BOLD):
            return before, words
        return before[:-2], words.removeprefix(_BOLD)
    if line is not None:
        return until[: line.start(1)], until[line.end() :]
    if score is None:
        return None
    return "", until


def is_strict_feedback(
    text: str, output_format: RubricFormat, scale: tuple[int, int] = (1, 5)
) -> bool:
    """Return whether the text follows the format exactly.

    It has feedback and score once each, without markup or other text.
    """
    begins, tag = "Feedback:", "[RESULT]"
    if output_format == "feedback_score":
        begins, tag = "[FEEDBACK]", "[SCORE]"
    opening, begin, body = cut_thinking(text).strip().partition(begins)
    words, _, score = body.partition(tag)
    if opening or not begin or begins in words or not words.strip() or not words[0].isspace():
        return False
    parse = feedback_score if output_format == "feedback_score" else prometheus_result
    return re.fullmatch(r"[ \t]*-?[0-9]{1,9}", score) is not None and parse(text, scale) is not None


def is_strict_object(text: str, scale: tuple[int, int] = (1, 5)) -> bool:
    """Return whether the text is exactly an object of `rubric_form`, perhaps with a critique."""
    own_text = cut_thinking(text).strip()
    written = find_final_object(own_text, "score")
    if written is None or written.at != (0, len(own_text)):
        return False
    form, score = rubric_form(scale), written.fields["score"]
    if [*written.fields] not in ([*form.fields], [*form.critique_form().fields]):
        return False
    return (
        written.text("feedback") is not None
        and type(score) is int
        and scale[0] <= score <= scale[1]
    )
