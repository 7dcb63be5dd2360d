"""Votes on one aspect, and the verdict that a majority of them comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judges.aspects.prompt import Aspect
from judges.aspects.settings import effective_strictness
from judges.parsing.verdicts import binary_verdict, verdict_reason


class AspectVerdict(NamedTuple):
    """What a judge's text says: yes or no, and the reason if it gave one."""

    yes: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class CastVote:
    """One judge call: its verdict (`None` if it has none), its reason, the judge's whole text, and what went wrong."""

    yes: bool | None
    reason: str | None
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AspectDetail:
    """How an aspect's verdict came about.

    Attributes:
        aspect: its name.
        yes: the majority's verdict; `None` without a majority.
        yes_share: share of yes among the votes that have a verdict; `None` if none has.
        agreement: share of those votes that agree with the majority; `None` without a majority, or once self-critique
            has reversed it.
        reason: why the verdict is what it is: the majority's reasons, a line each.
        votes: every call, in the order of its number; those without a verdict were asked for again.
        strictness_requested: votes that were asked for.
        strictness_effective: the odd number of votes that a majority is of.
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
    """The verdict that a judge's text ends with, and its reason.

    >>> read_verdict('{"reason": "It is safe.", "verdict": 0}')
    AspectVerdict(yes=False, reason='It is safe.')
    """
    yes = binary_verdict(text)
    return None if yes is None else AspectVerdict(yes, verdict_reason(text))


def cast_vote(text: str, verdict: AspectVerdict | None, error: str | None = None) -> CastVote:
    """The vote that a judge's text with this verdict is; one without a verdict has an error."""
    if verdict is None:
        return CastVote(None, None, text, error or "no verdict could be read")
    return CastVote(verdict.yes, verdict.reason, text)


def count_votes(aspect: Aspect, votes: Sequence[CastVote], strictness: int) -> AspectDetail:
    """What votes come to: a verdict only where more than half of the effective strictness agree."""
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
