"""The page of an evaluation, or of a scored data set, from the files of its run directory.

Guarantees: the lines are read one by one, twice: for the numbers, which are kept, and for the items of the page, which
are not. The calls of the rows on the page are in memory, compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from judgegym.llm import wire
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.judged_calls import LedgerRows, calls_of_responses
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page import head
from judgegym.reports.run_page.charts import Words, charts
from judgegym.reports.run_page.choice import Rank, choose
from judgegym.reports.run_page.contents import Contents, ReportOptions
from judgegym.reports.run_page.figures import RunFigures
from judgegym.reports.run_page.items import ItemDetail, ItemSummary, PageHead
from judgegym.reports.run_page.rows import figures_of, response_detail, row_detail, row_summary
from judgegym.reports.run_page.tables import tables_of


def run_contents(path: Path, options: ReportOptions) -> Contents:
    """Read a run.

    Raises:
        RunDirectoryError: there is no such run, or a file of it is damaged.
    """
    run = SavedRun.open(path)
    figures, failed, uids, ledger = RunFigures(), list[bool](), list[str](), LedgerRows()
    for sample in run.samples():
        figures.add(figures_of(sample))
        failed.append(not sample.finished)
        uids.append(sample.uid)
        if run.is_scored:
            ledger.add(sample)
    ranks = [Rank(each, figures.value(place)) for place, each in enumerate(failed)]
    order = options.order or ("worst" if run.is_scored else "dataset")
    choice = choose(ranks, most=options.samples, order=order, items=run.items)
    seed = head.seed_of(run)
    so_far = head.overall(run, figures, seed=seed)
    page_head = PageHead(
        kind="responses" if run.is_scored else "rows",
        title=head.title_of(run),
        headline=head.headline(run, so_far),
        facts=head.facts(run, figures.statuses),
        notices=[*head.notices(run, figures), *filter(None, [choice.notice])],
        charts=charts(figures, _words(run, uids), overall=so_far, seed=seed),
        total=len(figures),
        tables=tables_of(run),
    )
    shown = [uids[place] for place in choice.places]
    rows = ledger.of(choice.places, shown) if run.is_scored else None
    is_sorted = order == "dataset"
    return Contents(page_head, lambda: _items(run, shown, rows, is_sorted=is_sorted))


def _words(run: SavedRun, uids: Sequence[str]) -> Words:
    words = head.headline_words(run)
    if not run.is_scored:
        return Words(words)
    return Words(words, item="response", length="response", intervals=not _depend_on_each_other(run, uids))


def _depend_on_each_other(run: SavedRun, uids: Sequence[str]) -> bool:
    """Whether several responses are of one prompt, so that an interval over single ones would be too narrow."""
    return wire.lookup(run.config, "group_by") is not None or any("/" in uid for uid in uids[:1])


def _items(
    run: SavedRun, uids: Sequence[str], rows: Mapping[str, str] | None, *, is_sorted: bool
) -> Iterator[tuple[ItemSummary, ItemDetail]]:
    """The items.

    Args:
        run: the run.
        uids: which of its rows.
        rows: of a scored data set, under which row the ledger has the calls of each.
        is_sorted: they are in the order of the run.
    """
    samples = run.samples(frozenset(uids)) if is_sorted else (run.read_sample(uid) for uid in uids)
    if rows is None:
        calls = CallsOfRows.read(run.path, uids)
        for sample in samples:
            yield row_summary(sample), row_detail(sample, calls.of(sample.uid))
        return
    calls_of = calls_of_responses(run, rows)
    for sample in samples:
        yield row_summary(sample), response_detail(sample, row_detail(sample, calls_of(sample)))
