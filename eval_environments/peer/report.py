"""Report a peer evaluation: scores by round, ranking, agreement and history, as tables, files and metrics."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from environments.evaluate.metrics import MISSING_CELLS
from environments.evaluate.report import Table
from environments.metrics import MetricAggregator, slug
from eval_environments.peer.table import PeerCell, PeerTable
from judges.core.judgment import CritiqueRound
from judges.llm.wire import JSON
from judges.peers.ranking import ScoreMatrix, adjusted_intervals, leniency_adjusted, scores_of, self_preference
from judges.statistics.agreement import krippendorff_alpha, rank_correlation
from judges.statistics.bootstrap import Interval

_EMPTY = "–"
_CORNER = "judge \\ candidate"
_CHANGES = ("changed_rate", "raised_rate", "lowered_rate", "mean_change")


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class PeerResults:
    """The tables of all queries.

    Attributes:
        judges: the judges' names; the rows.
        candidates: the candidates' names; the columns.
        uids: the ids of the queries.
        tables: the table of each query.
        seed: the seed of the intervals.
    """

    judges: tuple[str, ...]
    candidates: tuple[str, ...]
    uids: tuple[str, ...]
    tables: tuple[PeerTable, ...]
    seed: int

    @property
    def cells(self) -> Iterator[tuple[str, PeerCell]]:
        """Each cell with its query."""
        for uid, table in zip(self.uids, self.tables, strict=True):
            for cell in table.cells:
                yield uid, cell

    @cached_property
    def rounds(self) -> int:
        """The last round that any cell had; 0 without critique."""
        return max((entry.round for _, cell in self.cells for entry in cell.rounds), default=0)

    def scores(self, number: int) -> ScoreMatrix:
        """The scores after a round; 0: before the first round."""
        place = {uid: query for query, uid in enumerate(self.uids)}
        entries = [
            (place[uid], self.judges.index(cell.judge), self.candidates.index(cell.candidate), float(score))
            for uid, cell in self.cells
            if (score := cell.after(number)) is not None
        ]
        shape = {"queries": len(self.uids), "judges": len(self.judges), "candidates": len(self.candidates)}
        return scores_of(entries, **shape)

    @cached_property
    def final(self) -> ScoreMatrix:
        """The scores after the last round."""
        return self.scores(self.rounds)

    @cached_property
    def intervals(self) -> list[Interval | None]:
        """The intervals of the adjusted scores, over the queries."""
        return adjusted_intervals(self.final, seed=self.seed)

    @property
    def missing(self) -> list[tuple[str, PeerCell]]:
        """Cells without a score."""
        return [(uid, cell) for uid, cell in self.cells if cell.score is None]


def score_table(results: PeerResults, number: int) -> Table:
    """Judges as rows and candidates as columns: mean scores after a round, and how many queries lack one."""
    table = results.scores(number).table()
    missing = {
        (judge, candidate): sum((cell.judge, cell.candidate) == (judge, candidate) for _, cell in results.missing)
        for judge in results.judges
        for candidate in results.candidates
    }
    rows = tuple(
        (
            judge,
            *(
                _cell(value, missing[judge, candidate])
                for candidate, value in zip(results.candidates, row, strict=True)
            ),
        )
        for judge, row in zip(results.judges, table, strict=True)
    )
    when = "ahead of the critique" if number == 0 and results.rounds else f"after round {number}" if number else ""
    return Table(" ".join(part for part in ("Scores", when) if part), (_CORNER, *results.candidates), rows)


def _cell(value: float | None, missing: int) -> str:
    shown = _EMPTY if value is None else f"{value:g}" if value == int(value) else f"{value:.1f}"
    return f"{shown} ({missing} missing)" if missing else shown


def score_csv(results: PeerResults, number: int) -> bytes:
    """`score_table` as CSV: only numbers, and an empty cell for a missing score."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("judge", *results.candidates))
    for judge, row in zip(results.judges, results.scores(number).table(), strict=True):
        writer.writerow((judge, *("" if value is None else f"{value:.10g}" for value in row)))
    return text.getvalue().encode()


def ranking_table(results: PeerResults) -> Table:
    """Candidates by their leniency-adjusted score, or all by the mean of their column; those without scores last."""
    adjusted, means = leniency_adjusted(results.final), results.final.column_means()
    before = leniency_adjusted(results.scores(0))
    rows: list[tuple[float, tuple[str, ...]]] = []
    for number, candidate in enumerate(results.candidates):
        mean = means[number]
        interval = results.intervals[number] if results.intervals else None
        key = adjusted[number] if not isinstance(adjusted, str) else mean
        cells = (
            candidate,
            _number(adjusted[number] if not isinstance(adjusted, str) else None),
            f"{interval.low:.1f} to {interval.high:.1f}" if interval is not None else _EMPTY,
            _number(mean),
            _number(before[number] if not isinstance(before, str) else None),
        )
        rows.append((float("-inf") if key is None else key, cells))
    rows.sort(key=lambda row: -row[0])
    header = ("rank and candidate", "adjusted for leniency", "95 %", "column mean", "adjusted, ahead of the critique")
    return Table(
        "Ranking" if not isinstance(adjusted, str) else f"Ranking by column means, since {adjusted}",
        header,
        tuple((f"{rank}. {cells[0]}", *cells[1:]) for rank, (_, cells) in enumerate(rows, start=1)),
    )


def _number(value: float | None) -> str:
    return _EMPTY if value is None else f"{value:.1f}"


