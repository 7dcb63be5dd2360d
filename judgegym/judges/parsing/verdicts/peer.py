"""The score of a peer, in a JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from judgegym.judges.parsing.candidates import VerdictCandidate, VerdictKind, last_candidate
from judgegym.judges.parsing.json_objects import decoded
from judgegym.judges.parsing.near_misses import NOTHING, NUMBER, NUMBER_WORD, SCORE, NamedValues, folded, number_lists
from judgegym.judges.parsing.verdict_form import VerdictForm, integer, text_field
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.judges.parsing.verdicts.whole_score import score_in_words, whole_score
from judgegym.llm.wire import scrub


class ScoreObject(NamedTuple):
    """A peer's score and its reason."""

    score: int
    reasoning: str | None


PEER_FORM = VerdictForm(
    "peer_score", {"reasoning": text_field("one-sentence justification referencing rubric"), "score": integer(0, 100)}
)
_NAMED = NamedValues(SCORE, rf"{NUMBER}|{NUMBER_WORD}|{NOTHING}", "score")


@verdict_parser
def score_object(own: str, scale: tuple[int, int] = (0, 100)) -> ParsedVerdict[ScoreObject] | None:
    """The score of a peer, in a JSON object `{"reasoning", "score"}`: the last candidate of the text.

    Returns:
        `None` also if its score is not usable (`whole_score`), or the object may be a quotation
        (`judgegym.judges.parsing.candidates`).
    """

    def in_words(words: str) -> Iterator[VerdictCandidate[int]]:
        plain = folded(words)
        yield from number_lists(plain)
        yield from _NAMED.in_words(plain, lambda value: score_in_words(value, scale))

    found = last_candidate(own, VerdictKind("score", lambda fields: whole_score(fields["score"], scale), in_words))
    if found is None or found.at is None:
        return None
    reasoning = (decoded(own[slice(*found.at)]) or {}).get("reasoning")
    return found.but(ScoreObject(found.value, scrub(reasoning) if isinstance(reasoning, str) else None))
