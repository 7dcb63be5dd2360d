"""What stands above the rows of an evaluation: the result with its interval, and what a reader must know of it.

The tables of an environment in `metrics.json`, for the page of its run.

Guarantee: what is not the form of a table (another program, or somebody else, may have written the file) is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from judgegym.engine.terminal.output import dollars
from judgegym.engine.terminal.summary import COMPLETION_FAULTS
from judgegym.judges.core.judgment import Status
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun, mapping_of
from judgegym.reports.run_page.figures import Mean, RunFigures
from judgegym.reports.run_page.items import Fact, PageTable
from judgegym.statistics.agreement import Interval

_PREFIX = "eval/"


def title_of(run: SavedRun) -> str:
    """The environment, what was evaluated, and who judged; where the environment is not known, the directory."""
    judge = f", judged by {run.judge}" if run.judge and run.judge != run.policy else ""
    return f"{run.environment or run.path.name}: {run.policy}{judge}"


def overall(run: SavedRun, figures: RunFigures, *, seed: int) -> Mean | None:
    """The headline metric with its interval: that of `metrics.json`; of an unfinished run, that of the rows so far."""
    found, said = figures.headline(seed=seed), run.headline
    return found if said is None or found is None else Mean(said.value, found.rows, said.interval)


def headline(run: SavedRun, so_far: Mean | None) -> str:
    """The result in words; empty without one."""
    if run.headline is not None:
        return f"{run.headline.words} {with_interval(run.headline.value, run.headline.interval)}"
    return f"{with_interval(so_far.value, so_far.interval)}, of the {so_far.rows} {run.items} so far" if so_far else ""


def with_interval(value: float, interval: Interval | None) -> str:
    """A value with its interval, if it has one."""
    return f"{value:.4f}" + ("" if interval is None else f" (95 %: {interval.low:.4f} to {interval.high:.4f})")


def notices(run: SavedRun, figures: RunFigures) -> list[str]:
    """What a reader of the numbers must know."""
    said = [str(notice) for notice in _list(run.general.get("notices"))]
    if not run.is_complete:
        said.append("The run is not complete: there are no metrics yet, and rows may be missing.")
    if not figures.has_values and any(not _is_failure(status) for status in figures.statuses):
        said.append("The run is of a version that did not keep what each row adds to the result: bars are mean scores.")
    failed = {status: count for status, count in figures.statuses.items() if _is_failure(status)}
    if failed:
        kinds = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
        said.append(f"{sum(failed.values())} of {len(figures)} {run.items} have no score: {kinds}.")
    return said


def _is_failure(status: str) -> bool:
    return status not in (Status.OK.value, Status.INVALID_COMPLETION.value)


def facts(run: SavedRun, statuses: Counter[str]) -> list[Fact]:
    """Lines about the run: who, when, on what, how, at which cost, and what was left out."""
    general, selected = run.general, wire.lookup(run.general, "rows.selected")
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    found = [
        Fact(run.items, f"{selected} selected: {counts}" if selected is not None else counts, is_first=True),
        Fact("went wrong", _went_wrong(run), is_first=True),
        Fact("cost", _costs(run), is_first=True),
        Fact("time", _seconds(general.get("total_evaluation_time_seconds")), is_first=True),
        Fact("date", f"{run.date:%Y-%m-%d %H:%M} UTC" if run.is_complete else "", is_first=True),
        Fact("environment", "" if run.is_scored else run.environment),
        Fact("data set" if run.is_scored else "evaluated", run.policy),
        Fact("judge", run.judge),
        Fact("answers of", _earlier(general.get("answers_of"))),
        Fact("version", _text(general.get("judgegym_version"))),
        Fact("seed", _text(_seed(run))),
        *(Fact("data", _dataset(dataset)) for dataset in _list(general.get("datasets"))),
        Fact("digest of the rows", _text(wire.lookup(general, "rows.digest"))),
        Fact("prompts", _pairs(general.get("judge_prompt_digests"), "")),
        Fact("sampling", _pairs(general.get("generation_parameters"), "")),
        Fact("protocol", _pairs(general.get("protocol"), "env.")),
        *(fact for role in ("judge", "policy") for fact in _usage(run, role)),
        *(Fact("left out", line) for line in _by_reason(general.get("left_out"))),
        *(Fact("unknown", line) for line in _by_reason(general.get("unknown"))),
    ]
    return [fact for fact in found if fact.value]


def seed_of(run: SavedRun) -> int:
    """The seed of the run's intervals; 0 where it is not known."""
    return usable_seed(_seed(run))


def usable_seed(said: JSON) -> int:
    """What a run says of its seed, where that is one; else 0."""
    return said if isinstance(said, int) and said >= 0 else 0


def _seed(run: SavedRun) -> JSON:
    said = run.general.get("seed")
    return wire.lookup(run.config, "seed" if run.is_scored else "env.seed") if said is None else said


