"""What is selected of a file: the best responses, all from a score on, or pairs; and why the others are not.

Guarantees: a response without a score is never taken, and never counts as 0. Equal responses to a
prompt are one: the first with a score. What is drawn where scores are equal depends on the seed,
the prompt and the text alone. Each response is either selected or has one reason, and so is each
prompt; the counts add up to all of them. The order is that of the prompts in the file. The same
file and seed give the same selection.

Pairs in which the chosen response is longer as often as it is shorter: judges prefer long answers,
and a policy that is trained on pairs learns that preference first. So of the pairs whose chosen
response is longer, and of those whose it is shorter, as many are kept as there are of the rarer
kind; which ones, is drawn by the seed. Pairs of equal length are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, TypeAlias

from judgegym.datasets.rows.task import digest_text
from judgegym.datasets.select.candidates import DECIMALS, Group, ResponseCandidate

SELECTED = "selected"
REASONS: Mapping[str, str] = {
    "judge_failed": "the judge failed",
    "unparsable": "the judge gave no verdict",
    "invalid_completion": "the response is empty or malformed",
    "policy_failed": "the policy failed",
    "equal_text": "the same text as another response to the prompt",
    "no_score": "no response to the prompt has a score",
    "too_few": "no two different responses to the prompt have a score",
    "tie": "a tie with other responses to the prompt",
    "margin": "no other response differs by the margin",
    "below": "below the least score",
    "not_best": "others to the prompt are better",
    "not_paired": "others to the prompt make the pair",
    "length_balance": "left out to balance the lengths",
    "max_pairs": "more pairs than --max_pairs",
}
"""Why responses and prompts are left out, in words."""
_STRONGEST = ("tie", "margin", "too_few", "below")
"""Reasons of a prompt, if its responses have them; before those of single responses."""

Pair: TypeAlias = "tuple[ResponseCandidate, ResponseCandidate]"
"""A chosen and a rejected response."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is taken of each prompt.

    Attributes:
        take: the best responses; all from `min_score` on; all with a score, labelled by whether it
            is `min_score` at least; or pairs.
        count: of the best, at most so many.
        min_score: no response below this score; of pairs no chosen one, and of labels no good one.
        margin: of pairs, the least difference of the scores; equal scores are no pair.
        per_prompt: the best response against the worst, or all pairs.
        length_balanced: chosen responses are longer than rejected ones as often as they are
            shorter.
        max_pairs: at most so many of the whole file, drawn.
    """

    take: Literal["best", "threshold", "labels", "pairs"] = "best"
    count: int = 1
    min_score: float | None = None
    margin: float = 0.0
    per_prompt: Literal["one", "all"] = "one"
    length_balanced: bool = False
    max_pairs: int | None = None

    def is_good(self, candidate: ResponseCandidate) -> bool:
        """Return whether a response's score is `min_score` at least, to nine decimals."""
        return self.min_score is None or require_score(candidate) >= round(self.min_score, DECIMALS)


def require_score(candidate: ResponseCandidate) -> float:
    """Return the score of a response that has one."""
    assert candidate.score is not None  # only responses with a score are compared
    return candidate.score


@dataclass(frozen=True, slots=True)
class Lengths:
    """By how many characters the chosen responses of pairs are longer than the rejected ones."""

    differences: Sequence[int] = ()

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair]) -> Lengths:
        """Return the differences of these pairs."""
        return cls([chosen.length - rejected.length for chosen, rejected in pairs])

    @property
    def longer_share(self) -> float | None:
        """In which share of the pairs of different length the chosen one is longer; `None` without such pairs."""
        longer, shorter = (
            sum(sign * difference > 0 for difference in self.differences) for sign in (1, -1)
        )
        return longer / (longer + shorter) if longer + shorter else None

    @property
    def description(self) -> str:
        """The share and the mean difference in words."""
        share = "none" if self.longer_share is None else f"{self.longer_share * 100:.1f} %"
        mean = sum(self.differences) / max(1, len(self.differences))
        return f"longer in {share} of those that differ, mean {mean:+,.1f} characters"


