"""What is taken of one prompt's responses: the best ones, all from a score on, or pairs; and why the others are not.

Guarantees: a response without a score is never taken, and never counts as 0. Equal responses to a prompt are one: the
first with a score. What is drawn where scores are equal depends on the seed, the prompt and the text alone. Every
response that is not taken has one reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, TypeAlias

from judgegym.datasets.rows.task import digest_of
from judgegym.datasets.select.candidates import DECIMALS, Group, ResponseCandidate

EQUAL, TOO_FEW, TIE, MARGIN = "equal_text", "too_few", "tie", "margin"
NOT_BEST, BELOW, NOT_PAIRED = "not_best", "below", "not_paired"
NO_SCORE, LENGTH_BALANCE, MAX_PAIRS = "no_score", "length_balance", "max_pairs"

REASONS: Mapping[str, str] = {
    "judge_failed": "the judge failed",
    "unparsable": "the judge gave no verdict",
    "invalid_completion": "the response is empty or malformed",
    "policy_failed": "the policy failed",
    EQUAL: "the same text as another response to the prompt",
    NO_SCORE: "no response to the prompt has a score",
    TOO_FEW: "no two different responses to the prompt have a score",
    TIE: "a tie with other responses to the prompt",
    MARGIN: "no other response differs by the margin",
    BELOW: "below the least score",
    NOT_BEST: "others to the prompt are better",
    NOT_PAIRED: "others to the prompt make the pair",
    LENGTH_BALANCE: "left out to balance the lengths",
    MAX_PAIRS: "more pairs than --max_pairs",
}
"""Why responses and prompts are left out, in words."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best responses to each prompt.

    Attributes:
        count: at most so many.
        min_score: none below this score.
    """

    count: int = 1
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class AtLeast:
    """All responses from a score on."""

    score: float


@dataclass(frozen=True, slots=True)
class Labels:
    """All responses with a score, each with the label whether it has at least this one."""

    score: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """Chosen and rejected responses to one prompt.

    Attributes:
        margin: the least difference of their scores; equal scores are no pair.
        per_prompt: the best against the worst, or all.
        min_score: no chosen one below this score.
        length_balanced: chosen ones are longer than rejected ones as often as they are shorter.
        max_pairs: at most so many of the whole file, drawn.
    """

    margin: float = 0.0
    per_prompt: Literal["one", "all"] = "one"
    min_score: float | None = None
    length_balanced: bool = False
    max_pairs: int | None = None


Rule: TypeAlias = "Best | AtLeast | Labels | Pairs"
Pair: TypeAlias = "tuple[ResponseCandidate, ResponseCandidate]"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What is taken of one prompt.

    Attributes:
        singles: the responses that are taken, the best first.
        pairs: chosen and rejected.
        left: the reason of every response that is not taken.
        plain: the pairs that would have been taken without a look at lengths.
    """

    singles: tuple[ResponseCandidate, ...] = ()
    pairs: tuple[Pair, ...] = ()
    left: Mapping[int, str] = field(default_factory=dict)
    plain: tuple[Pair, ...] = ()


def lot(seed: int, key: bytes, *candidates: ResponseCandidate) -> int:
    """The number of 64 bits that a response of a prompt, or a pair, draws: the least wins."""
    texts = b"".join(candidate.text.to_bytes(8, "little") for candidate in candidates)
    return int.from_bytes(digest_of(b"%d:" % seed + key + texts, 8), "little")


def take(group: Group, rule: Rule, seed: int) -> RuleResult:
    """Apply a rule to the responses of one prompt."""
    usable, left = _usable(group)
    if isinstance(rule, Best):
        return _best(group, usable, left, rule, seed)
    if isinstance(rule, AtLeast):
        return _at_least(usable, left, rule)
    if isinstance(rule, Labels):
        return RuleResult(tuple(usable), left=left)
    return _pairs(group, usable, left, rule, seed)


