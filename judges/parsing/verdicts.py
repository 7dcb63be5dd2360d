"""Every parser of a judge's text.

Rules that all of them keep: a parser returns a value or `None`; it never guesses, never clamps and never raises; it
reads only the judge's own text after its thinking; the last verdict wins; what it returns stands in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast, get_args

from judges.llm.wire import JSON, scrub
from judges.parsing.json_objects import last_first
from judges.parsing.thinking import after_thinking

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

RubricFormat = Literal["feedback_score", "result"]
"""How a rubric's judge answers: `[FEEDBACK] … [SCORE] n`, or `Feedback: … [RESULT] n`."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = re.compile(r"\[\[([AB<>=]+)\]\]")
_SINGLE_BRACKETS = re.compile(r"\[([AB<>=]+)\]")


def arena_label(text: str) -> ArenaLabel | None:
    """The Arena-Hard label that a judge ended with.

    All matches of `[[…]]` over the characters A B < > =, in any case; the last one decides; only if there is none,
    those in single brackets. Mirrored labels (`B<A`) are read as what they mean (`A>B`). A last match that is no
    label, and words such as "tie", are no verdict.

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    own = after_thinking(text).upper()
    matches = _DOUBLE_BRACKETS.findall(own) or _SINGLE_BRACKETS.findall(own)
    if not matches:
        return None
    last = matches[-1]
    if last in ARENA_LABELS:
        return cast(ArenaLabel, last)
    return _MIRRORED.get(last)


_CHOICE = re.compile(r"\[\[([A-Z])\]\]")
_OFFICIAL_LETTERS = "ABCD"


def choice_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter that a judge chose: the last `[[X]]` among the letters it was shown.

    Args:
        text: the judge's text.
        letters: the letters shown, such as `"ABCD"`.

    Returns:
        One of `letters`, or `None`.
    """
    chosen = [letter for letter in _CHOICE.findall(after_thinking(text)) if letter in letters]
    return chosen[-1] if chosen else None


def choice_letter_official(text: str) -> str | None:
    """The letter as RewardBench-2's own code reads it: the first of A, B, C, D, in that order, that occurs as `[[X]]`.

    For parity with published numbers only: "not [[A]]; final: [[D]]" is A.

    Source:
        allenai/reward-bench, its generative scoring of RewardBench-2.
    """
    return next((letter for letter in _OFFICIAL_LETTERS if f"[[{letter}]]" in text), None)


# A number at the very end, alone or as "7/10" or "7 out of 10", perhaps in markdown, brackets or with a final stop.
# What stands before it must not make it part of another number, of a sign, of a range or of a scale.
_SLASHES = r"/\u2044\u2215\uff0f"
_DASHES = r"\-\u2010-\u2015\u2212"
_RATING = re.compile(
    rf"(?:^|[^\w.,+{_SLASHES}{_DASHES}])"
    rf"[*_`(\[]{{0,4}}([0-9]{{1,2}})[*_`)\]]{{0,3}}(?: ?[{_SLASHES}] ?10| out of 10)?[*_`)\]]{{0,4}}\.?[*_`]{{0,3}}\Z"
)
_NOT_ALONE = re.compile(rf"(?:[0-9] ?[{_DASHES}]|[0-9] (?:to|or|and)|[{_SLASHES}]|\b(?:of|scale))[ (\[*_`]*\Z")
_OFFICIAL_RATING = re.compile(r"\b([1-9]|10)\b\s*\Z")
_LOOKED_AT = 1000  # characters at the end in which a rating and what stands before it must stand


def rating(text: str) -> int | None:
    """The rating from 1 to 10 that a judge ended with.

    "7/10" and "7 out of 10" are 7, "**8**" and "8." are 8; "3.5", "11", "0", "-5", "7-8", "7 or 8" and "8.5 / 10" are
    no rating.
    """
    ending = " ".join(after_thinking(text)[-_LOOKED_AT:].split())
    found = _RATING.search(ending)
    if found is None or _NOT_ALONE.search(ending[: found.start(1)]):
        return None
    value = int(found.group(1))
    return value if 1 <= value <= 10 else None


def rating_official(text: str) -> int | None:
    """The rating as RewardBench-2's own code reads it; `None` where that says −1.

    For parity with published numbers only: "7/10" is 10 and "-5" is 5.

    Source:
        allenai/reward-bench, its ratings of the Ties subset.
    """
    found = _OFFICIAL_RATING.search(text.strip())
    return int(found.group(1)) if found else None


_YES_NO = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}


def binary_verdict(text: str) -> bool | None:
    """The verdict of an aspect's judge: that of the last JSON object `{"reason", "verdict"}` with a `verdict`.

    1/0, "1"/"0", true/false and "yes"/"no" in any case are verdicts; 0.7, 2, −1, null and everything else is none.

    Returns:
        `True` for yes; `None` also where a verdict in no object stands behind the object: it may be a quotation.
    """
    for found in last_first(after_thinking(text)):
        if "verdict" in found.fields:
            return None if found.is_contested("verdict") else yes_or_no(found.fields["verdict"])
    return None


def yes_or_no(value: JSON) -> bool | None:
    """A verdict as a value of JSON: 1/0, true/false, "1"/"0", "yes"/"no" or "true"/"false" in any case."""
    if isinstance(value, str):
        return _YES_NO.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def verdict_reason(text: str) -> str | None:
    """The reason of the object that `binary_verdict` reads, `None` if there is none."""
    for found in last_first(after_thinking(text)):
        if "verdict" in found.fields:
            reason = found.fields.get("reason")
            return scrub(reason) if isinstance(reason, str) else None
    return None