@dataclass(slots=True)
class Selection:
    """What is selected.

    Attributes:
        singles: the responses; empty for pairs.
        pairs: chosen and rejected responses.
        responses: how many responses are selected, and all others by reason.
        prompts: the same of prompts.
        lengths: of the pairs: before they were balanced, and after.
    """

    singles: list[ResponseCandidate] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    responses: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)
    lengths: tuple[Lengths, Lengths] = (Lengths(), Lengths())

    def __len__(self) -> int:
        """How many responses, or pairs, are selected."""
        return len(self.singles) + len(self.pairs)


@dataclass(frozen=True, slots=True)
class _DrawnPair:
    """A pair of a prompt, before the whole file is looked at; the least lots are kept."""

    pair: Pair
    group: int
    lot: bytes

    @property
    def length_difference(self) -> int:
        return self.pair[0].length - self.pair[1].length


def select(groups: Sequence[Group], rule: Rule, seed: int) -> Selection:
    """Apply a rule to all prompts."""
    selection, all_pairs, plain = Selection(), list[_DrawnPair](), list[Pair]()
    for number, group in enumerate(groups):
        usable, left = _find_usable(group)
        ranked = sorted(
            usable,
            key=lambda candidate: (-require_score(candidate), _draw_lot(seed, group, candidate)),
        )
        if rule.take == "pairs":
            pairs, score_pairs = _select_prompt_pairs(group, ranked, left, rule, seed)
            all_pairs += [_DrawnPair(pair, number, _draw_lot(seed, group, *pair)) for pair in pairs]
            plain += score_pairs
            is_taken = bool(pairs)
        else:
            singles = _select_singles(usable, ranked, left, rule)
            selection.singles += singles
            selection.responses[SELECTED] += len(singles)
            selection.prompts[SELECTED] += bool(singles)
            is_taken = bool(singles)
        selection.responses.update(left.values())
        if not is_taken:
            selection.prompts[_prompt_reason(group, left)] += 1
    kept_pairs, reason = _select_pairs(all_pairs, rule)
    selection.pairs = [drawn.pair for drawn in kept_pairs]
    selection.lengths = Lengths.from_pairs(plain), Lengths.from_pairs(selection.pairs)
    of_responses = (
        {candidate for drawn in pairs for candidate in drawn.pair}
        for pairs in (all_pairs, kept_pairs)
    )
    of_prompts = ({drawn.group for drawn in pairs} for pairs in (all_pairs, kept_pairs))
    for counts, (before, after) in (
        (selection.responses, of_responses),
        (selection.prompts, of_prompts),
    ):
        counts[SELECTED] += len(after)
        counts[reason] += len(before) - len(after)
    selection.responses, selection.prompts = +selection.responses, +selection.prompts  # none of 0
    return selection


def _draw_lot(seed: int, group: Group, *candidates: ResponseCandidate) -> bytes:
    """What a response of a prompt, or a pair, draws: the least wins."""
    drawn = digest_text(
        b"%d:" % seed + group.key + b"".join(candidate.text for candidate in candidates), 8
    )
    return drawn[::-1]


def _find_usable(group: Group) -> tuple[list[ResponseCandidate], dict[ResponseCandidate, str]]:
    """Return the different responses with a score, and the reasons of the others."""
    usable: dict[bytes, ResponseCandidate] = {}
    left: dict[ResponseCandidate, str] = {}
    for candidate in group.candidates:
        if candidate.score is None:
            left[candidate] = candidate.status
        elif usable.setdefault(candidate.text, candidate) is not candidate:
            left[candidate] = "equal_text"
    return list(usable.values()), left


def _prompt_reason(group: Group, left: Mapping[ResponseCandidate, str]) -> str:
    """Why nothing of a prompt is taken."""
    reasons = {left[candidate] for candidate in group.candidates if candidate.score is not None}
    if not reasons:
        return "no_score"
    return next((reason for reason in _STRONGEST if reason in reasons), "not_best")