def add_metrics(metrics: MetricAggregator, results: PeerResults, *, expected_cells: int) -> None:
    """Scores, intervals, agreement, self-preference, what the critique changed, and missing cells.

    Args:
        metrics: where they go.
        results: all queries.
        expected_cells: cells that there should be.
    """
    _add_scores(metrics, results)
    _add_agreement(metrics, results)
    for row, name in enumerate(results.judges):
        if name in results.candidates:
            own = self_preference(results.final, row, results.candidates.index(name))
            _add(metrics, f"self_preference_{slug(name)}", own)
    for judge in results.judges:
        changes = [
            cell.score - cell.before_score
            for _, cell in results.cells
            if cell.judge == judge and cell.rounds and cell.score is not None and cell.before_score is not None
        ]
        for change in changes:
            for suffix in ("", f"_{slug(judge)}"):
                metrics.rate(f"critique_changed_rate{suffix}", change != 0)
                metrics.rate(f"critique_raised_rate{suffix}", change > 0)
                metrics.rate(f"critique_lowered_rate{suffix}", change < 0)
                metrics.mean(f"critique_mean_change{suffix}", change)
    for _, cell in results.cells:
        for entry in cell.rounds:
            metrics.rate("critique_failed_round_rate", entry.status == "failed")
    metrics.number("missing_cells", len(results.missing))
    metrics.number(MISSING_CELLS, len(results.missing) / expected_cells if expected_cells else 0.0)


def is_of_single_models(name: str, models: Set[str]) -> bool:
    """Whether a metric that `add_metrics` recorded is of one model or of a pair of models."""
    if name.startswith("mean_score_category_"):
        return False
    slugs = {slug(model) for model in models}
    of_models = ("mean_score", "adjusted_score", "spearman", "self_preference", *(f"critique_{x}" for x in _CHANGES))
    return any(name.startswith(f"{start}_{model}") for start in of_models for model in slugs)


def _add_scores(metrics: MetricAggregator, results: PeerResults) -> None:
    adjusted, before = leniency_adjusted(results.final), leniency_adjusted(results.scores(0))
    for number, candidate in enumerate(results.candidates):
        mean = results.final.column_means()[number]
        _add(metrics, f"mean_score_{slug(candidate)}", mean)
        name = f"adjusted_score_{slug(candidate)}"
        _add(metrics, name, adjusted if isinstance(adjusted, str) else adjusted[number])
        interval = results.intervals[number] if results.intervals else None
        no_interval = "no interval over these queries"
        _add(metrics, f"{name}_ci_low", no_interval if interval is None else interval.low)
        _add(metrics, f"{name}_ci_high", no_interval if interval is None else interval.high)
        if results.rounds:
            _add(metrics, f"{name}_before_critique", before if isinstance(before, str) else before[number])


def _add_agreement(metrics: MetricAggregator, results: PeerResults) -> None:
    """Krippendorff's alpha and each pair's rank correlation, over the answers that the judges share."""
    by_judge = results.final.cells.transpose(1, 0, 2).reshape(len(results.judges), -1)
    ratings = [[None if value != value else float(value) for value in row] for row in by_judge]  # NaN is not itself
    _add(metrics, "krippendorff_alpha", krippendorff_alpha(ratings))
    for one, other in combinations(range(len(results.judges)), 2):
        name = f"spearman_{slug(results.judges[one])}_{slug(results.judges[other])}"
        _add(metrics, name, rank_correlation(ratings[one], ratings[other]))


def _add(metrics: MetricAggregator, name: str, value: float | str | None) -> None:
    if value is None or isinstance(value, str):
        metrics.leave_out(name, value or "no score")
    else:
        metrics.number(name, value)


def history_lines(results: PeerResults) -> Iterator[Mapping[str, JSON]]:
    """The critique's history, an entry for each round of each cell, in the specification's field names."""
    for uid, cell in results.cells:
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


def readable_report(results: PeerResults) -> str:
    """All tables, what is missing, and the history, as Markdown."""
    tables = [ranking_table(results), *(score_table(results, number) for number in range(results.rounds + 1))]
    parts = ["# Peer evaluation", *(_markdown(table) for table in tables)]
    if results.missing:
        parts.append("## Missing cells")
        parts += [
            f"* {uid}: {cell.judge} of {cell.candidate}: {cell.status}: {cell.error}" for uid, cell in results.missing
        ]
    for number in range(1, results.rounds + 1):
        parts.append(f"## Critique, round {number}")
        parts += [
            _history_entry(uid, cell, entry)
            for uid, cell in results.cells
            for entry in cell.rounds
            if entry.round == number
        ]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join([f"## {table.title}", "", *(f"| {' | '.join(row)} |" for row in escaped)])


def _history_entry(uid: str, cell: PeerCell, entry: CritiqueRound) -> str:
    """One round as Markdown, indented so that no text in it is read as markup."""
    lines = [
        f"Query: {uid}",
        f"Judge: {cell.judge}  →  Candidate: {cell.candidate}",
        "  Before:",
        f"    Score: {entry.before}",
        f"    Reasoning: {entry.before_reasoning}",
        "  Raw response (critique + revision):",
        f"    {entry.raw}",
        f"  After ({entry.status}{f': {entry.error}' if entry.error else ''}):",
        f"    Score: {entry.after}",
        f"    Reasoning: {entry.after_reasoning}",
    ]
    return "\n".join("    " + line.replace("\n", "\n        ") for line in lines)


def tables_to_show(results: PeerResults) -> Sequence[Table]:
    """The score table of each round, and the ranking."""
    return [*(score_table(results, number) for number in range(results.rounds + 1)), ranking_table(results)]