_LONGEST_SCORE_LINE = 100


def feedback_score(text: str, scale: tuple[int, int] = (1, 5)) -> int | None:
    """The score of a rubric's judge: what stands on the line behind the last `[SCORE]`.

    That must be one integer of the scale and nothing else, perhaps in (), [] or markdown, with "/5" or "out of 5" (the
    highest score of the scale) or a final stop. "4.5", "3-4", "3 or 4", and "0" or "10" of 1 to 5 are no score.

    Args:
        text: the judge's text.
        scale: the lowest and the highest score.
    """
    return _behind_tag("SCORE", text, scale)


def prometheus_result(text: str, scale: tuple[int, int] = (1, 5)) -> int | None:
    """As `feedback_score`, behind the last `[RESULT]`: the format that Prometheus judges are trained in.

    Source:
        Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models (2023).
    """
    return _behind_tag("RESULT", text, scale)


def _behind_tag(tag: str, text: str, scale: tuple[int, int]) -> int | None:
    _, *behind = re.split(rf"\[{tag}\]", after_thinking(text), flags=re.IGNORECASE)
    line = re.sub(r"[*_`\s]+", " ", re.split(r"[\r\n]", behind[-1], maxsplit=1)[0]).strip() if behind else ""
    if not line or len(line) > _LONGEST_SCORE_LINE:
        return None
    low, high = scale
    of_highest = rf"(?: ?(?:/|out of) ?{high})?"
    number = rf"(-?[0-9]{{1,9}}){of_highest}"
    wrapped = rf"(?:{number}|\( ?{number} ?\){of_highest}|\[ ?{number} ?\]{of_highest})"
    found = re.fullmatch(rf"(?:: ?)?{wrapped} ?\.?", line)
    if found is None:
        return None
    value = int(next(group for group in found.groups() if group is not None))
    return value if low <= value <= high else None


# A tag in bold takes its asterisks with it; the last ones may be those at the end of the score's line.
_FEEDBACK = re.compile(r"(\*\*)?(?:\[FEEDBACK\]|^[ \t]*Feedback:)(?(1)(?:\*\*)?)", re.IGNORECASE | re.MULTILINE)
_SCORE_TAGS = re.compile(r"(?:\*\*)?\[(?:SCORE|RESULT)\]", re.IGNORECASE)


def feedback_text(text: str) -> str | None:
    """What a rubric's judge wrote in words: between `[FEEDBACK]` (or `Feedback:`) and the last `[SCORE]` (`[RESULT]`).

    The last `[FEEDBACK]` before that score begins it; without one, the text begins it; without a score, the text ends
    it. With neither, or if there are no words, there is no feedback.
    """
    span = _feedback_span(after_thinking(text))
    return None if span is None else span[1].strip(" \t\r\n") or None


def before_feedback(text: str) -> str:
    """What a rubric's judge wrote ahead of its last feedback, such as a critique of an earlier one."""
    span = _feedback_span(after_thinking(text))
    return "" if span is None else span[0].strip(" \t\r\n")


def _feedback_span(own: str) -> tuple[str, str] | None:
    """The text ahead of the feedback's tag, and the text from there to the score's."""
    scores = list(_SCORE_TAGS.finditer(own))
    until = own[: scores[-1].start()] if scores else own
    begins = list(_FEEDBACK.finditer(until))
    if begins:
        return until[: begins[-1].start()], until[begins[-1].end() :]
    return ("", until) if scores else None


def is_strict_feedback(text: str, output_format: RubricFormat, scale: tuple[int, int] = (1, 5)) -> bool:
    """Whether a judge kept to its format to the letter: feedback and score, once each, bare, and nothing else."""
    begins, tag = ("[FEEDBACK]", "[SCORE]") if output_format == "feedback_score" else ("Feedback:", "[RESULT]")
    opening, begin, body = after_thinking(text).strip().partition(begins)
    words, _, score = body.partition(tag)
    if opening or not begin or begins in words or not words.strip() or not words[0].isspace():
        return False
    number = re.fullmatch(r"[ \t]*(-?[0-9]{1,9})", score)
    return number is not None and scale[0] <= int(number[1]) <= scale[1]


class ScoreObject(NamedTuple):
    """A peer's score, and the reason that it gave."""

    score: int
    reasoning: str | None


_SCORE_IN_WORDS = re.compile(r"(-?[0-9]{1,9})(?:\.0+)? ?(?:%|(?:/|out of) ?([0-9]{1,9}))?")


def score_object(text: str, scale: tuple[int, int] = (0, 100)) -> ScoreObject | None:
    """The score of a peer: that of the last JSON object `{"reasoning", "score"}` whose score can be used.

    85, 85.0, "85", "85/100", "85 out of 100" and (of 0 to 100) "85%" are 85; 85.5, 150, -5, true, null and "n/a" are no
    score.

    Returns:
        `None` also where a score in no object stands behind the object: it may be a quotation.
    """
    for found in last_first(after_thinking(text)):
        score = _whole_score(found.fields.get("score"), scale)
        if score is not None:
            reasoning = found.fields.get("reasoning")
            words = scrub(reasoning) if isinstance(reasoning, str) else None
            return None if found.is_contested("score") else ScoreObject(score, words)
    return None


def _whole_score(value: JSON, scale: tuple[int, int]) -> int | None:
    low, high = scale
    if isinstance(value, str):
        found = _SCORE_IN_WORDS.fullmatch(value.strip())
        is_percent = found is not None and "%" in value
        if found is None or found[2] not in (None, str(high)) or (is_percent and scale != (0, 100)):
            return None
        value = int(found[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if low <= value <= high else None