def _usable(group: Group) -> tuple[list[ResponseCandidate], dict[int, str]]:
    """The different responses with a score, and the reasons of the others."""
    usable: list[ResponseCandidate] = []
    left: dict[int, str] = {}
    seen: set[int] = set()
    for candidate in group.candidates:
        if candidate.score is None:
            left[candidate.place] = candidate.status
        elif candidate.text in seen:
            left[candidate.place] = EQUAL
        else:
            seen.add(candidate.text)
            usable.append(candidate)
    return usable, left


def score_of(candidate: ResponseCandidate) -> float:
    """The score of a response that has one."""
    if candidate.score is None:
        raise ValueError(f"response {candidate.place} has no score")
    return candidate.score


def is_below(candidate: ResponseCandidate, least: float | None) -> bool:
    """Whether its score is less than this one, to nine decimals."""
    return least is not None and score_of(candidate) < round(least, DECIMALS)


def _best(group: Group, usable: Sequence[ResponseCandidate], left: dict[int, str], rule: Best, seed: int) -> RuleResult:
    ranked = sorted(usable, key=lambda each: (-score_of(each), lot(seed, group.key, each)))
    good = [candidate for candidate in ranked if not is_below(candidate, rule.min_score)]
    taken, rest = good[: rule.count], good[rule.count :]
    left |= {candidate.place: BELOW for candidate in ranked[len(good) :]}
    left |= {each.place: TIE if each.score == taken[-1].score else NOT_BEST for each in rest}
    return RuleResult(tuple(taken), left=left)


def _at_least(usable: Sequence[ResponseCandidate], left: dict[int, str], rule: AtLeast) -> RuleResult:
    taken = tuple(candidate for candidate in usable if not is_below(candidate, rule.score))
    return RuleResult(taken, left=left | {each.place: BELOW for each in usable if is_below(each, rule.score)})


def difference(pair: Pair) -> float:
    """By how much the chosen response's score is higher."""
    return round(score_of(pair[0]) - score_of(pair[1]), DECIMALS)


def _pairs(
    group: Group, usable: Sequence[ResponseCandidate], left: dict[int, str], rule: Pairs, seed: int
) -> RuleResult:
    ordered = sorted(usable, key=lambda each: (-score_of(each), lot(seed, group.key, each)))
    margin = round(rule.margin, DECIMALS)
    possible = [pair for pair in combinations(ordered, 2) if difference(pair) > 0 and difference(pair) >= margin]
    good = [pair for pair in possible if not is_below(pair[0], rule.min_score)]
    if not good:
        reason = _why_none(ordered, bool(possible))
        return RuleResult(left=left | {candidate.place: reason for candidate in ordered})
    taken = plain = tuple(good)
    if rule.per_prompt == "one":
        lengths = rule.length_balanced
        taken, plain = (_one(group, good, seed, by_length=lengths),), (_one(group, good, seed, by_length=False),)
    paired = {candidate.place for pair in taken for candidate in pair}
    able = {candidate.place for pair in good for candidate in pair}
    for candidate in ordered:
        if candidate.place not in paired:
            left[candidate.place] = NOT_PAIRED if candidate.place in able else MARGIN
    return RuleResult(pairs=taken, left=left, plain=plain)


def _why_none(ordered: Sequence[ResponseCandidate], is_possible: bool) -> str:
    if len(ordered) < 2:
        return TOO_FEW
    if is_possible:
        return BELOW
    return TIE if ordered[0].score == ordered[-1].score else MARGIN


def _one(group: Group, good: Sequence[Pair], seed: int, *, by_length: bool) -> Pair:
    """The best response against the worst; with `by_length` against the one of the most similar length that is good."""

    def order(pair: Pair) -> tuple[int, float, int]:
        apart = abs(pair[0].length - pair[1].length) if by_length else 0
        return apart, score_of(pair[1]), lot(seed, group.key, *pair)

    highest = max(score_of(pair[0]) for pair in good)
    return min((pair for pair in good if pair[0].score == highest), key=order)
