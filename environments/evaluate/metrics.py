"""Metrics that all environments share in evaluations: failures, formats, latencies, usage; and the failure limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from environments.metrics import MetricAggregator, Metrics
from environments.records import Sample
from environments.settings import EnvConfig
from judges.core.judgment import CallRun, Judgment, Status
from judges.llm.usage import Usage
from judges.llm.wire import CUT_OFF, REFUSALS

POLICY_FAILED = "policy_failed"
MISSING_CELLS = "missing_cell_rate"
"""Of environments with several judges and candidates: scores that are not there, over those that should be."""


_USAGE = ("calls", "requests", "cached_calls", "prompt_tokens", "completion_tokens", "cost_usd")
_LATENCIES = ("latency_mean_s", "latency_p95_s")
_CRITIQUE = ("changed_rate", "raised_rate", "lowered_rate", "mean_change", "rounds", "failed_round_rate")


def expect_shared(metrics: MetricAggregator, config: EnvConfig, roles: Sequence[str], *, completions: bool) -> None:
    """Name the shared metrics, with the reason why one may have no value.

    Args:
        metrics: the metrics are named here.
        config: the environment's settings.
        roles: which of `policy` and `judge` the run asks.
        completions: whether the samples hold the policy's completions.
    """
    no_answer = "there is no answer of a policy"
    if completions:
        metrics.expect(no_answer, "short_response_rate", "truncated_response_rate", "refused_response_rate")
        metrics.expect(no_answer, "empty_response_rate", "response_length_chars")
    if completions and config.thinking_mode:
        metrics.expect(no_answer, "thinking_valid_rate", "thinking_length_chars")
    for role in roles:
        metrics.expect(f"no call of the {role} was made", *(f"{role}_{name}" for name in _USAGE))
        metrics.expect(
            f"no call of the {role} was answered by its endpoint", *(f"{role}_{name}" for name in _LATENCIES)
        )
    if completions and config.judge_critique_rounds:
        metrics.expect("there was no verdict to critique", *(f"critique_{name}" for name in _CRITIQUE))


def record_shared(metrics: MetricAggregator, samples: Sequence[Sample[Any]], *, thinking_mode: bool) -> None:
    """Record the shared metrics of one evaluation; error rates are shares of all selected rows."""
    metrics.count("total_samples", sum(sample.finished for sample in samples))
    metrics.count("selected_rows", len(samples))
    statuses = Counter(sample.status for sample in samples)
    failed, unparsable = statuses[Status.JUDGE_FAILED.value], statuses[Status.UNPARSABLE.value]
    metrics.count("judge_failed_count", failed)
    metrics.count("unparsable_count", unparsable)
    metrics.count("policy_failed_count", statuses[POLICY_FAILED])
    metrics.number("judge_error_rate", (failed + unparsable) / len(samples))
    metrics.number("policy_error_rate", statuses[POLICY_FAILED] / len(samples))
    for completion in (completion for sample in samples for completion in sample.completions):
        metrics.rate("short_response_rate", completion.short)
        metrics.rate("truncated_response_rate", completion.finish_reason == CUT_OFF)
        metrics.rate("refused_response_rate", completion.finish_reason in REFUSALS)
        metrics.rate("empty_response_rate", not completion.answer.strip())
        metrics.mean("response_length_chars", len(completion.answer))
        if thinking_mode:
            metrics.rate("thinking_valid_rate", completion.valid)
            metrics.mean("thinking_length_chars", len(completion.thinking))
    judgments = [sample.judgment for sample in samples if sample.judgment is not None]
    metrics.count("judge_injection_suspects", sum(judgment.suspects for judgment in judgments))
    for sample in samples:
        if sample.judgment is not None and sample.judgment.critique is not None:
            record_critique(metrics, sample.judgment)
    _calls(metrics, "judge", [run for sample in samples for run in (sample.run.judge_calls or {}).values()])
    _calls(metrics, "policy", [run for sample in samples for run in sample.run.policy_calls])


def record_critique(metrics: MetricAggregator, judgment: Judgment[Any]) -> None:
    """Record whether and how far self-critique changed a score, how many rounds it took, and which of them failed.

    A change is the score after minus the score before, in the judge's own unit.
    """
    critique = judgment.critique
    assert critique is not None and judgment.score is not None  # only judgments with a score are critiqued
    change = judgment.score - critique.before_score
    metrics.rate("critique_changed_rate", change != 0)
    metrics.rate("critique_raised_rate", change > 0)
    metrics.rate("critique_lowered_rate", change < 0)
    metrics.mean("critique_mean_change", change)
    metrics.mean("critique_rounds", max(critique_round.round for critique_round in critique.rounds))
    for critique_round in critique.rounds:
        metrics.rate("critique_failed_round_rate", critique_round.status == "failed")


def _calls(metrics: MetricAggregator, role: str, runs: Sequence[CallRun]) -> None:
    """Record calls, requests and usage, and the latency of answered calls that were not cached."""
    if not runs:
        return
    metrics.number(f"{role}_calls", len(runs))
    metrics.number(f"{role}_requests", sum(run.attempts for run in runs))
    metrics.number(f"{role}_cached_calls", sum(run.cached for run in runs))
    metrics.number(f"{role}_prompt_tokens", sum(run.usage.prompt_tokens for run in runs))
    metrics.number(f"{role}_completion_tokens", sum(run.usage.completion_tokens for run in runs))
    metrics.cost(f"{role}_cost_usd", sum((run.usage for run in runs), Usage()).cost)
    latencies = [run.latency_s for run in runs if run.latency_s and not run.cached]
    if latencies:
        import numpy as np  # late: --help needs none

        metrics.number(f"{role}_latency_mean_s", float(np.mean(latencies)))
        metrics.number(f"{role}_latency_p95_s", float(np.quantile(latencies, 0.95)))


def counts(sample: Sample[Any], *, policy_is_judge: bool) -> bool:
    """Return whether a row is in the denominator of the environment's own metrics.

    If the policy is the judge, a row that it never answered counts as wrong.
    """
    return sample.finished or (policy_is_judge and sample.status == POLICY_FAILED)


def failure_notices(samples: Sequence[Sample[Any]], path: Path, *, policy_is_judge: bool = False) -> list[str]:
    """Return a notice of the rows without a score, which says whether they are in the mean; none if all have one."""
    failures = [sample for sample in samples if not sample.finished]
    if not failures:
        return []
    kinds = ", ".join(f"{count} {status}" for status, count in Counter(sample.status for sample in failures).items())
    wrong = sum(counts(sample, policy_is_judge=policy_is_judge) for sample in failures)
    if not wrong:
        what = "are left out of the mean"
    elif wrong == len(failures):
        what = "count as wrong"
    else:
        what = f"{wrong} of them count as wrong, the others are left out of the mean"
    return [
        f"{len(failures)} of {len(samples)} rows have no score ({kinds}) and {what}; "
        f"they are listed in {path / 'failures.jsonl'}. The last error: {failures[-1].error}"
    ]


def too_many_failures(metrics: Metrics, samples: Sequence[Sample[Any]], highest: float) -> str | None:
    """Return why the command must fail, if more rows failed than `max_judge_error_rate` allows."""
    if not any(sample.finished for sample in samples):
        return f"no row has a score; the last error: {samples[-1].error}"
    allowed = f"env.max_judge_error_rate allows {highest:.1%}"
    for name, what in (("eval/judge_error_rate", "judgment"), ("eval/policy_error_rate", "answer of the policy")):
        rate = metrics.values[name]
        if rate > highest:
            last = next(sample.error for sample in reversed(samples) if not sample.finished)
            return f"{rate:.1%} of the rows have no {what}; {allowed}; the last error: {last}"
    missing = metrics.values.get(f"eval/{MISSING_CELLS}", 0)
    if missing > highest:
        return f"{missing:.1%} of the cells (a judge's score of a candidate) are missing; {allowed}"
    return None
