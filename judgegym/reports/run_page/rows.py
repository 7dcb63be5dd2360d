"""The rows of an evaluation as items of its page.

The page of an evaluation, or of a scored data set, from the files of its run directory.

Guarantees: the lines are read one by one, twice: for the numbers, which are kept, and for the items of the page, which
are not. The calls of the rows on the page are in memory, compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample
from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.judges.core.judgment import CallRun
from judgegym.llm import wire
from judgegym.llm.wire import CUT_OFF, JSON
from judgegym.reports.results.calls import CallsOfRows, LedgerRows, calls_of_responses
from judgegym.reports.results.run import CandidateOfRow, SavedRun, candidates_of
from judgegym.reports.run_page import head
from judgegym.reports.run_page.charts import Words, charts
from judgegym.reports.run_page.figures import RowFigures, RunFigures, orders_disagree
from judgegym.reports.run_page.head import tables_of
from judgegym.reports.run_page.items import (
    CallView,
    CompletionView,
    Contents,
    ItemDetail,
    ItemSummary,
    NamedText,
    PageHead,
    Rank,
    ReportOptions,
    call_views,
    choose,
)
from judgegym.reports.run_page.verdict import gold_differs, texts_of_judge, verdict_in_words

_START = 140


def figures_of(sample: Sample[JSON]) -> RowFigures:
    """The numbers of a row."""
    share = sample.headline
    return RowFigures(
        category=sample.category,
        status=sample.status,
        score=sample.score,
        total=None if share is None else share.total,
        weight=None if share is None else share.weight,
        length=_length(sample),
        judge_cost=_judge_cost(sample),
        judge_seconds=_seconds((sample.run.judge_calls or {}).values()),
        policy_seconds=_seconds(sample.run.policy_calls),
        orders=sample.orders,
    )


def row_summary(sample: Sample[JSON]) -> ItemSummary:
    """A row in the list."""
    share = sample.headline
    return ItemSummary(
        id=sample.uid,
        category=sample.category,
        status=sample.status,
        label=sample.label,
        failed=not sample.finished,
        score=sample.score,
        value=None if share is None or not share.weight else share.value,
        orders_disagree=orders_disagree(sample.orders),
        length=_length(sample),
        seconds=sample.run.seconds,
        judge_cost=_judge_cost(sample),
        start=wire.shorten(sample.question, _START),
        gold_differs=gold_differs(sample),
    )


def row_detail(sample: Sample[JSON], calls: Sequence[RecordedCall]) -> ItemDetail:
    """What a row opens to."""
    return ItemDetail(
        id=sample.uid,
        error=sample.error,
        conversation=conversation(calls) or [NamedText("question", sample.question)],
        texts=[NamedText(title, text) for title, text in sample.texts.items()],
        completions=_completions(sample),
        calls=call_views(calls),
        judgment=sample.detail,
        critique=None if sample.judgment is None else sample.judgment.critique,
        verdict=verdict_in_words(sample),
        said=texts_of_judge(sample),
    )


def response_detail(sample: Sample[JSON], detail: ItemDetail) -> ItemDetail:
    """What a response opens to: the judge's reasons before it, and the numbers of its score."""
    components = wire.lookup(sample.detail, "components")
    shown: list[CompletionView] = [replace(completion, title="response") for completion in detail.completions]
    has_numbers = isinstance(components, Mapping) and components
    return replace(detail, completions=shown, judgment=components if has_numbers else None)


def _completions(sample: Sample[JSON]) -> list[CompletionView]:
    several = len(sample.completions) > 1
    own = [
        completion_view(completion, f"conversation {number}" if several else "answer")
        for number, completion in enumerate(sample.completions, start=1)
    ]
    return own or [_candidate_view(candidate) for candidate in candidates_of(sample)]


def _candidate_view(candidate: CandidateOfRow) -> CompletionView:
    title = candidate.name if candidate.score is None else f"{candidate.name}, scored {candidate.score:.4g}"
    notes = [f"no answer: {candidate.error}"] if candidate.answer is None else [*filter(None, [candidate.error])]
    return CompletionView(title, candidate.answer or "", "", notes, score=candidate.score)


def conversation(calls: Sequence[RecordedCall]) -> list[NamedText]:
    """What the policy was asked, by the ledger; nothing if it was not asked, or if no texts were kept.

    Of several conversations each message is titled with its number. One that was asked several times, for several votes
    or of several candidates, is there once.
    """
    asked: dict[str, list[NamedText]] = {}
    for call in calls:
        if call.is_of_policy and call.messages:
            asked.setdefault(call.component, [NamedText(each["role"], each["content"]) for each in call.messages])
    if len({tuple(messages) for messages in asked.values()}) < 2:
        return next(iter(asked.values()), [])
    in_order = sorted(asked, key=lambda component: (len(component), component))  # conversation_9, conversation_10
    return [
        NamedText(f"conversation {number}: {message.title}", message.text)
        for number, component in enumerate(in_order, start=1)
        for message in asked[component]
    ]


def completion_view(completion: Completion, title: str, *, calls: Sequence[CallView] = ()) -> CompletionView:
    """A completion of the policy."""
    return CompletionView(title, completion.answer, completion.thinking, _notes(completion), calls=calls)


def _notes(completion: Completion) -> list[str]:
    notes = []
    if completion.thinking_fault is not None:
        notes.append(f"thinking: {completion.thinking_fault.replace('_', ' ')}")
    if completion.finish_reason == CUT_OFF:
        notes.append("cut off")
    if completion.refused:
        notes.append("refused")
    if completion.short:
        notes.append("shorter than asked for")
    if not completion.answer.strip():
        notes.append("empty")
    return notes


def _length(sample: Sample[JSON]) -> int:
    answers = [completion.answer for completion in sample.completions]
    return sum(map(len, answers or [candidate.answer or "" for candidate in candidates_of(sample)]))


def _judge_cost(sample: Sample[JSON]) -> float | None:
    if not sample.run.judge_calls:  # no judge was asked
        return None
    total = 0.0
    for run in sample.run.judge_calls.values():
        if run.usage.cost is None:
            return None
        total += run.usage.cost
    return total


def _seconds(runs: Iterable[CallRun]) -> tuple[float, ...]:
    return tuple(run.latency_s for run in runs if run.latency_s and not run.cached)


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
