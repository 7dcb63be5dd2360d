"""Compute the metrics of a run from its lines on disk.

Guarantees: tasks are read in the order of the data set, so that no number depends on the order of
judging. A response takes some fifty bytes of memory, and no text is kept. A failed judgment is in
no mean, and is counted. An empty response counts as 0. Intervals are over prompts, whichever rows
have them. Identical tasks are judged once, so they are one observation of a ratio.

Metrics of several responses to one prompt (the best of them; whether the chosen ones win) use a
task only if none of its responses has failed: the best of the others, or their order, would stand
in for the missing one. Tasks that are left out are counted. An empty response counts as 0, as in
the mean
score: it is a bad response.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.saved import SavedResponses, ScoreDetail
from judgegym.datasets.score.verdicts import VerdictNumbers
from judgegym.engine.metrics import MetricAggregator, Metrics, prompt_code, record_parts
from judgegym.engine.records import Sample
from judgegym.engine.terminal import Table
from judgegym.environments.evaluate.metrics import CategoryTotals, SharedMetrics
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.core.judgment import Status
from judgegym.reports.results.run import CHOSEN_HIGHER
from judgegym.statistics import percent
from judgegym.statistics.agreement import expected_minimum
from judgegym.statistics.intervals import UNIT, Ends, find_ends


class ClusteredRatio:
    """A ratio that sums over identical tasks first; it takes sixteen bytes a task."""

    def __init__(self, first_equal: Sequence[int]) -> None:
        """Begin without an observation.

        Args:
            first_equal: for each task the first identical one.
        """
        self._first = first_equal
        self._totals = array("d", [0.0]) * len(first_equal)
        self._weights = array("d", [0.0]) * len(first_equal)

    def add(self, task: int, total: float, weight: float = 1.0) -> None:
        """Add what a task contributes."""
        self._totals[self._first[task]] += total
        self._weights[self._first[task]] += weight

    def record(
        self, metrics: MetricAggregator, name: str, prompts: array[int], ends: Ends | None = None
    ) -> None:
        """Record the ratio with its interval over prompts.

        Args:
            metrics: receives the ratio.
            name: the ratio's name.
            prompts: for each task the code of its prompt; tasks with the same prompt are one
                observation.
            ends: the ends of the scale, unless they are 0 and 1.
        """
        totals, weights = self._totals, self._weights
        if prompts:
            import numpy as np  # late, as everywhere: --help needs none

            _, first, places = np.unique(prompts, return_index=True, return_inverse=True)
            totals, weights = (
                array("d", np.bincount(first[places], column)) for column in (totals, weights)
            )
        metrics.begin_row(None)
        for total, weight in zip(totals, weights, strict=True):
            if weight:
                metrics.ratio(name, total, weight, interval=True, ends=ends)


BEST, MARGIN, INCOMPLETE = "mean_best_score", "mean_margin", "incomplete_units"
WORST_OF = {size: f"mean_worst_of_{size}" for size in (2, 4, 8, 16)}
"""Metric names of the expected lowest score of k responses, by k (HealthBench's worst-at-k)."""


class WithinPromptNumbers:
    """Collects the metrics of tasks with several responses."""

    def __init__(self, first_equal: Sequence[int], chosen: Sequence[int]) -> None:
        """Begin without a task.

        Args:
            first_equal: for each task the first identical one.
            chosen: for each task the number of preferred responses, which come first; empty
                without preferences.
        """
        names = (BEST, MARGIN, CHOSEN_HIGHER) if chosen else (BEST,)
        self._ratios = {name: ClusteredRatio(first_equal) for name in names}
        self._worst = {size: ClusteredRatio(first_equal) for size in WORST_OF}
        self._chosen = chosen
        self._by_category: dict[str, list[float]] = {}
        self._with_several = self._incomplete = 0
        self._ends: Ends | None = UNIT

    def add(self, task: int, samples: Sequence[Sample[Any]]) -> None:
        """Add the responses of a task."""
        if len(samples) < 2:
            return
        self._with_several += 1
        values = [sample.headline.total for sample in samples if sample.headline is not None]
        if len(values) < len(samples):
            self._incomplete += 1
            return
        if find_ends(values) is None:
            self._ends = None
        self._ratios[BEST].add(task, max(values))
        for size in (size for size in WORST_OF if size <= len(values)):
            self._worst[size].add(task, expected_minimum(values, size))
        count = self._chosen[task] if self._chosen else 0
        category = samples[0].category
        chosen, rejected = values[:count], values[count:]
        if not chosen or not rejected:
            return
        self._ratios[MARGIN].add(task, sum(chosen) / len(chosen) - sum(rejected) / len(rejected))
        lowest, highest = min(chosen), max(rejected)
        higher = 0.5 if lowest == highest else float(lowest > highest)
        self._ratios[CHOSEN_HIGHER].add(task, higher)
        if category is not None:
            sums = self._by_category.setdefault(category, [0.0, 0.0])
            sums[0] += higher
            sums[1] += 1

    def record(self, metrics: MetricAggregator, prompts: array[int], most_categories: int) -> None:
        """Record the metrics, also for the largest categories; none without several responses."""
        if not self._with_several:
            return
        metrics.count(INCOMPLETE, self._incomplete)
        for name, ratio in self._ratios.items():
            is_margin = name == MARGIN and self._ends is not None
            ratio.record(metrics, name, prompts, UNIT.difference_ends if is_margin else None)
            metrics.expect("each prompt with several responses has one that failed", name)
        for size, ratio in self._worst.items():
            ratio.record(metrics, WORST_OF[size], prompts)
        largest = sorted(self._by_category, key=lambda name: -self._by_category[name][1])[
            :most_categories
        ]
        for name in largest:
            metrics.ratio(
                f"{CHOSEN_HIGHER}_category_{metrics.names(name)}", *self._by_category[name]
            )


HEADLINE, HEADLINE_WORDS = "mean_score", "mean score"
MOST_CATEGORIES = 100
"""The most categories with metrics of their own: a column of many values would fill the file."""
QUANTILES = {
    "score_min": 0.0,
    "score_p10": 0.1,
    "score_p25": 0.25,
    "score_median": 0.5,
    "score_p75": 0.75,
}
QUANTILES |= {"score_p90": 0.9, "score_max": 1.0}
_BINS = 10
_NO_SCORE = "no response has a score"


@dataclass(frozen=True, slots=True)
class ScoreNumbers:
    """The metrics and tables of a run.

    Attributes:
        metrics: the metrics.
        digest: a digest of what the judge saw of all rows.
        categories: the mean score by category.
        tables: the distribution of the scores, and the tables of `by_name`.
        by_name: the verdicts by aspect, criterion and tag.
    """

    metrics: Metrics
    digest: str
    categories: CategoryTotals
    tables: tuple[Table, ...]
    by_name: tuple[Table, ...] = ()


def compute_numbers(
    tasks: ScoreTasks,
    saved: SavedResponses,
    outcomes: Outcomes,
    thinking_mode: bool = False,
    *,
    parts: Collection[str] = (),
) -> ScoreNumbers:
    """Compute all metrics of a run.

    Args:
        tasks: the run's tasks.
        saved: their responses, each with a line.
        outcomes: how the responses ended.
        thinking_mode: a policy was asked to think, so its thinking is counted.
        parts: the names of the parts of a reward.
    """
    metrics = MetricAggregator("eval")
    shared = SharedMetrics(thinking_mode=thinking_mode)
    categories = CategoryTotals()
    mean = ClusteredRatio(tasks.first_equal)
    within = WithinPromptNumbers(tasks.first_equal, tasks.chosen)
    verdicts = VerdictNumbers(
        tasks.questions, lambda: ClusteredRatio(tasks.first_equal), MOST_CATEGORIES
    )
    scores = array("d")
    prompts = array("Q")
    equal = 0
    digest = hashlib.sha256()
    for number, first in enumerate(tasks.first_equal):
        samples = [
            saved.read_sample(place) for place in tasks.response_index.find_task_positions(number)
        ]
        prompts.append(prompt_code(samples[0].prompt_key if samples else str(number)))
        for sample in samples:
            shared.add(sample)
            verdicts.add(number, sample)
            metrics.names.add(() if sample.category is None else (sample.category,))
            categories.add(sample)
            if sample.headline is not None:
                mean.add(number, sample.headline.total)
            if sample.score is not None:
                scores.append(sample.score)
                if parts and sample.judgment is not None and sample.judgment.detail is not None:
                    metrics.begin_row(sample.prompt_key)
                    record_parts(metrics, parts, sample.judgment.detail.components)
        # Responses that were not judged share no judgment.
        texts = [sample.completions[0].answer for sample in samples if _is_judged(sample)]
        equal += len(samples) if first != number else len(texts) - len({*texts})
        within.add(number, samples)
        digest.update(tasks.key(number))
    mean.record(metrics, HEADLINE, prompts)
    metrics.expect(_NO_SCORE, HEADLINE)
    metrics.count("data_rows", len(tasks.numbers))
    metrics.count("bad_rows", len(tasks.bad) + len(tasks.bad_lines))
    if outcomes.rows:  # a shard of few rows may have none
        metrics.number("unscored_rate", 1 - len(scores) / outcomes.rows)
    metrics.expect("there are no rows", "unscored_rate")
    metrics.count("equal_responses", equal)
    within.record(metrics, prompts, MOST_CATEGORIES)
    _record_distribution(metrics, scores)
    for name, category_score in categories.largest(MOST_CATEGORIES)[0].items():
        metrics.ratio(
            f"{HEADLINE}_category_{metrics.names(name)}",
            category_score.value * category_score.rows,
            category_score.rows,
        )
    verdicts.record(metrics, prompts)
    shared.record(metrics, outcomes)
    result = metrics.result()
    tables = (make_score_table(scores),) if scores else ()
    by_name = tuple(verdicts.tables(result))
    return ScoreNumbers(result, digest.hexdigest()[:16], categories, (*tables, *by_name), by_name)


def _is_judged(sample: Sample[ScoreDetail]) -> bool:
    return sample.judgment is not None and sample.judgment.status is not Status.INVALID_COMPLETION


def _record_distribution(metrics: MetricAggregator, scores: array[float]) -> None:
    metrics.expect(_NO_SCORE, "score_std", *QUANTILES)
    if not scores:
        return
    import numpy as np  # late, as everywhere: --help needs none

    metrics.number("score_std", float(np.std(scores)))
    for name, value in zip(QUANTILES, np.quantile(scores, list(QUANTILES.values())), strict=True):
        metrics.number(name, float(value))


def count_tenths(scores: Sequence[float]) -> list[tuple[str, int]]:
    """Count the scores in each tenth of the scale; the last tenth includes the highest score.

    The scale is from 0 to 1; for a reward model's numbers beyond that, from the lowest to the
    highest.
    """
    lowest, highest = min(scores), max(scores)
    if lowest >= 0.0 and highest <= 1.0:
        lowest, highest = 0.0, 1.0
    span = highest - lowest or 1.0
    edges = [lowest + span * index / _BINS for index in range(_BINS + 1)]
    counts = Counter(
        min(_BINS - 1, int(round((score - lowest) / span, 9) * _BINS)) for score in scores
    )
    return [
        (f"{low:.1f} to {high:.1f}", counts[index])
        for index, (low, high) in enumerate(pairwise(edges))
    ]


def make_score_table(scores: Sequence[float]) -> Table:
    """Return a table of the scores in each tenth of the scale, and their shares."""
    names, counts = zip(*count_tenths(scores), strict=True)
    shares = (percent(count / len(scores)) for count in counts)
    return Table(
        "Scores",
        ("score", *names),
        (("responses", *(f"{count:,}" for count in counts)), ("share", *shares)),
    )
