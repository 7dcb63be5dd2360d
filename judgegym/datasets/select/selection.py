"""Select responses: the best, all above a score, or pairs; and record why others are left out.

Guarantees: a response without a score is never taken, and never counts as 0. Of equal responses to
a prompt only the first with a score counts. Ties are broken by the seed, the prompt and the text
alone. Each response, and each prompt, is either selected or has one reason; the counts add up. The
order is that of the prompts in the file. The same file and seed give the same selection.

Length balance: judges prefer long answers, and a policy trained on pairs learns that preference
first. So equally many pairs are kept whose chosen response is longer and whose chosen response is
shorter, as many as there are of the rarer kind, drawn by the seed. Pairs of equal length are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
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
"""The reasons why responses and prompts are left out, in words."""
_STRONGEST = ("tie", "margin", "too_few", "below")
"""Reasons of responses that become the reason of their prompt, the strongest first."""

Pair: TypeAlias = "tuple[ResponseCandidate, ResponseCandidate]"
"""A chosen and a rejected response."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which responses to a prompt are taken.

    Attributes:
        take: the best responses; all with at least `min_score`; all with a score, labelled good
            from `min_score` on; or pairs.
        count: the most responses per prompt, for `best`.
        min_score: the least score of a response; of a pair's chosen response; of a good label.
        margin: the least difference of the scores of a pair; equal scores are no pair.
        per_prompt: the best response against the worst, or all pairs.
        length_balanced: chosen responses are longer than rejected ones as often as they are
            shorter.
        max_pairs: the most pairs of the whole file, drawn at random.
    """

    take: Literal["best", "threshold", "labels", "pairs"] = "best"
    count: int = 1
    min_score: float | None = None
    margin: float = 0.0
    per_prompt: Literal["one", "all"] = "one"
    length_balanced: bool = False
    max_pairs: int | None = None

    def is_good(self, candidate: ResponseCandidate) -> bool:
        """Return whether a response's score is at least `min_score`, to nine decimals."""
        return self.min_score is None or require_score(candidate) >= round(self.min_score, DECIMALS)


def require_score(candidate: ResponseCandidate) -> float:
    """Return the score of a response that has one."""
    assert candidate.score is not None  # only responses with a score are compared
    return candidate.score


@dataclass(frozen=True, slots=True)
class Lengths:
    """Differences in length between chosen and rejected responses, in characters."""

    differences: Sequence[int] = ()

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair]) -> Lengths:
        """Compute the differences of pairs."""
        return cls([chosen.length - rejected.length for chosen, rejected in pairs])

    @property
    def longer_share(self) -> float | None:
        """The share of pairs with a longer chosen response, among those of different length."""
        longer, shorter = (
            sum(sign * difference > 0 for difference in self.differences) for sign in (1, -1)
        )
        if longer + shorter:
            return longer / (longer + shorter)
        return None

    @property
    def description(self) -> str:
        """The share and the mean difference in words."""
        share = "none" if self.longer_share is None else f"{self.longer_share * 100:.1f} %"
        mean = sum(self.differences) / max(1, len(self.differences))
        return f"longer in {share} of those that differ, mean {mean:+,.1f} characters"


@dataclass(slots=True)
class Selection:
    """The selected responses, and counts of the others.

    Attributes:
        singles: the selected responses; empty for pairs.
        pairs: chosen and rejected responses.
        responses: the number of selected responses, and of all others by reason.
        prompts: the same for prompts.
        lengths: the lengths of the pairs before balancing and after.
    """

    singles: list[ResponseCandidate] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    responses: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)
    lengths: tuple[Lengths, Lengths] = (Lengths(), Lengths())

    def __len__(self) -> int:
        """Return the number of selected responses or pairs."""
        return len(self.singles) + len(self.pairs)


@dataclass(frozen=True, slots=True)
class _DrawnPair:
    """A pair of a prompt before the limits of the whole file apply; the least lots are kept."""

    pair: Pair
    group: int
    lot: bytes

    @property
    def length_difference(self) -> int:
        return self.pair[0].length - self.pair[1].length


