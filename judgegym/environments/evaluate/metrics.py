"""Metrics that all environments share in evaluations, and the limit of failures.

They cover failures, formats, latencies and usage, and the headline metric by category. This module
also computes an evaluation's metrics from its samples on disk, and completes a sample with the
fields that readers need who do not know its environment.

Guarantee: samples are read in the order of the rows, one at a time. So no number depends on which
row was finished first, and no sample stays in memory.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from judgegym.data.rows import TaskT
from judgegym.engine.metrics import (
    GoldLabel,
    MetricAggregator,
    Metrics,
    RatioRecorder,
    expect_parts,
)
from judgegym.engine.records import FINISHED, POLICY_FAILED, USER_FAILED, Sample, digest
from judgegym.engine.settings import EnvConfig
from judgegym.engine.terminal.summary import ROLES
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.contract import record_sample
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import Outcomes, SavedRows
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.usage import Usage
from judgegym.llm.wire import CUT_OFF, REFUSALS
from judgegym.statistics import percent

MISSING_CELLS = "missing_cell_rate"
"""For environments with several judges and candidates: missing scores over expected scores."""
GAME_ERRORS, ANSWER_ERRORS = "game_error_rate", "answer_error_rate"
"""For environments whose candidates play: games without a verdict over games to be judged, and
missing answers over expected answers."""
_RATE_TEXTS = {
    MISSING_CELLS: "of the cells (a judge's score of a candidate) are missing",
    GAME_ERRORS: "of the games (a judge's comparison of two answers) have no verdict",
    ANSWER_ERRORS: "of the candidates' answers are missing",
}

_USAGE = (
    "calls",
    "requests",
    "cached_calls",
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "cost_usd",
)
_LATENCIES = ("latency_mean_s", "latency_p95_s")
_CRITIQUE = (
    "changed_rate",
    "raised_rate",
    "lowered_rate",
    "mean_change",
    "rounds",
    "failed_round_rate",
)


def expect_shared_metrics(
    metrics: MetricAggregator,
    config: EnvConfig,
    roles: Sequence[str],
    *,
    completions: bool,
    thinking_mode: bool,
) -> None:
    """Declare the shared metrics, each with the reason why it may have no value.

    Args:
        metrics: the aggregator that gets the declarations.
        config: the environment's settings.
        roles: those of `policy`, `judge` and `user` that the run calls.
        completions: whether the samples hold the policy's completions.
        thinking_mode: whether the policy was asked to think.
    """
    no_answer = "there is no answer of a policy"
    if completions:
        metrics.expect(
            no_answer, "short_response_rate", "truncated_response_rate", "refused_response_rate"
        )
        metrics.expect(
            no_answer, "empty_response_rate", "response_length_chars", "thinking_removed_rate"
        )
    if completions and thinking_mode:
        metrics.expect(no_answer, "thinking_valid_rate", "thinking_length_chars")
    for role in roles:
        metrics.expect(f"no call of the {role} was made", *(f"{role}_{name}" for name in _USAGE))
        metrics.expect(
            f"no call of the {role} was answered by its endpoint",
            *(f"{role}_{name}" for name in _LATENCIES),
        )
    if completions and config.judge_critique_rounds:
        metrics.expect(
            "there was no verdict to critique", *(f"critique_{name}" for name in _CRITIQUE)
        )


class SharedMetrics:
    """Collector of the shared metrics of an evaluation.

    It keeps numbers of each sample, no texts.
    """

    def __init__(self, *, thinking_mode: bool, has_user: bool = False) -> None:
        """Begin without a sample; `has_user`: a model plays the user."""
        self._thinking_mode, self._has_user = thinking_mode, has_user
        self._suspects = 0
        self._completions, self._critiques = (
            MetricAggregator("eval", intervals=False) for _ in range(2)
        )
        self._calls: dict[str, Counter[str]] = {role: Counter() for role in ROLES}
        self._usage = dict.fromkeys(ROLES, Usage())
        self._latencies = {role: array("d") for role in ROLES}

    def add(self, sample: Sample[Any]) -> None:
        """Add the sample of a row."""
        metrics = self._completions
        for completion in sample.completions:
            metrics.rate("short_response_rate", completion.short)
            metrics.rate("truncated_response_rate", completion.finish_reason == CUT_OFF)
            metrics.rate("refused_response_rate", completion.finish_reason in REFUSALS)
            metrics.rate("empty_response_rate", not completion.answer.strip())
            metrics.mean("response_length_chars", len(completion.answer))
            metrics.rate("thinking_removed_rate", bool(completion.written))
            if self._thinking_mode:
                metrics.rate("thinking_valid_rate", completion.valid)
                metrics.mean("thinking_length_chars", len(completion.thinking))
        if sample.judgment is not None:
            self._suspects += sample.judgment.suspects
            if sample.judgment.critique is not None:
                record_critique(self._critiques, sample.judgment)
        judge_calls = (sample.run.judge_calls or {}).values()
        for role, runs in zip(
            ROLES, (judge_calls, sample.run.policy_calls, sample.run.user_calls), strict=True
        ):
            for run in runs:
                self._calls[role].update(calls=1, requests=run.attempts, cached=run.cached)
                self._usage[role] += run.usage
                if run.latency_s and not run.cached:
                    self._latencies[role].append(run.latency_s)

    def record(self, metrics: MetricAggregator, outcomes: Outcomes) -> None:
        """Record the shared metrics; error rates are shares of all selected rows."""
        statuses, rows = outcomes.statuses, outcomes.rows
        metrics.count("total_samples", outcomes.finished)
        metrics.count("selected_rows", rows)
        failed, unparsable = statuses[Status.JUDGE_FAILED.value], statuses[Status.UNPARSABLE.value]
        metrics.count("judge_failed_count", failed)
        metrics.count("unparsable_count", unparsable)
        metrics.count("policy_failed_count", statuses[POLICY_FAILED])
        if rows:  # a shard of few rows may have none
            metrics.number("judge_error_rate", (failed + unparsable) / rows)
            metrics.number("policy_error_rate", statuses[POLICY_FAILED] / rows)
        metrics.expect("there are no rows", "judge_error_rate", "policy_error_rate")
        if rows and (self._has_user or statuses[USER_FAILED]):
            metrics.count("user_failed_count", statuses[USER_FAILED])
            metrics.number("user_error_rate", statuses[USER_FAILED] / rows)
        metrics.extend(self._completions)
        metrics.count("judge_injection_suspects", self._suspects)
        metrics.extend(self._critiques)
        for role in ROLES:
            self._record_calls(metrics, role)

    def _record_calls(self, metrics: MetricAggregator, role: str) -> None:
        """Record calls, requests, usage, and the latency of uncached calls with a response."""
        calls, usage, latencies = self._calls[role], self._usage[role], self._latencies[role]
        if not calls["calls"]:
            return
        metrics.number(f"{role}_calls", calls["calls"])
        metrics.number(f"{role}_requests", calls["requests"])
        metrics.number(f"{role}_cached_calls", calls["cached"])
        for name in ("prompt_tokens", "cached_prompt_tokens", "completion_tokens"):
            metrics.number(f"{role}_{name}", getattr(usage, name))
        metrics.cost(f"{role}_cost_usd", usage.cost)
        if latencies:
            import numpy as np  # late: --help needs none

            metrics.number(f"{role}_latency_mean_s", float(np.mean(latencies)))
            metrics.number(f"{role}_latency_p95_s", float(np.quantile(latencies, 0.95)))


def record_critique(metrics: MetricAggregator, judgment: Judgment[Any]) -> None:
    """Record an effect of self-critique: score changes, rounds, and failed rounds.

    A change is the score after minus the score before, on the judge's own scale.
    """
    critique = judgment.critique
    # Only judgments with a score are critiqued.
    assert critique is not None and judgment.score is not None
    change = judgment.score - critique.before_score
    metrics.rate("critique_changed_rate", change != 0)
    metrics.rate("critique_raised_rate", change > 0)
    metrics.rate("critique_lowered_rate", change < 0)
    metrics.mean("critique_mean_change", change)
    metrics.mean("critique_rounds", max(critique_round.round for critique_round in critique.rounds))
    for critique_round in critique.rounds:
        metrics.rate("critique_failed_round_rate", critique_round.status == "failed")


def is_counted_status(status: str, *, policy_is_judge: bool) -> bool:
    """Return whether a row with this status counts in the environment's own metrics.

    If the policy is the judge, a row without an answer of the policy counts as wrong.
    """
    return status in FINISHED or (policy_is_judge and status == POLICY_FAILED)


def describe_failures(
    outcomes: Outcomes, path: Path, *, policy_is_judge: bool = False
) -> list[str]:
    """Return a notice of the rows without a score and how they count; empty if all have one."""
    failed = {
        status: count for status, count in outcomes.statuses.items() if status not in FINISHED
    }
    if not failed:
        return []
    kinds = ", ".join(f"{count} {status}" for status, count in failed.items())
    wrong = sum(
        count
        for status, count in failed.items()
        if is_counted_status(status, policy_is_judge=policy_is_judge)
    )
    total = sum(failed.values())
    if not wrong:
        treatment = "are left out of the mean"
    elif wrong == total:
        treatment = "count as wrong"
    else:
        treatment = f"{wrong} of them count as wrong, the others are left out of the mean"
    return [
        f"{total} of {outcomes.rows} rows have no score ({kinds}) and {treatment}; "
        f"they are listed in {path / 'failures.jsonl'}. The last error: {outcomes.last_error}"
    ]


def find_excess_failures(metrics: Metrics, outcomes: Outcomes, highest: float) -> str | None:
    """Return why the command must fail: more rows failed than `max_judge_error_rate` allows."""
    if not outcomes.finished:
        return f"no row has a score; the last error: {outcomes.last_error}"
    missing = ("judgment", "answer of the policy", "message of the user")
    phrases = {
        f"{role}_error_rate": f"of the rows have no {noun}"
        for role, noun in zip(ROLES, missing, strict=True)
    }
    for name, phrase in {**phrases, **_RATE_TEXTS}.items():
        rate = metrics.values.get(f"eval/{name}", 0)
        if rate > highest:
            share, limit = percent(rate), percent(highest)
            return f"{share} {phrase}; env.max_judge_error_rate allows {limit}"
    return None


class CategoryValue(NamedTuple):
    """Headline metric of the rows of one or several categories, and the number of rows."""

    value: float
    rows: int


class CategoryTotals:
    """Sums of the headline metric by category."""

    def __init__(self) -> None:
        """Begin without a row."""
        self._sums: dict[str, tuple[float, float, int]] = {}
        """Total, weight and number of rows of each category."""

    def add(self, sample: Sample[Any]) -> None:
        """Add a row, if it counts and has a category."""
        share = sample.headline
        if sample.category is not None and share is not None:
            total, weight, rows = self._sums.get(sample.category, (0.0, 0.0, 0))
            self._sums[sample.category] = (total + share.total, weight + share.weight, rows + 1)

    def __len__(self) -> int:
        """Return the number of categories."""
        return len(self._sums)

    def largest(self, limit: int) -> tuple[Mapping[str, CategoryValue], CategoryValue | None]:
        """Return the categories with the most rows, and the remaining ones as one, if any."""
        names = sorted(self._sums, key=lambda name: -self._sums[name][2])
        shown = {name: self._add_up([name]) for name in names[:limit]}
        if len(names) <= limit:
            return shown, None
        return shown, self._add_up(names[limit:])

    def _add_up(self, names: list[str]) -> CategoryValue:
        totals, weights, rows = zip(*(self._sums[name] for name in names), strict=True)
        return CategoryValue(sum(totals) / sum(weights), sum(rows))


@dataclass(frozen=True, slots=True)
class ComputedMetrics:
    """Metrics computed from the samples of an evaluation.

    Attributes:
        metrics: the metrics.
        rows_digest: a digest of everything that the judge saw, of all rows.
        categories: the headline metric by category.
    """

    metrics: Metrics
    rows_digest: str
    categories: CategoryTotals


@runtime_checkable
class DocumentsMetrics(Protocol):
    """An environment whose documented metrics depend on its rows, beyond an attribute of a task."""

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[Any]) -> None:
        """Declare (`metrics.expect`) the metrics of these rows, with the reason for no value."""


@runtime_checkable
class RecordsFailures(Protocol):
    """An environment that records failed rows, beyond the shared counts."""

    def record_failure(self, metrics: MetricAggregator, task: Any, sample: Sample[Any]) -> None:
        """Record one failed row."""


@runtime_checkable
class HasOrders(Protocol):
    """An environment that compares answers in several orders."""

    def orders(self, judgment: Judgment[Any]) -> Mapping[str, float]:
        """Return the judged answer's points (0 to 1) by order; empty without a comparison."""


