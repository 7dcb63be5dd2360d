"""The metrics of a run, from its lines on disk.

Guarantees: units come in the order of the data set, so that no number depends on which was judged first; of a response
numbers are kept, and no text: some fifty bytes. A failed judge is in no mean, and is counted. An empty response counts
as 0. Intervals resample what was judged together or once for all.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from itertools import pairwise

from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.lines import ScoreDetail
from judgegym.datasets.score.results.clustered import ClusteredRatio
from judgegym.datasets.score.results.within_rows import WithinRows
from judgegym.datasets.score.saved import SavedResponses
from judgegym.engine.metrics import MetricAggregator, Metrics
from judgegym.engine.records import Sample
from judgegym.engine.terminal import Table
from judgegym.environments.evaluate.categories import Categories
from judgegym.environments.evaluate.metrics import SharedMetrics
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.core.judgment import Status

HEADLINE, HEADLINE_WORDS = "mean_score", "mean score"
MOST_CATEGORIES = 100
"""So many have metrics of their own: a column of other values than a few kinds would fill the file."""
QUANTILES = {"score_min": 0.0, "score_p10": 0.1, "score_p25": 0.25, "score_median": 0.5, "score_p75": 0.75}
QUANTILES |= {"score_p90": 0.9, "score_max": 1.0}
_BINS = 10
_NO_SCORE = "no response has a score"


@dataclass(frozen=True, slots=True)
class ScoreNumbers:
    """What the lines of a run give.

    Attributes:
        metrics: the metrics.
        digest: a digest of what the judge saw of all rows.
        categories: the mean score by category.
        tables: how the scores are distributed; none without scores.
    """

    metrics: Metrics
    digest: str
    categories: Categories
    tables: tuple[Table, ...]


def score_numbers(
    units: ScoreTasks, saved: SavedResponses, outcomes: Outcomes, thinking_mode: bool = False, *, seed: int
) -> ScoreNumbers:
    """Compute all metrics of a run.

    Args:
        units: of the run.
        saved: their responses, each with a line.
        outcomes: how they ended.
        thinking_mode: a policy was asked to think, so that its thinking is counted.
        seed: of the intervals.
    """
    metrics = MetricAggregator("eval", seed=seed)
    shared, categories = SharedMetrics(thinking_mode=thinking_mode), Categories()
    mean, within = ClusteredRatio(units.first_equal), WithinRows(units.first_equal, units.chosen)
    scores, equal, digest = array("d"), 0, hashlib.sha256()
    for number, first in enumerate(units.first_equal):
        samples = [saved.sample(place) for place in units.places.of_unit(number)]
        for sample in samples:
            shared.add(sample)
            metrics.names.add(() if sample.category is None else (sample.category,))
            categories.add(sample)
            if sample.headline is not None:
                mean.add(number, sample.headline.total)
            if sample.score is not None:
                scores.append(sample.score)
        # Of those that no judge was asked about, none shares a judgment.
        texts = [sample.completions[0].answer for sample in samples if _is_judged(sample)]
        equal += len(samples) if first != number else len(texts) - len({*texts})
        within.add(number, samples)
        digest.update(units.key(number))
    mean.record(metrics, HEADLINE)
    metrics.expect(_NO_SCORE, HEADLINE)
    metrics.count("data_rows", len(units.numbers))
    metrics.count("bad_rows", len(units.bad) + units.bad_lines)
    if outcomes.rows:  # a shard of few rows may have none
        metrics.number("unscored_rate", 1 - len(scores) / outcomes.rows)
    metrics.expect("there are no rows", "unscored_rate")
    metrics.count("equal_responses", equal)
    within.record(metrics, MOST_CATEGORIES)
    _record_distribution(metrics, scores)
    for name, found in categories.largest(MOST_CATEGORIES)[0].items():
        metrics.ratio(f"{HEADLINE}_category_{metrics.names(name)}", found.value * found.rows, found.rows)
    shared.record(metrics, outcomes)
    tables = (score_table(scores),) if scores else ()
    return ScoreNumbers(metrics.result(), digest.hexdigest()[:16], categories, tables)


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


def score_table(scores: array[float]) -> Table:
    """How many scores there are in each tenth of the scale, of which the last one holds 1, too."""
    import numpy as np

    edges = [place / _BINS for place in range(_BINS + 1)]
    counts = np.bincount([min(_BINS - 1, int(round(score, 9) * _BINS)) for score in scores], minlength=_BINS)
    header = ("score", *(f"{low:.1f} to {high:.1f}" for low, high in pairwise(edges)))
    shares = (f"{count / len(scores):.1%}" for count in counts)
    return Table("Scores", header, (("responses", *(f"{count:,}" for count in counts)), ("share", *shares)))