def _select_singles(
    usable: list[ResponseCandidate],
    ranked: list[ResponseCandidate],
    left: dict[ResponseCandidate, str],
    rule: Rule,
) -> list[ResponseCandidate]:
    """The responses that are taken, the best first; or in their order, where all good ones are. `left` gets reasons."""
    if rule.take == "labels":
        return usable
    good = [
        candidate
        for candidate in (ranked if rule.take == "best" else usable)
        if rule.is_good(candidate)
    ]
    left |= {candidate: "below" for candidate in usable if not rule.is_good(candidate)}
    if rule.take == "threshold":
        return good
    taken, lower = good[: rule.count], good[rule.count :]
    left |= {
        candidate: "tie" if candidate.score == taken[-1].score else "not_best"
        for candidate in lower
    }
    return taken


def _select_prompt_pairs(
    group: Group,
    ranked: list[ResponseCandidate],
    left: dict[ResponseCandidate, str],
    rule: Rule,
    seed: int,
) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs that are taken, and those that would be without a look at lengths. `left` gets reasons."""
    margin = round(rule.margin, DECIMALS)
    pair_differences = (
        (pair, round(require_score(pair[0]) - require_score(pair[1]), DECIMALS))
        for pair in combinations(ranked, 2)
    )
    possible = [
        pair for pair, difference in pair_differences if difference > 0 and difference >= margin
    ]
    good = [pair for pair in possible if rule.is_good(pair[0])]
    if not good:
        is_tie = bool(ranked) and ranked[0].score == ranked[-1].score
        why = (
            "too_few" if len(ranked) < 2 else "below" if possible else "tie" if is_tie else "margin"
        )
        left |= dict.fromkeys(ranked, why)
        return [], []
    taken = plain = good
    if rule.per_prompt == "one":
        plain = [_best_pair(group, good, seed, by_length=False)]
        taken = [_best_pair(group, good, seed, by_length=True)] if rule.length_balanced else plain
    paired, pairable = (
        {candidate for pair in pairs for candidate in pair} for pairs in (taken, good)
    )
    left |= {
        response: "not_paired" if response in pairable else "margin"
        for response in ranked
        if response not in paired
    }
    return taken, plain


def _best_pair(group: Group, good: Sequence[Pair], seed: int, *, by_length: bool) -> Pair:
    """The best response against the worst; with `by_length` against the one of the most similar length that is good."""

    def order(pair: Pair) -> tuple[float, int, float, bytes]:
        apart = abs(pair[0].length - pair[1].length) if by_length else 0
        return -require_score(pair[0]), apart, require_score(pair[1]), _draw_lot(seed, group, *pair)

    return min(good, key=order)


def _select_pairs(all_pairs: Sequence[_DrawnPair], rule: Rule) -> tuple[list[_DrawnPair], str]:
    """Return the pairs that the whole file keeps, in their order, and the reason of the others."""
    limit, drawn = rule.max_pairs, sorted(all_pairs, key=lambda pair: pair.lot)
    reason = "length_balance" if rule.length_balanced else "max_pairs"
    if rule.length_balanced:
        longer, shorter = (
            [pair for pair in drawn if sign * pair.length_difference > 0] for sign in (1, -1)
        )
        equal = [pair for pair in drawn if pair.length_difference == 0]
        side_count, same = min(len(longer), len(shorter)), len(equal)
        if limit is not None and 2 * side_count + same > limit:
            side_count = side_count * limit // (2 * side_count + same)
            same = min(same, limit - 2 * side_count)
        drawn = [*longer[:side_count], *shorter[:side_count], *equal[:same]]
    elif limit is not None:
        drawn = drawn[:limit]
    kept_ids = {id(pair) for pair in drawn}
    return [pair for pair in all_pairs if id(pair) in kept_ids], reason
