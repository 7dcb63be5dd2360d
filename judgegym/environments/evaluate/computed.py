"""The metrics of an evaluation, from its samples on disk.

Guarantee: samples are gone through in the order of the rows, one at a time, so that no number depends on which row was
finished first, and no sample stays in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from judgegym.data.rows import TaskT
from judgegym.engine.metrics import MetricAggregator, Metrics
from judgegym.engine.records import digest
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.evaluate import metrics as evaluation_metrics
from judgegym.environments.evaluate.categories import Categories
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import Outcomes, SavedRows


@dataclass(frozen=True, slots=True)
class ComputedMetrics:
    """What the samples of an evaluation give.

    Attributes:
        metrics: the metrics.
        rows_digest: a digest of what the judge saw of all rows.
        categories: the headline metric by category.
    """

    metrics: Metrics
    rows_digest: str
    categories: Categories


def compute_metrics(
    env: JudgedEnv[Any, TaskT, DetailT],
    saved: SavedRows[TaskT, DetailT],
    outcomes: Outcomes,
    *,
    runner: RowRunner[TaskT, DetailT],
) -> ComputedMetrics:
    """Compute all metrics of an evaluation from its samples, in the order of the rows."""
    metrics = MetricAggregator("eval", seed=env.config.seed, names=env.metric_names)
    env.expect_metrics(metrics, saved.tasks)
    roles = [
        role for role, is_asked in (("policy", runner.asks_policy), ("judge", not env.policy_is_judge)) if is_asked
    ]
    evaluation_metrics.expect_shared(
        metrics, env.config, roles, completions=runner.keeps_completions, thinking_mode=runner.thinking_mode
    )
    shared = evaluation_metrics.SharedMetrics(thinking_mode=runner.thinking_mode)
    digests: list[str] = []
    categories = Categories()

    def is_counted(status: str) -> bool:
        return evaluation_metrics.counts(status, policy_is_judge=env.policy_is_judge)

    for task, sample in saved.everything():
        digests.append(runner.digest(task))
        shared.add(sample)
        categories.add(sample)
        if is_counted(sample.status):
            env.record_metrics(metrics, task, sample)
    for task, sample in saved.where(lambda status: not is_counted(status)):
        env.record_failure(metrics, task, sample)
    rows = saved.where(is_counted)
    if rows:
        env.summarise(metrics, rows)
    shared.record(metrics, outcomes)
    return ComputedMetrics(metrics.result(), digest(digests), categories)
