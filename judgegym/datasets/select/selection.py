"""What is selected of a whole file, and the reason for everything that is not.

Guarantees: each response is either selected or has one reason, and so is each prompt; the counts add up to all of
them. The order is that of the prompts in the file. The same file and seed give the same selection.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from judgegym.datasets.select.balance import Lengths, balanced, drawn, lengths_of
from judgegym.datasets.select.candidates import DECIMALS, Candidates, Group
from judgegym.datasets.select.rules import (
    BELOW,
    LENGTH_BALANCE,
    MARGIN,
    MAX_PAIRS,
    NO_SCORE,
    NOT_BEST,
    NOT_PAIRED,
    TIE,
    TOO_FEW,
    Pairs,
    Rule,
    RuleResult,
    lot,
    take,
)

_STRONGEST = (TIE, MARGIN, TOO_FEW, BELOW)
"""Reasons of a prompt, if its responses have them; before those of single responses."""


@dataclass(slots=True)
class Selection:
    """What is selected.

    Attributes:
        singles: the places of the responses; empty for pairs.
        chosen: the place of each pair's better response.
        rejected: that of its worse one.
        responses: how many responses there are; those that are selected, and all others by reason.
        prompts: the same of prompts.
        lengths: of the pairs: before they were balanced, and after.
    """

    singles: array[int] = field(default_factory=lambda: array("q"))
    chosen: array[int] = field(default_factory=lambda: array("q"))
    rejected: array[int] = field(default_factory=lambda: array("q"))
    responses: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)
    lengths: tuple[Lengths, Lengths] = (Lengths(), Lengths())

    def __len__(self) -> int:
        """How many responses, or pairs, are selected."""
        return len(self.singles) + len(self.chosen)


SELECTED = "selected"


def select(candidates: Candidates, rule: Rule, seed: int) -> Selection:
    """Apply a rule to all prompts."""
    if isinstance(rule, Pairs):
        return _pairs(candidates, rule, seed)
    selection = Selection()
    for group in candidates:
        taken = take(group, rule, seed)
        selection.singles.extend(candidate.place for candidate in taken.singles)
        selection.responses.update(taken.left.values())
        if taken.singles:
            selection.responses[SELECTED] += len(taken.singles)
        selection.prompts[SELECTED if taken.singles else _reason(group, taken.left)] += 1
    return selection


def _reason(group: Group, left: Mapping[int, str]) -> str:
    """Why nothing of a prompt is taken."""
    if all(candidate.score is None for candidate in group.candidates):
        return NO_SCORE
    reasons = Counter(left[candidate.place] for candidate in group.candidates if candidate.score is not None)
    return next((reason for reason in _STRONGEST if reason in reasons), NOT_BEST)


@dataclass(slots=True)
class _AllPairs:
    """The pairs of all prompts, before the whole file is looked at."""

    chosen: array[int] = field(default_factory=lambda: array("q"))
    rejected: array[int] = field(default_factory=lambda: array("q"))
    groups: array[int] = field(default_factory=lambda: array("q"))
    longer: array[int] = field(default_factory=lambda: array("q"))
    lots: array[int] = field(default_factory=lambda: array("Q"))
    plain: array[int] = field(default_factory=lambda: array("q"))

    def add(self, number: int, group: Group, taken: RuleResult, seed: int) -> None:
        """Take the pairs of a prompt."""
        for chosen, rejected in taken.pairs:
            self.chosen.append(chosen.place)
            self.rejected.append(rejected.place)
            self.groups.append(number)
            self.longer.append(chosen.length - rejected.length)
            self.lots.append(lot(seed, group.key, chosen, rejected))
        self.plain.extend(chosen.length - rejected.length for chosen, rejected in taken.plain)


def _pairs(candidates: Candidates, rule: Pairs, seed: int) -> Selection:
    selection, every = Selection(), _AllPairs()
    for number, group in enumerate(candidates):
        taken = take(group, rule, seed)
        every.add(number, group, taken, seed)
        selection.responses.update(taken.left.values())
        if not taken.pairs:
            selection.prompts[_reason(group, taken.left)] += 1
    kept, reason = _kept(every, rule)
    selection.chosen = array("q", (every.chosen[place] for place in kept))
    selection.rejected = array("q", (every.rejected[place] for place in kept))
    selection.lengths = lengths_of(every.plain), lengths_of([every.longer[place] for place in kept])
    _count(selection, every, kept, reason, len(candidates))
    return selection


def _kept(every: _AllPairs, rule: Pairs) -> tuple[Sequence[int], str]:
    """The places of the pairs that the whole file keeps, and the reason of the others."""
    count, limit = len(every.chosen), rule.max_pairs
    if rule.length_balanced:
        return balanced(every.longer, every.lots, limit=limit), LENGTH_BALANCE
    if limit is not None and count > limit:
        return drawn(every.lots, limit), MAX_PAIRS
    return range(count), NOT_PAIRED


def _count(selection: Selection, every: _AllPairs, kept: Sequence[int], reason: str, responses: int) -> None:
    """Count the responses and the prompts of pairs: those of a pair that is kept are selected.

    Args:
        selection: has the pairs that are kept.
        every: all pairs.
        kept: the places of those that are kept.
        reason: why the others are not.
        responses: how many there are in the file.
    """
    selected = _different(selection.chosen, selection.rejected, among=responses)
    lost = _different(every.chosen, every.rejected, among=responses) - selected
    selection.responses.update({name: count for name, count in ((SELECTED, selected), (reason, lost)) if count})
    prompts = _different([every.groups[place] for place in kept], among=responses)
    lost = _different(every.groups, among=responses) - prompts
    selection.prompts.update({name: count for name, count in ((SELECTED, prompts), (reason, lost)) if count})


def _different(*places: Iterable[int], among: int) -> int:
    """How many different numbers there are, all below `among`: a byte for each, where a set takes a hundred."""
    seen = bytearray(among)
    for each in places:
        for place in each:
            seen[place] = 1
    return sum(seen)


def score_deciles(candidates: Candidates) -> list[int]:
    """How many scores are in each tenth of the range from 0 to 1; 1.0 is in the last."""
    counts = [0] * 10
    for score in candidates.scores:
        counts[min(9, int(round(score, DECIMALS) * 10))] += 1
    return counts
