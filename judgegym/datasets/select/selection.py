"""What is selected of a whole file, and the reason for everything that is not.

Guarantees: each response is either selected or has one reason, and so is each prompt; the counts add up to all of
them. The order is that of the prompts in the file. The same file and seed give the same selection.

Pairs in which the chosen response is longer as often as it is shorter.

Judges prefer long answers, and a policy that is trained on pairs learns that preference first. So of the pairs whose
chosen response is longer, and of those whose it is shorter, as many are kept as there are of the rarer kind; which
ones, is drawn by the seed. Pairs of equal length are kept.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Lengths:
    """How the lengths of pairs differ.

    Attributes:
        pairs: how many there are.
        longer: in how many the chosen response is longer.
        shorter: in how many it is shorter.
        total: by how many characters the chosen ones are longer together.
    """

    pairs: int = 0
    longer: int = 0
    shorter: int = 0
    total: int = 0

    @property
    def share(self) -> float | None:
        """In which share of the pairs of different length the chosen one is longer; `None` without such pairs."""
        different = self.longer + self.shorter
        return self.longer / different if different else None

    @property
    def mean(self) -> float:
        """By how many characters the chosen one is longer in the mean."""
        return self.total / self.pairs if self.pairs else 0.0

    @property
    def words(self) -> str:
        """Both in words."""
        share = "none" if self.share is None else f"{self.share * 100:.1f} %"
        return f"longer in {share} of those that differ, mean {self.mean:+,.1f} characters"


def lengths_of(differences: Sequence[int]) -> Lengths:
    """Count pairs by the length of the chosen response less that of the rejected one."""
    longer, shorter = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    return Lengths(len(differences), longer, shorter, sum(differences))


def balanced(differences: Sequence[int], lots: Sequence[int], *, limit: int | None = None) -> array[int]:
    """The places of the pairs that are kept, in their order.

    Args:
        differences: by how many characters the chosen response of each pair is longer.
        lots: what each pair has drawn; the least are kept.
        limit: at most so many.
    """
    longer, shorter, equal = (
        sorted((place for place, each in enumerate(differences) if kind(each)), key=lots.__getitem__)
        for kind in ((0).__lt__, (0).__gt__, (0).__eq__)
    )
    each, same = min(len(longer), len(shorter)), len(equal)
    if limit is not None and 2 * each + same > limit:
        each = each * limit // (2 * each + same)
        same = min(same, limit - 2 * each)
    return array("q", sorted([*longer[:each], *shorter[:each], *equal[:same]]))


def drawn(lots: Sequence[int], limit: int) -> array[int]:
    """The places of `limit` pairs that are drawn, in their order."""
    return array("q", sorted(sorted(range(len(lots)), key=lots.__getitem__)[:limit]))


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
