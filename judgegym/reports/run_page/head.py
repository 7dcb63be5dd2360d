"""Build the head of an evaluation's page: the result, notices, facts, and the environment's tables.

Guarantee: tables of another form are left out (another program may have written `metrics.json`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from judgegym.engine.terminal.output import format_dollars
from judgegym.engine.terminal.summary import COMPLETION_FAULTS, ROLES
from judgegym.judges.core.judgment import Status
from judgegym.llm import wire
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.run import CHOSEN_HIGHER, SavedRun
from judgegym.reports.run_page.figures import Mean, RunFigures
from judgegym.reports.run_page.items import View
from judgegym.statistics import percent
from judgegym.statistics.agreement import Interval

Facts = list[tuple[str, str]]
"""Lines about the run: name and value."""
_MOST_ROWS = 200
"""The most rows of a table; the files of the run directory have all."""
_USAGE = {
    "cost": {"cost_usd": ",.4f US dollars"},
    "calls": {
        "calls": ",.0f calls",
        "requests": ",.0f requests",
        "cached_calls": ",.0f from the cache",
    },
    "tokens": {
        "prompt_tokens": ",.0f of prompts",
        "cached_prompt_tokens": ",.0f of these cached",
        "completion_tokens": ",.0f of answers",
    },
    "latency": {"latency_mean_s": ".3g s in the mean", "latency_p95_s": ".3g s for 95 % of them"},
}
"""Metrics of a role: the format of the number, and the words after it."""


def make_headline(run: SavedRun, so_far: Mean | None) -> str:
    """Describe the result; empty without one."""
    if run.headline is not None:
        interval = so_far.interval if so_far is not None else run.headline.interval
        result = format_with_interval(run.headline.value, interval)
        return f"{_chosen_higher(run)}{run.headline.words} {result}"
    if so_far:
        result = format_with_interval(so_far.value, so_far.interval)
        return f"{result}, of the {so_far.rows} {run.items} so far"
    return ""


def _chosen_higher(run: SavedRun) -> str:
    """Describe how often chosen responses score higher; empty without preferences."""
    name = f"eval/{CHOSEN_HIGHER}"
    value, low, high = (run.metrics.get(f"{name}{end}") for end in ("", "_ci_low", "_ci_high"))
    if value is None:
        return ""
    interval = None if low is None or high is None or low == high else Interval(low, high)
    return f"chosen is higher {format_with_interval(value, interval)}; "


def format_with_interval(value: float, interval: Interval | None) -> str:
    """Format a value with its interval, if it has one."""
    return f"{value:.4f}" + (
        "" if interval is None else f" (95 %: {interval.low:.4f} to {interval.high:.4f})"
    )


def list_notices(run: SavedRun, figures: RunFigures) -> list[str]:
    """Return notices for readers of the numbers."""
    messages = [str(notice) for notice in _as_list(run.general.get("notices"))]
    failed = {
        status: count
        for status, count in sorted(figures.statuses.items())
        if status not in (Status.OK.value, Status.INVALID_COMPLETION.value)
    }
    if not run.is_complete:
        messages.append(
            "The run is not complete: there are no metrics yet, and rows may be missing."
        )
    selected = wire.lookup(run.general, "rows.selected")
    if isinstance(selected, int) and selected != len(figures):
        messages.append(
            f"metrics.json is of {selected} rows, and samples.jsonl and failures.jsonl hold "
            f"{len(figures)}."
        )
    if not figures.has_values and len(failed) < len(figures.statuses):
        messages.append(
            "The run is of a version that did not keep what each row adds to the result: bars are "
            "mean scores."
        )
    if failed:
        kinds = ", ".join(f"{count} {status}" for status, count in failed.items())
        messages.append(
            f"{sum(failed.values())} of {len(figures)} {run.items} have no score: {kinds}."
        )
    return messages


def list_first_facts(run: SavedRun, statuses: Counter[str]) -> Facts:
    """Return the facts above the charts: rows, faults, cost and time."""
    selected = wire.lookup(run.general, "rows.selected")
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    rates = {words: run.metrics.get(f"eval/{name}") for name, words in COMPLETION_FAULTS.items()}
    faults = [f"{words} {percent(rate)} of the answers" for words, rate in rates.items() if rate]
    suspects = run.metrics.get("eval/judge_injection_suspects")
    seconds = run.general.get("total_evaluation_time_seconds")
    try:
        time = "" if seconds is None else f"{float(str(seconds)):,.1f} s"
    except ValueError:
        time = str(seconds)
    if selected is not None:
        counts = f"{selected} selected: {counts}"
    if suspects:
        faults.append(f"suspects of injection: {suspects:,.0f}")
    lines = [
        (run.items, counts),
        ("went wrong", ", ".join(faults)),
        ("cost", _describe_costs(run)),
        ("time", time),
        ("date", f"{run.date:%Y-%m-%d %H:%M} UTC" if run.is_complete else ""),
    ]
    return [(name, value) for name, value in lines if value]


def list_facts(run: SavedRun) -> Facts:
    """Return the facts below the charts: who was evaluated on what and how, and the usage."""
    general = run.general
    lines = [
        ("environment", "" if run.is_scored else run.environment),
        ("data set" if run.is_scored else "evaluated", run.policy),
        ("judge", run.judge),
        ("answers of", _describe_earlier_run(general.get("answers_of"))),
        ("version", _to_text(general.get("judgegym_version"))),
        ("seed", _to_text(describe_seed(run))),
        *(("data", _describe_dataset(dataset)) for dataset in _as_list(general.get("datasets"))),
        ("digest of the rows", _to_text(wire.lookup(general, "rows.digest"))),
        ("prompts", _format_pairs(general.get("judge_prompt_digests"), "")),
        ("sampling", _format_pairs(general.get("generation_parameters"), "")),
        ("protocol", _format_pairs(general.get("protocol"), "env.")),
        *chain.from_iterable(_describe_usage(run, role) for role in ROLES),
        *_group_by_reason("left out", general.get("left_out")),
        *_group_by_reason("unknown", general.get("unknown")),
    ]
    return [(name, value) for name, value in lines if value]


def describe_seed(run: SavedRun) -> JSON:
    """Return the seed of a run."""
    seed = run.general.get("seed")
    if seed is None:
        return wire.lookup(run.config, "seed" if run.is_scored else "env.seed")
    return seed


def _describe_dataset(dataset: JSON) -> str:
    name, split, rows, digest = (
        wire.lookup(dataset, field) for field in ("name", "split", "rows", "digest")
    )
    place = f", split {split}" if split is not None else ""
    return f"{name}{place}, {rows} rows, {digest}"


def _describe_earlier_run(value: JSON) -> str:
    """Describe the run whose completions are judged again, or that of each candidate."""
    if not isinstance(value, Mapping):
        return ""
    if "path" not in value:
        descriptions = {name: _describe_earlier_run(run) for name, run in value.items()}
        return "; ".join(f"{name}: {description}" for name, description in descriptions.items())
    path, judge, date, digest = (
        _to_text(value.get(name)) for name in ("path", "judge", "date", "digest")
    )
    return ", ".join(filter(None, [path, f"judged by {judge}" if judge else "", date, digest]))


def _describe_costs(run: SavedRun) -> str:
    names = {role: f"eval/{role}_cost_usd" for role in ROLES}
    known_costs = {role: run.metrics[name] for role, name in names.items() if name in run.metrics}
    if known_costs and all(cost is None for cost in known_costs.values()):
        return "not known"
    costs = []
    for role, cost in known_costs.items():
        dollars = "not known" if cost is None else format_dollars(cost)
        costs.append(f"{role} {dollars}")
    return ", ".join(costs)


def _describe_usage(run: SavedRun, role: str) -> Iterator[tuple[str, str]]:
    """Yield cost, calls, tokens and latency of a role, as far as they are known."""
    for name, parts in _USAGE.items():
        amounts = []
        for metric, form in parts.items():
            number, (digits, _, words) = (
                run.metrics.get(f"eval/{role}_{metric}"),
                form.partition(" "),
            )
            if number is not None:
                amounts.append(f"{number:{digits}} {words}")
            elif metric == "cost_usd" and f"eval/{role}_{metric}" in run.metrics:
                amounts.append("not known")
        yield f"{role} {name}", ", ".join(amounts)


def _group_by_reason(name: str, value: JSON) -> Facts:
    """Group metrics without a value by reason."""
    names: dict[str, list[str]] = {}
    for metric, reason in mapping_or_empty(value).items():
        names.setdefault(str(reason), []).append(metric)
    return [(name, f"{', '.join(metrics)}: {reason}") for reason, metrics in names.items()]


def _format_pairs(value: JSON, prefix: str) -> str:
    return ", ".join(
        f"{name.removeprefix(prefix)}={_to_text(item)}"
        for name, item in mapping_or_empty(value).items()
    )


def _to_text(value: JSON) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return wire.dumps(value).decode()


def _as_list(value: JSON) -> Sequence[JSON]:
    if isinstance(value, list):
        return value
    return []


def render_tables(run: SavedRun) -> list[View]:
    """Return the tables of a run: names in the first column, numbers in the others."""
    tables = []
    for table in _as_list(run.general.get("tables")):
        title, header, rows = (wire.lookup(table, name) for name in ("title", "header", "rows"))
        if isinstance(title, str) and _are_texts(header) and isinstance(rows, list):
            width = len(_as_list(header))
            text_rows = [row for row in rows[:_MOST_ROWS] if _are_texts(row)]
            valid_rows = [row for row in text_rows if len(_as_list(row)) == width]
            tables.append({"title": title, "header": header, "rows": valid_rows})
    return tables


def _are_texts(value: JSON) -> bool:
    return bool(_as_list(value)) and all(isinstance(entry, str) for entry in _as_list(value))