@runtime_checkable
class HasGold(Protocol):
    """An environment whose rows may have gold labels."""

    def gold(self, task: Any, sample: Sample[Any]) -> Sequence[GoldLabel]:
        """Return pairs of gold label and judge label."""


_ATTRIBUTE = re.compile(r"\{(\w+)\}")


def expect_documented(
    metrics: MetricAggregator, documented: Sequence[tuple[str, ...]], tasks: Sequence[Any]
) -> None:
    """Declare the documented metrics of a spec; see `EnvSpec.documented`."""
    values: dict[str, dict[str, None]] = {}
    for entry in documented:
        for attribute in _ATTRIBUTE.findall(entry[1]):
            values[attribute] = {}
    if values:
        for task in tasks:  # once: each is built anew
            for attribute, parts in values.items():
                if (value := getattr(task, attribute)) is not None:
                    parts[metrics.names(value)] = None
    for reason, *names in documented:
        for attribute in _ATTRIBUTE.findall(names[0]) or [""]:
            for part in values.get(attribute, ("",)):
                metrics.expect(reason, *(name.replace(f"{{{attribute}}}", part) for name in names))


def compute_metrics(
    env: JudgedEnv[Any, TaskT, DetailT],
    saved: SavedRows[TaskT, DetailT],
    outcomes: Outcomes,
    *,
    runner: RowRunner[TaskT, DetailT],
) -> ComputedMetrics:
    """Compute all metrics of an evaluation from its samples, in the order of the rows."""
    metrics = MetricAggregator("eval", names=env.metric_names)
    config = env.config
    expect_documented(metrics, env.spec.documented, saved.tasks)
    if isinstance(env, DocumentsMetrics):
        env.expect_metrics(metrics, saved.tasks)
    if isinstance(config, JurySettings | AnyJudgeSettings):
        expect_parts(metrics, config.part_names, is_jury=config.is_jury)
    asks_judge = config.asks_endpoint and not config.policy_is_judge
    has_user = runner.asks_policy and bool(config.users)
    role_flags = zip(ROLES, (asks_judge, runner.asks_policy, has_user), strict=True)
    roles = [role for role, is_asked in role_flags if is_asked]
    expect_shared_metrics(
        metrics,
        config,
        roles,
        completions=runner.keeps_completions,
        thinking_mode=runner.thinking_mode,
    )
    shared = SharedMetrics(thinking_mode=runner.thinking_mode, has_user=has_user)
    digests: list[str] = []
    categories = CategoryTotals()

    is_counted = partial(is_counted_status, policy_is_judge=config.policy_is_judge)
    for task, sample in saved.all_rows():
        digests.append(sample.task_digest)
        shared.add(sample)
        categories.add(sample)
        if is_counted(sample.status):
            metrics.begin_row(sample.prompt_key)
            record_sample(env, metrics, task, sample)
    if isinstance(env, RecordsFailures):
        for task, sample in saved.where(lambda status: not is_counted(status)):
            env.record_failure(metrics, task, sample)
    rows = saved.where(is_counted)
    if rows:
        env.summarise(metrics, rows)
    shared.record(metrics, outcomes)
    return ComputedMetrics(metrics.result(), digest(digests), categories)


def complete_sample(
    env: JudgedEnv[Any, TaskT, DetailT],
    headline: RatioRecorder,
    task: TaskT,
    sample: Sample[DetailT],
) -> Sample[DetailT]:
    """Return the sample with its share of the headline, texts, gold labels, and points by order."""
    if is_counted_status(sample.status, policy_is_judge=env.config.policy_is_judge):
        env.record_metrics(headline, task, sample)
    judgment = sample.judgment
    orders: Mapping[str, float] = {}
    if judgment is not None and isinstance(env, HasOrders):
        orders = env.orders(judgment)
    gold: tuple[GoldLabel, ...] = ()
    if isinstance(env, HasGold):
        gold = tuple(env.gold(task, sample))
    return replace(
        sample, headline=headline.pop_share(), texts=env.texts(task), orders=orders, gold=gold
    )
