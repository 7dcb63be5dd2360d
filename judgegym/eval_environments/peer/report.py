"""Report of a peer evaluation: scores by round, ranking, agreement and history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.terminal import Table
from judgegym.environments.evaluate.metrics import MISSING_CELLS
from judgegym.eval_environments.models import make_csv
from judgegym.eval_environments.peer.ranking import (
    adjust_for_leniency,
    compute_means,
    compute_self_preference,
)
from judgegym.eval_environments.peer.results import Changes, PeerCell, PeerResults, PeerTable
from judgegym.judges.core.judgment import CritiqueRound
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import correlation, krippendorff_alpha

_EMPTY = "–"
_CORNER = "judge \\ candidate"


def make_score_table(results: PeerResults, number: int) -> Table:
    """Return a table of mean scores after a round, judges × candidates, with missing cells."""
    rows = tuple(
        (
            judge,
            *(
                _format_cell(float(mean), results.missing[judge, name])
                for name, mean in zip(results.candidates, row, strict=True)
            ),
        )
        for judge, row in zip(results.judges, compute_means(results.scores[number], 0), strict=True)
    )
    if number == 0 and results.rounds:
        when = "ahead of the critique"
    elif number:
        when = f"after round {number}"
    else:
        when = ""
    return Table(
        " ".join(part for part in ("Scores", when) if part),
        (_CORNER, *results.candidates),
        tuple(rows),
    )


def _format_cell(mean: float, missing: int) -> str:
    if math.isnan(mean):
        shown = _EMPTY
    elif mean == int(mean):
        shown = f"{mean:g}"
    else:
        shown = f"{mean:.1f}"
    if missing:
        return f"{shown} ({missing} missing)"
    return shown


def make_score_csv(results: PeerResults, number: int) -> bytes:
    """Format the score table as CSV: only numbers, and an empty cell for a missing score."""
    judges = zip(results.judges, compute_means(results.scores[number], 0), strict=True)
    rows = (
        (judge, *("" if math.isnan(mean) else f"{mean:.10g}" for mean in row))
        for judge, row in judges
    )
    return make_csv([("judge", *results.candidates), *rows])


def make_ranking_table(results: PeerResults) -> Table:
    """Return candidates by adjusted score (or all by mean score); those without scores last."""
    count = len(results.candidates)
    adjusted = adjust_for_leniency(results.final)
    before = adjust_for_leniency(results.scores[0])
    columns = [
        None if math.isnan(mean) else float(mean) for mean in compute_means(results.final, (0, 1))
    ]
    ranked_by = columns if isinstance(adjusted, str) else adjusted
    rows: list[tuple[float, tuple[str, ...]]] = []
    for candidate, key, interval, mean, score, earlier in zip(
        results.candidates,
        ranked_by,
        results.intervals or [None] * count,
        columns,
        [None] * count if isinstance(adjusted, str) else adjusted,
        [None] * count if isinstance(before, str) else before,
        strict=True,
    ):
        shown = _EMPTY
        if interval is not None:
            shown = f"{interval.low:.1f} to {interval.high:.1f}"
        cells = (
            candidate,
            _format_number(score),
            shown,
            _format_number(mean),
            _format_number(earlier),
        )
        rows.append((float("-inf") if key is None else key, cells))
    rows.sort(key=lambda row: -row[0])
    header = (
        "rank and candidate",
        "adjusted for leniency",
        "95 %",
        "column mean",
        "adjusted, ahead of the critique",
    )
    title = "Ranking"
    if isinstance(adjusted, str):
        title = f"Ranking by column means, since {adjusted}"
    return Table(
        title,
        header,
        tuple((f"{rank}. {cells[0]}", *cells[1:]) for rank, (_, cells) in enumerate(rows, start=1)),
    )


def _format_number(value: float | None) -> str:
    if value is None:
        return _EMPTY
    return f"{value:.1f}"


def add_metrics(metrics: MetricAggregator, results: PeerResults, *, expected_cells: int) -> None:
    """Add scores, intervals, agreement, self-preference, changes by critique, and missing cells.

    Args:
        metrics: the aggregator.
        results: all queries.
        expected_cells: the number of cells in a complete evaluation.
    """
    _add_scores(metrics, results)
    _add_agreement(metrics, results)
    for row, name in enumerate(results.judges):
        if name in results.candidates:
            preference = compute_self_preference(results.final, row, results.candidates.index(name))
            suffix = slug(name)
            _add_value(metrics, f"self_preference_{suffix}", preference)
    _add_changes(metrics, "", results.all_changes)
    for judge in results.judges:
        suffix = slug(judge)
        _add_changes(metrics, f"_{suffix}", results.changes[judge])
    if results.critique_rounds:
        metrics.ratio("critique_failed_round_rate", results.failed_rounds, results.critique_rounds)
    missing = results.missing.total()
    metrics.number("missing_cells", missing)
    metrics.number(MISSING_CELLS, missing / expected_cells if expected_cells else 0.0)


def _add_changes(metrics: MetricAggregator, suffix: str, changes: Changes) -> None:
    if changes.cells:
        metrics.ratio(
            f"critique_changed_rate{suffix}", changes.raised + changes.lowered, changes.cells
        )
        metrics.ratio(f"critique_raised_rate{suffix}", changes.raised, changes.cells)
        metrics.ratio(f"critique_lowered_rate{suffix}", changes.lowered, changes.cells)
        metrics.ratio(f"critique_mean_change{suffix}", changes.total, changes.cells)


def _add_scores(metrics: MetricAggregator, results: PeerResults) -> None:
    adjusted = adjust_for_leniency(results.final)
    before = adjust_for_leniency(results.scores[0])
    columns = compute_means(results.final, (0, 1))
    for number, candidate in enumerate(results.candidates):
        suffix = slug(candidate)
        _add_value(metrics, f"mean_score_{suffix}", float(columns[number]))
        name = f"adjusted_score_{suffix}"
        _add_value(metrics, name, adjusted if isinstance(adjusted, str) else adjusted[number])
        interval = results.intervals[number] if results.intervals else None
        low: float | str = "no interval over these queries"
        high = low
        if interval is not None:
            low, high = interval.low, interval.high
        _add_value(metrics, f"{name}_ci_low", low)
        _add_value(metrics, f"{name}_ci_high", high)
        if results.rounds:
            _add_value(
                metrics,
                f"{name}_before_critique",
                before if isinstance(before, str) else before[number],
            )


def _add_agreement(metrics: MetricAggregator, results: PeerResults) -> None:
    """Add Krippendorff's alpha and each pair's rank correlation, over answers scored by both."""
    by_judge = results.final.transpose(1, 0, 2).reshape(len(results.judges), -1)
    _add_value(metrics, "krippendorff_alpha", krippendorff_alpha(by_judge))
    for first, second in combinations(range(len(results.judges)), 2):
        first_name = slug(results.judges[first])
        second_name = slug(results.judges[second])
        name = f"spearman_{first_name}_{second_name}"
        _add_value(metrics, name, correlation("spearman", by_judge[first], by_judge[second]))


def _add_value(metrics: MetricAggregator, name: str, value: float | str | None) -> None:
    if isinstance(value, str):
        metrics.leave_out(name, value)
    elif value is None or math.isnan(value):
        metrics.leave_out(name, "no score")
    else:
        metrics.number(name, value)


def iter_history_lines(tables: Iterable[tuple[str, PeerTable]]) -> Iterator[Mapping[str, JSON]]:
    """Yield the critique's history by round and cell, in the specification's field names.

    Args:
        tables: the table of each query, with the query's id.
    """
    for uid, cell in _iter_cells(tables):
        for entry in cell.rounds:
            yield {
                "round": entry.round,
                "uid": uid,
                "evaluating_model": cell.judge,
                "evaluated_model": cell.candidate,
                "before_score": entry.before,
                "before_reasoning": entry.before_reasoning,
                "raw_response": entry.raw,
                "critique": entry.critique,
                "after_score": entry.after,
                "after_reasoning": entry.after_reasoning,
                "status": entry.status,
                "error": entry.error,
            }


def iter_report(
    results: PeerResults, tables: Callable[[], Iterable[tuple[str, PeerTable]]]
) -> Iterator[str]:
    """Yield the paragraphs of a report in Markdown: all tables, missing cells, and the history.

    Args:
        results: all queries.
        tables: reads the table of each query, with the query's id; called once per part of the
            report.
    """
    yield "# Peer evaluation"
    yield _format_markdown(make_ranking_table(results))
    for number in range(results.rounds + 1):
        yield _format_markdown(make_score_table(results, number))
    if results.missing:
        yield "## Missing cells"
        for uid, cell in _iter_cells(tables()):
            if cell.score is None:
                yield f"* {uid}: {cell.judge} of {cell.candidate}: {cell.status}: {cell.error}"
    for number in range(1, results.rounds + 1):
        yield f"## Critique, round {number}"
        for uid, cell in _iter_cells(tables()):
            for entry in cell.rounds:
                if entry.round == number:
                    yield _format_history_entry(uid, cell, entry)


def _iter_cells(tables: Iterable[tuple[str, PeerTable]]) -> Iterator[tuple[str, PeerCell]]:
    """Yield each cell with its query's id."""
    for uid, table in tables:
        for cell in table.cells:
            yield uid, cell


def _format_markdown(table: Table) -> str:
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    lines = [f"## {table.title}", ""]
    for row in rows:
        cells = " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append(f"| {cells} |")
    return "\n".join(lines)


def _format_history_entry(uid: str, cell: PeerCell, entry: CritiqueRound) -> str:
    """Format a round as Markdown, indented so that no text in it is parsed as markup."""
    status = f"{entry.status}: {entry.error}" if entry.error else entry.status
    lines = [
        f"Query: {uid}",
        f"Judge: {cell.judge}  →  Candidate: {cell.candidate}",
        "  Before:",
        f"    Score: {entry.before}",
        f"    Reasoning: {entry.before_reasoning}",
        "  Raw response (critique + revision):",
        f"    {entry.raw}",
        f"  After ({status}):",
        f"    Score: {entry.after}",
        f"    Reasoning: {entry.after_reasoning}",
    ]
    return "\n".join("    " + line.replace("\n", "\n        ") for line in lines)


def list_tables(results: PeerResults) -> Sequence[Table]:
    """Return the score table of each round, and the ranking."""
    return [
        *(make_score_table(results, number) for number in range(results.rounds + 1)),
        make_ranking_table(results),
    ]
