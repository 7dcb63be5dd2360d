"""Metrics as lines of a summary: an environment's outcomes, costs, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.engine.metrics import Metrics
from judgegym.engine.terminal.outcomes import Outcome, Unit
from judgegym.engine.terminal.quantities import UNKNOWN, dollars
from judgegym.engine.terminal.summary import SummaryLine

_NONE = "–"


def headline_line(metrics: Metrics, name: str, words: str, *, of: str, counted: int) -> SummaryLine:
    """The metric to quote, with its interval and what it is of (`counted` rows); without a value the reason."""
    value = metrics.values.get(name)
    if value is None:
        usual = "no row adds to it in record_metrics" if counted else "no row counts"
        return SummaryLine(words, _NONE, f"{name} is left out: {metrics.left_out.get(name, usual)}")
    interval = interval_of(metrics, name)
    return SummaryLine(words, f"{value:.4f}", ", ".join(filter(None, (interval, of, name))))


def interval_of(metrics: Metrics, name: str) -> str:
    """The 95 % interval of a metric, in words; empty without one."""
    low, high = (metrics.values.get(f"{name}_ci_{end}") for end in ("low", "high"))
    return "" if low is None or high is None else f"95 %: {low:.4f} to {high:.4f}"


def outcome_lines(outcomes: Sequence[Outcome], metrics: Metrics, prefix: str, *, faults: bool) -> list[SummaryLine]:
    """The lines of those outcomes that have a value, or a reason for none.

    Args:
        outcomes: what the environment declares.
        metrics: the metrics.
        prefix: `eval` or `train`.
        faults: those that count something that went wrong, or the others.
    """
    lines = [_outcome_line(outcome, metrics, prefix) for outcome in outcomes if outcome.is_fault == faults]
    return [line for line in lines if line is not None]


def _outcome_line(outcome: Outcome, metrics: Metrics, prefix: str) -> SummaryLine | None:
    names = {f"{prefix}/{name}": label for name, label in outcome.metrics.items()}
    values = {name: metrics.values[name] for name in names if name in metrics.values}
    if outcome.is_fault and not any(values.values()):
        return None
    if not values:
        reason = next((metrics.left_out[name] for name in names if name in metrics.left_out), None)
        return None if reason is None else SummaryLine(outcome.words, _NONE, f"left out: {reason}")
    if len(names) > 1:
        shown = (f"{names[name]} {number(value, outcome.unit)}" for name, value in values.items())
        return SummaryLine(outcome.words, "", ", ".join(shown))
    ((name, value),) = values.items()
    low, high = (metrics.values.get(f"{name}_ci_{end}") for end in ("low", "high"))
    if low is None or high is None:
        return SummaryLine(outcome.words, number(value, outcome.unit))
    return SummaryLine(
        outcome.words,
        number(value, outcome.unit),
        f"95 %: {number(low, outcome.unit)} to {number(high, outcome.unit)}",
    )


def number(value: float, unit: Unit) -> str:
    """A value in its unit."""
    if unit == "count":
        return f"{value:,.0f}"
    return f"{value:.1%}".replace("%", " %") if unit == "share" else f"{value:.4f}"


def cost_lines(metrics: Metrics, prefix: str) -> list[SummaryLine]:
    """A line each for judge and policy, as far as they were asked: cost, calls, tokens, and what came from caches."""
    lines = []
    for role in ("judge", "policy"):
        found = {
            name.removeprefix(f"{prefix}/{role}_"): value
            for name, value in metrics.values.items()
            if name.startswith(f"{prefix}/{role}_")
        }
        is_unknown = f"{prefix}/{role}_cost_usd" in metrics.unknown
        if not is_unknown and "cost_usd" not in found:
            continue
        calls = _with_cached(found.get("calls"), found.get("cached_calls"), "calls")
        requests = found.get("requests")  # retries included, and none for a call from the cache
        if requests is not None and requests != found.get("calls", 0) - found.get("cached_calls", 0):
            calls += f" in {requests:,.0f} requests"
        prompt = _with_cached(found.get("prompt_tokens"), found.get("cached_prompt_tokens"), "tokens in")
        out = f"{found['completion_tokens']:,.0f} out" if "completion_tokens" in found else ""
        cost = UNKNOWN if is_unknown else dollars(found["cost_usd"])
        lines.append(SummaryLine(role, cost, ", ".join(filter(None, (calls, prompt, out)))))
    return lines


def _with_cached(count: float | None, cached: float | None, what: str) -> str:
    if count is None:
        return ""
    return f"{count:,.0f} {what}" + (f" ({cached:,.0f} cached)" if cached else "")


def latency_words(metrics: Metrics, prefix: str) -> str:
    """How long the calls of judge and policy took; empty if none was made."""
    parts = []
    for role in ("judge", "policy"):
        mean, p95 = (metrics.values.get(f"{prefix}/{role}_latency_{name}_s") for name in ("mean", "p95"))
        if mean is not None:
            parts.append(f"{role} {mean:.2f} s" + (f" (p95 {p95:.2f})" if p95 is not None else ""))
    return f"a call: {', '.join(parts)}" if parts else ""
