"""The score of a peer, in a JSON object."""

from __future__ import annotations

from typing import NamedTuple

from judges.llm.wire import scrub
from judges.parsing.found import Found, verdict_parser
from judges.parsing.json_objects import last_first
from judges.parsing.verdict_form import VerdictForm, integer, text_field
from judges.parsing.verdicts.whole_score import whole_score


class ScoreObject(NamedTuple):
    """A peer's score and its reason."""

    score: int
    reasoning: str | None


PEER_FORM = VerdictForm(
    "peer_score", {"reasoning": text_field("one-sentence justification referencing rubric"), "score": integer(0, 100)}
)


@verdict_parser
def score_object(own: str, scale: tuple[int, int] = (0, 100)) -> Found[ScoreObject] | None:
    """The score of a peer: that of the last JSON object `{"reasoning", "score"}` whose score is usable (`whole_score`).

    Returns:
        `None` also if a score outside of an object follows: the object may be a quotation.
    """
    for match in last_first(own):
        score = whole_score(match.fields.get("score"), scale)
        if score is not None:
            reasoning = match.fields.get("reasoning")
            words = scrub(reasoning) if isinstance(reasoning, str) else None
            return None if match.is_contested("score") else Found(ScoreObject(score, words), match.at)
    return None