def select(groups: Sequence[Group], rule: Rule, seed: int) -> Selection:
    """Apply a rule to all prompts."""
    selection = Selection()
    all_pairs = list[_DrawnPair]()
    plain = list[Pair]()
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
        {*chain.from_iterable(drawn.pair for drawn in pairs)} for pairs in (all_pairs, kept_pairs)
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
    """Return the lot of a response or a pair; the least wins."""
    drawn = digest_text(
        b"%d:" % seed + group.key + b"".join(candidate.text for candidate in candidates), 8
    )
    return drawn[::-1]


def _find_usable(group: Group) -> tuple[list[ResponseCandidate], dict[ResponseCandidate, str]]:
    """Return the distinct responses with a score, and the reasons of the others."""
    usable: dict[bytes, ResponseCandidate] = {}
    left: dict[ResponseCandidate, str] = {}
    for candidate in group.candidates:
        if candidate.score is None:
            left[candidate] = candidate.status
        elif usable.setdefault(candidate.text, candidate) is not candidate:
            left[candidate] = "equal_text"
    return list(usable.values()), left


def _prompt_reason(group: Group, left: Mapping[ResponseCandidate, str]) -> str:
    """Return the reason why nothing of a prompt is taken."""
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
    """Return the responses to take; add the reasons of the others to `left`."""
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
    """Return the pairs to take, and those by scores alone; add the others' reasons to `left`."""
    margin = round(rule.margin, DECIMALS)
    pair_differences = (
        (pair, round(require_score(pair[0]) - require_score(pair[1]), DECIMALS))
        for pair in combinations(ranked, 2)
    )
    higher = ((pair, difference) for pair, difference in pair_differences if difference > 0)
    possible = [pair for pair, difference in higher if difference >= margin]
    good = [pair for pair in possible if rule.is_good(pair[0])]
    if not good:
        is_tie = bool(ranked) and ranked[0].score == ranked[-1].score
        if len(ranked) < 2:
            why = "too_few"
        elif possible:
            why = "below"
        elif is_tie:
            why = "tie"
        else:
            why = "margin"
        left |= dict.fromkeys(ranked, why)
        return [], []
    taken = plain = good
    if rule.per_prompt == "one":
        plain = [_best_pair(group, good, seed, by_length=False)]
        taken = [_best_pair(group, good, seed, by_length=True)] if rule.length_balanced else plain
    paired, pairable = ({*chain.from_iterable(pairs)} for pairs in (taken, good))
    left |= {
        response: "not_paired" if response in pairable else "margin"
        for response in ranked
        if response not in paired
    }
    return taken, plain


def _best_pair(group: Group, good: Sequence[Pair], seed: int, *, by_length: bool) -> Pair:
    """Return the best response against the worst, or with `by_length` the nearest in length."""

    def order(pair: Pair) -> tuple[float, int, float, bytes]:
        apart = abs(pair[0].length - pair[1].length) if by_length else 0
        return -require_score(pair[0]), apart, require_score(pair[1]), _draw_lot(seed, group, *pair)

    return min(good, key=order)


def _select_pairs(all_pairs: Sequence[_DrawnPair], rule: Rule) -> tuple[list[_DrawnPair], str]:
    """Return the pairs that are kept of the whole file, in order, and the reason of the others."""
    limit = rule.max_pairs
    drawn = sorted(all_pairs, key=lambda pair: pair.lot)
    reason = "length_balance" if rule.length_balanced else "max_pairs"
    if rule.length_balanced:
        longer, shorter = (
            [pair for pair in drawn if sign * pair.length_difference > 0] for sign in (1, -1)
        )
        equal = [pair for pair in drawn if pair.length_difference == 0]
        side_count = min(len(longer), len(shorter))
        same = len(equal)
        if limit is not None and 2 * side_count + same > limit:
            side_count = side_count * limit // (2 * side_count + same)
            same = min(same, limit - 2 * side_count)
        drawn = [*longer[:side_count], *shorter[:side_count], *equal[:same]]
    elif limit is not None:
        drawn = drawn[:limit]
    kept_ids = {id(pair) for pair in drawn}
    return [pair for pair in all_pairs if id(pair) in kept_ids], reason