def _dataset(dataset: JSON) -> str:
    name, split, rows, digest = (wire.lookup(dataset, field) for field in ("name", "split", "rows", "digest"))
    place = f", split {split}" if split is not None else ""
    return f"{name}{place}, {rows} rows, {digest}"


def _earlier(value: JSON) -> str:
    """The run whose completions are judged again; of several candidates, that of each."""
    if not isinstance(value, Mapping):
        return ""
    if "path" not in value:
        return "; ".join(f"{candidate}: {_earlier(run)}" for candidate, run in value.items())
    path, judge, date, digest = (_text(value.get(name)) for name in ("path", "judge", "date", "digest"))
    return ", ".join(filter(None, [path, f"judged by {judge}" if judge else "", date, digest]))


def _went_wrong(run: SavedRun) -> str:
    """What is wrong with answers that were judged all the same; failed rows are told in a notice."""
    rates = {words: run.metrics.get(f"{_PREFIX}{name}") for name, words in COMPLETION_FAULTS.items()}
    said = [f"{words} {rate:.1%} of the answers".replace("%", " %") for words, rate in rates.items() if rate]
    suspects = run.metrics.get(f"{_PREFIX}judge_injection_suspects")
    return ", ".join([*said, *([f"suspects of injection: {suspects:,.0f}"] if suspects else [])])


def _costs(run: SavedRun) -> str:
    costs = {role: f"{_PREFIX}{role}_cost_usd" for role in ("judge", "policy")}
    there = [(role, run.metrics[name]) for role, name in costs.items() if name in run.metrics]
    if there and all(cost is None for _, cost in there):
        return "not known"
    return ", ".join(f"{role} {'not known' if cost is None else dollars(cost)}" for role, cost in there)


def _usage(run: SavedRun, role: str) -> list[Fact]:
    """Cost, calls, tokens and latency of judge or policy, as far as they are known."""

    def value(name: str) -> float | None:
        return run.metrics.get(f"{_PREFIX}{role}_{name}")

    def said(name: str, what: str, form: str = ",.0f") -> list[str]:
        number = value(name)
        return [] if number is None else [f"{number:{form}} {what}"]

    cost = said("cost_usd", "US dollars", ",.4f")
    if not cost and f"{_PREFIX}{role}_cost_usd" in run.metrics:
        cost = ["not known"]
    calls = [*said("calls", "calls"), *said("requests", "requests"), *said("cached_calls", "from the cache")]
    tokens = [
        *said("prompt_tokens", "of prompts"),
        *said("cached_prompt_tokens", "of these cached"),
        *said("completion_tokens", "of answers"),
    ]
    mean, high = said("latency_mean_s", "s in the mean", ".3g"), said("latency_p95_s", "s for 95 % of them", ".3g")
    parts = {"cost": cost, "calls": calls, "tokens": tokens, "latency": [*mean, *high]}
    return [Fact(f"{role} {name}", ", ".join(words)) for name, words in parts.items() if words]


def _by_reason(value: JSON) -> list[str]:
    """Metrics without a value, those with one reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in mapping_of(value).items():
        names.setdefault(str(reason), []).append(name)
    return [f"{', '.join(of_reason)}: {reason}" for reason, of_reason in names.items()]


def _pairs(value: JSON, prefix: str) -> str:
    return ", ".join(f"{name.removeprefix(prefix)}={_text(item)}" for name, item in mapping_of(value).items())


def _seconds(value: JSON) -> str:
    try:
        return f"{float(str(value)):,.1f} s" if value is not None else ""
    except ValueError:
        return str(value)


def _text(value: JSON) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else wire.dumps(value).decode()


def _list(value: JSON) -> Sequence[JSON]:
    return cast("Sequence[JSON]", value) if isinstance(value, list) else []


_MOST_ROWS = 200
"""Of one table; the files of the run directory have all."""


def tables_of(run: SavedRun) -> list[PageTable]:
    """Return the tables of a run; none before it is complete."""
    listed = run.general.get("tables")
    found = (_table(each) for each in listed) if isinstance(listed, list) else ()
    return [table for table in found if table is not None]


def _table(value: JSON) -> PageTable | None:
    title, header, rows = (wire.lookup(value, name) for name in ("title", "header", "rows"))
    names = _texts(header)
    if not isinstance(title, str) or names is None or not isinstance(rows, list):
        return None
    cells = [row for each in rows[:_MOST_ROWS] if (row := _texts(each)) is not None and len(row) == len(names)]
    return PageTable(title, names, cells)


def _texts(value: JSON) -> Sequence[str] | None:
    if not isinstance(value, list):
        return None
    texts = [each for each in value if isinstance(each, str)]
    return texts if texts and len(texts) == len(value) else None
