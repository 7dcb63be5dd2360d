"""The rating from 1 to 10 of one response."""

from __future__ import annotations

import re
from collections.abc import Iterator

from judgegym.judges.parsing.candidates import VerdictCandidate, VerdictKind, last_candidate
from judgegym.judges.parsing.verdict_form import VerdictForm, integer, text_field
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.judges.parsing.verdicts.whole_score import whole_score

# A number at the very end, alone or as "7/10" or "7 out of 10", optionally in markdown or brackets, with a final stop.
# The text before it must not make it part of another number, a negative number, a range or a scale.
_SLASHES = r"/\u2044\u2215\uff0f"
_DASHES = r"\-\u2010-\u2015\u2212"
_RATING = re.compile(
    rf"(?:^|[^\w.,+{_SLASHES}{_DASHES}])"
    rf"[*_`(\[]{{0,4}}([1-9][0-9]?)[*_`)\]]{{0,3}}(?: ?[{_SLASHES}] ?10| out of 10)?[*_`)\]]{{0,4}}\.?[*_`]{{0,3}}\Z"
)
_NOT_ALONE = re.compile(
    rf"(?:[0-9] ?[{_DASHES}]|[0-9] (?:to|or|and)|[{_SLASHES}]|(?<![^\W\d_])(?:of|scale))[ (\[*_`]*\Z"
)
_OFFICIAL_RATING = re.compile(r"\b([1-9]|10)\b\Z")
_LOOKED_AT = 1000  # characters at the end that are read

SCALE = 1, 10
RATING_FORM = VerdictForm("rating", {"explanation": text_field("your judgement in words"), "rating": integer(*SCALE)})


@verdict_parser
def rating(own: str) -> ParsedVerdict[int] | None:
    """The rating from 1 to 10 that a judge ended with.

    "7/10" and "7 out of 10" are 7, "**8**" and "8." are 8; "3.5", "11", "0", "-5", "7-8", "7 or 8" and "8.5 / 10" are
    no rating. An object of `RATING_FORM` at the end is read, too.
    """
    return last_candidate(own, _KIND)


def _in_words(words: str) -> Iterator[VerdictCandidate[int]]:
    """The rating at the end, and before it the last one at the end of a line."""
    last = _at_the_end(words)
    if last is not None:
        yield last
        return
    end = len(words)
    for line in reversed(words.splitlines(keepends=True)):
        end -= len(line)
        found = _at_the_end(line)
        if found is not None:
            yield VerdictCandidate((found.at[0] + end, found.at[1] + end), found.value, stated=True)
            return


def _at_the_end(own: str) -> VerdictCandidate[int] | None:
    ending = " ".join(own[-_LOOKED_AT:].split())
    match = _RATING.search(ending)
    if match is None or _NOT_ALONE.search(ending[: match.start(1)]):
        return None
    value = int(match[1])
    if not 1 <= value <= 10:
        return None
    end = _end_before(own, len(ending) - match.end(1) - ending.count(" ", match.end(1)))
    return VerdictCandidate((end - len(match[1]), end), value, taken=True, stated=True)


def _end_before(text: str, signs: int) -> int:
    """Where what stands before the last so many signs of a text ends; white space is no sign."""
    end = len(text.rstrip())
    for _ in range(signs):
        end = len(text[: end - 1].rstrip())
    return end


_KIND = VerdictKind("rating", lambda fields: whole_score(fields["rating"], SCALE), _in_words, in_text_too=True)


def rating_official(text: str) -> int | None:
    """The rating as RewardBench-2's own code reads it; `None` where that says −1.

    For parity with published numbers only: "7/10" is 10 and "-5" is 5.

    Source:
        allenai/reward-bench, its ratings of the Ties subset.
    """
    ending = text.rstrip()
    match = _OFFICIAL_RATING.search(ending, max(0, len(ending) - 2))
    return int(match.group(1)) if match else None
