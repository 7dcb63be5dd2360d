"""The page of an evaluation, from the files of its run directory.

Guarantees: the lines are read one by one, twice: for the numbers, which are kept, and for the items of the page, which
are not. The calls of the rows on the page are in memory, compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from environments.report.results.calls import CallsOfRows
from environments.report.results.run import SavedRun
from environments.report.run_page import head
from environments.report.run_page.charts import Words, charts
from environments.report.run_page.choice import Rank, choose
from environments.report.run_page.contents import Contents, ReportOptions
from environments.report.run_page.figures import RunFigures
from environments.report.run_page.items import ItemDetail, ItemSummary, PageHead
from environments.report.run_page.rows import figures_of, row_detail, row_summary
from environments.report.run_page.tables import tables_of


def run_contents(path: Path, options: ReportOptions) -> Contents:
    """Read a run.

    Raises:
        RunDirectoryError: there is no such run, or a file of it is damaged.
    """
    run = SavedRun.open(path)
    figures, failed, uids = RunFigures(), list[bool](), list[str]()
    for sample in run.samples():
        figures.add(figures_of(sample))
        failed.append(not sample.finished)
        uids.append(sample.uid)
    ranks = [Rank(each, figures.value(place)) for place, each in enumerate(failed)]
    choice = choose(ranks, most=options.samples, order=options.order)
    seed = head.seed_of(run)
    so_far = head.overall(run, figures, seed=seed)
    page_head = PageHead(
        kind="rows",
        title=head.title_of(run),
        headline=head.headline(run, so_far),
        facts=head.facts(run, figures.statuses),
        notices=[*head.notices(run, figures), *filter(None, [choice.notice])],
        charts=charts(figures, Words(head.headline_words(run)), overall=so_far, seed=seed),
        total=len(figures),
        tables=tables_of(run),
    )
    shown = [uids[place] for place in choice.places]
    calls = CallsOfRows.read(path, shown)
    is_sorted = options.order == "dataset"
    return Contents(page_head, lambda: _items(run, calls, shown, is_sorted=is_sorted))


def _items(
    run: SavedRun, calls: CallsOfRows, uids: Sequence[str], *, is_sorted: bool
) -> Iterator[tuple[ItemSummary, ItemDetail]]:
    if is_sorted:
        wanted = frozenset(uids)
        samples = (sample for sample in run.samples() if sample.uid in wanted)
    else:
        samples = (run.read_sample(uid) for uid in uids)
    for sample in samples:
        yield row_summary(sample), row_detail(sample, calls.of(sample.uid))
