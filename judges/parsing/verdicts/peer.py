"""The score of a peer, in a JSON object."""

from __future__ import annotations

import re
from typing import NamedTuple

from judges.llm.wire import JSON, scrub
from judges.parsing.found import Found, verdict_parser
from judges.parsing.json_objects import last_first


class ScoreObject(NamedTuple):
    """A peer's score and its reason."""

    score: int
    reasoning: str | None


_SCORE_IN_WORDS = re.compile(r"(-?[0-9]{1,9})(?:\.0+)? ?(?:%|(?:/|out of) ?([0-9]{1,9}))?")


@verdict_parser
def score_object(own: str, scale: tuple[int, int] = (0, 100)) -> Found[ScoreObject] | None:
    """The score of a peer: that of the last JSON object `{"reasoning", "score"}` whose score is usable.

    85, 85.0, "85", "85/100", "85 out of 100" and (of 0 to 100) "85%" are 85; 85.5, 150, -5, true, null and "n/a" are
    not usable.

    Returns:
        `None` also if a score outside of an object follows: the object may be a quotation.
    """
    for match in last_first(own):
        score = _whole_score(match.fields.get("score"), scale)
        if score is not None:
            reasoning = match.fields.get("reasoning")
            words = scrub(reasoning) if isinstance(reasoning, str) else None
            return None if match.is_contested("score") else Found(ScoreObject(score, words), match.at)
    return None


def _whole_score(value: JSON, scale: tuple[int, int]) -> int | None:
    low, high = scale
    if isinstance(value, str):
        match = _SCORE_IN_WORDS.fullmatch(value.strip())
        is_percent = match is not None and "%" in value
        if match is None or match[2] not in (None, str(high)) or (is_percent and scale != (0, 100)):
            return None
        value = int(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if low <= value <= high else None
