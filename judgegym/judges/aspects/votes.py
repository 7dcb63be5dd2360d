"""Votes on one aspect, and the verdict of their majority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.aspects.settings import effective_strictness
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.judges.parsing.verdicts import binary_verdict, verdict_reason


class AspectVerdict(NamedTuple):
    """The verdict in a judge's text, yes or no, and its reason if there is one."""

    yes: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class CastVote:
    """The result of one judge call: its verdict (`None` without one), its reason, the judge's text, and the error."""

    yes: bool | None
    reason: str | None
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AspectDetail:
    """An aspect's verdict with its votes.

    Attributes:
        aspect: the name of the aspect.
        yes: the majority's verdict; `None` without a majority.
        yes_share: share of yes among the votes with a verdict; `None` if no vote has one.
        agreement: share of those votes that agree with the majority; `None` without a majority, or if self-critique
            has reversed it.
        reason: the reasons of the majority, one per line.
        votes: every call, in the order of its number; a call without a verdict was repeated.
        strictness_requested: the `strictness` of the settings.
        strictness_effective: the odd number of votes of which a majority is taken.
    """

    aspect: str
    yes: bool | None
    yes_share: float | None
    agreement: float | None
    reason: str
    votes: tuple[CastVote, ...]
    strictness_requested: int
    strictness_effective: int

    @property
    def redrawn(self) -> int:
        """Calls that had no verdict."""
        return sum(vote.yes is None for vote in self.votes)


def read_verdict(text: str) -> AspectVerdict | None:
    """The verdict at the end of a judge's text, and its reason.

    >>> read_verdict('{"reason": "It is safe.", "verdict": 0}')
    AspectVerdict(yes=False, reason='It is safe.')
    """
    found = find_verdict(text)
    return None if found is None else found.value


def find_verdict(text: str) -> ParsedVerdict[AspectVerdict] | None:
    """The same, with its place: that of the object that holds both."""
    yes = binary_verdict.find(text)
    return None if yes is None else yes.but(AspectVerdict(yes.value, verdict_reason(text)))


def cast_vote(text: str, verdict: AspectVerdict | None, error: str | None = None) -> CastVote:
    """The vote of a judge's text with this verdict; without a verdict it has an error."""
    if verdict is None:
        return CastVote(None, None, text, error or "no verdict could be read")
    return CastVote(verdict.yes, verdict.reason, text)


def count_votes(aspect: Aspect, votes: Sequence[CastVote], strictness: int) -> AspectDetail:
    """Count the votes; there is a verdict only if more than half of the effective strictness agree."""
    effective = effective_strictness(strictness)
    verdicts = [vote.yes for vote in votes if vote.yes is not None]
    yes = sum(verdicts)
    leading = max(yes, len(verdicts) - yes)
    decided = leading > effective // 2
    verdict = yes == leading if decided else None
    reasons = [vote.reason or vote.text for vote in votes if vote.yes is not None and vote.yes == verdict]
    return AspectDetail(
        aspect=aspect.name,
        yes=verdict,
        yes_share=yes / len(verdicts) if verdicts else None,
        agreement=leading / len(verdicts) if decided else None,
        reason="\n".join(reasons),
        votes=tuple(votes),
        strictness_requested=strictness,
        strictness_effective=effective,
    )
