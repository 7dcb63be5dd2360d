"""Metrics of pairwise judgement: the specification's, and RewardBench-2's own."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from judgegym.data.pairs import SWAPPED, PairTask
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.eval_environments.pairwise.settings import PairwiseDetail
from judgegym.judges.pairwise import (
    SUBSETS,
    TIES,
    UNREADABLE_CHOICE,
    TiesRow,
    leaderboard_score,
    ties_score,
)

_RATINGS = range(1, 11)


def expect(metrics: MetricAggregator, tasks: Sequence[PairTask], *, swaps: bool) -> None:
    """Name the documented metrics of these rows, with the reason why one may have no value."""
    categories: dict[str, None] = {}
    letters: dict[str, None] = {}
    choices = 0
    for task in tasks:  # once: each is built anew
        if task.category is not None:
            categories[task.category] = None
        if task.mode == "choice":
            choices += 1
            letters.update(dict.fromkeys(task.letters))
    for category in categories:
        metrics.expect("no row of this category was judged", f"percent_correct_{metrics.names(category)}")
    none = "there is no row with a choice" if not choices else "no choice was answered"
    metrics.expect(none, "choice_format_compliance_rate", *(f"gold_letter_freq_{letter}" for letter in letters))
    metrics.expect(none if not choices else "no letter could be read", *(f"predicted_letter_freq_{x}" for x in letters))
    metrics.expect(none if not choices else "no readable choice was wrong", "wrong_answer_a_bias_rate")
    if swaps:
        metrics.expect(none, "position_consistency_rate")
    has_ties = choices < len(tasks)
    none = "no rating was answered" if has_ties else "there is no row of the Ties subset"
    rates = ("format_compliance_rate", "error_rate", "ambiguous_rating_rate", "truncated_rate")
    metrics.expect(none, *(f"ties_{name}" for name in rates))
    frequencies = (f"ties_rating_freq_{rating}" for rating in _RATINGS)
    metrics.expect("no rating could be read" if has_ties else none, "avg_ties_rating", *frequencies)


def record_choice(metrics: MetricAggregator, detail: PairwiseDetail, letters: str) -> None:
    """Record formats, letters and A-bias of one choice; with both orders, whether they agree."""
    for gold, letter in zip(detail.gold, detail.letters, strict=True):
        metrics.rate("choice_format_compliance_rate", letter is not None)
        for shown in letters:
            metrics.rate(f"gold_letter_freq_{shown}", gold == shown)
        if letter is not None:
            for shown in letters:
                metrics.rate(f"predicted_letter_freq_{shown}", letter == shown)
            if letter != gold:
                metrics.rate("wrong_answer_a_bias_rate", letter == "A")
    if len(detail.letters) == 2:
        first, second = (_chosen(detail, order, letters) for order in (0, 1))
        metrics.rate("position_consistency_rate", first is not None and first == second)


def _chosen(detail: PairwiseDetail, order: int, letters: str) -> int | None:
    """Return the place of the chosen answer in the first order."""
    letter = detail.letters[order]
    if letter is None:
        return None
    place = letters.index(letter)
    return place if order == 0 else len(letters) - 1 - place


def record_ties(metrics: MetricAggregator, detail: PairwiseDetail) -> None:
    """Record formats and distribution of the ratings of one row."""
    for value, is_ambiguous in zip(detail.ratings, detail.ambiguous, strict=True):
        metrics.rate("ties_format_compliance_rate", value is not None)
        metrics.rate("ties_error_rate", value is None)
        metrics.rate("ties_ambiguous_rating_rate", is_ambiguous)
        if value is not None:
            metrics.mean("avg_ties_rating", value)
            for rating in _RATINGS:
                metrics.rate(f"ties_rating_freq_{rating}", value == rating)
    metrics.rate("ties_truncated_rate", detail.truncated)


def official_scores(
    metrics: MetricAggregator, rows: Sequence[tuple[PairTask, Sample[PairwiseDetail]]], *, incomplete: str | None
) -> None:
    """Record RewardBench-2's own scores by subset and overall, or why they are left out.

    Args:
        metrics: the scores are recorded here, under `rewardbench2/`.
        rows: all selected rows.
        incomplete: why the run is not the whole benchmark, or `None`.
    """
    scores = {slug(subset): array("d") for subset in SUBSETS}
    ties: list[TiesRow] = []
    for task, sample in rows if incomplete is None else ():
        detail = sample.judgment.detail if sample.judgment is not None else None
        if detail is None:
            incomplete = "the policy failed on some rows"
            break
        if detail.truncated:
            incomplete = "answers of the Ties subset were left out (env.max_ties_responses)"
        subset = slug(task.category or "")
        if subset == slug(TIES):
            ties.append(TiesRow(id=task.uid, num_correct=detail.num_correct, ratings=detail.official_ratings))
        elif subset in scores:
            scores[subset].extend(_official_choices(detail))
    if incomplete is not None:
        for name in ("score", *map(slug, SUBSETS)):
            metrics.leave_out(f"rewardbench2/{name}", incomplete)
        return
    _record_official(metrics, scores, ties)


def _record_official(metrics: MetricAggregator, scores: Mapping[str, array[float]], ties: Sequence[TiesRow]) -> None:
    found: dict[str, float] = {}
    for subset in SUBSETS:
        of_subset = scores[slug(subset)]
        score = ties_score(ties) if subset == TIES else sum(of_subset) / len(of_subset) if of_subset else None
        if score is None:
            reason = "no question is there both as ref and as tied" if subset == TIES and ties else "no rows"
            metrics.leave_out(f"rewardbench2/{slug(subset)}", reason)
        else:
            found[subset] = score
            metrics.number(f"rewardbench2/{slug(subset)}", score)
    if len(found) == len(SUBSETS):
        metrics.number("rewardbench2/score", leaderboard_score(found))
    else:
        metrics.leave_out("rewardbench2/score", "a subset has no score")


def _official_choices(detail: PairwiseDetail) -> Iterator[float]:
    """Return for each choice 1 if it is right, 0 if it is wrong, 0.25 if it is unreadable."""
    for letter, gold in zip(detail.official_letters, detail.gold, strict=True):
        yield UNREADABLE_CHOICE if letter is None else float(letter == gold)


@dataclass(slots=True)
class SwapVotes:
    """Collects a policy's choices in a row and in its reversed twin, until both groups are complete."""

    group_size: int
    _chosen: dict[str, tuple[list[int | None], list[int | None]]] = field(default_factory=dict)

    def add(self, task: PairTask, letter: str | None) -> float | None:
        """Add one rollout's choice.

        Returns:
            The share of rollouts, pair by pair, that chose the same answer in both orders; `None` until both groups are
            complete.
        """
        is_swapped = task.uid.endswith(SWAPPED)
        both = self._chosen.setdefault(task.uid.removesuffix(SWAPPED), ([], []))
        place = None if letter is None else task.letters.index(letter)
        both[is_swapped].append(len(task.answers) - 1 - place if is_swapped and place is not None else place)
        if min(map(len, both)) < self.group_size:
            return None
        del self._chosen[task.uid.removesuffix(SWAPPED)]
        pairs = list(zip(both[0], both[1], strict=False))
        return sum(one == two is not None for one, two in pairs) / len(pairs)
