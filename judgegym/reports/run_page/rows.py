"""The page of an evaluation, or of a scored data set, from the files of its run directory: its rows are the items.

Guarantees: the lines are read one by one, twice: for the numbers, which are kept, and for the items of the page, which
are not. The calls of the rows on the page are in memory, compressed.

What an opened row shows first is its verdict in words, and the judge's texts. They are read from the detail of the
judgment, by the fields that `docs/run_files.md` names; a detail of another form has its label alone. Whatever a file
holds, nothing here fails.
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
from judgegym.reports.results.run import CandidateOfRow, SavedRun, candidates_of, objects_in, text_of
from judgegym.reports.run_page import head
from judgegym.reports.run_page.charts import Words, charts
from judgegym.reports.run_page.figures import RunFigures, orders_disagree, total_cost
from judgegym.reports.run_page.head import tables_of
from judgegym.reports.run_page.items import (
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

_START = 140
_PLACES = {"model_is_a": "A", "model_is_b": "B"}
_MOST_VOTES = 12


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
        CompletionView(
            f"conversation {number}" if several else "answer",
            completion.answer,
            completion.thinking,
            _notes(completion),
        )
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


def _notes(completion: Completion) -> list[str]:
    notes = {
        f"thinking: {(completion.thinking_fault or '').replace('_', ' ')}": completion.thinking_fault is not None,
        "cut off": completion.finish_reason == CUT_OFF,
        "refused": completion.refused,
        "shorter than asked for": completion.short,
        "empty": not completion.answer.strip(),
    }
    return [note for note, holds in notes.items() if holds]


def _length(sample: Sample[JSON]) -> int:
    answers = [completion.answer for completion in sample.completions]
    return sum(map(len, answers or [candidate.answer or "" for candidate in candidates_of(sample)]))


def _judge_cost(sample: Sample[JSON]) -> float | None:
    if not sample.run.judge_calls:  # no judge was asked
        return None
    return total_cost(run.usage.cost for run in sample.run.judge_calls.values())


def _seconds(runs: Iterable[CallRun]) -> tuple[float, ...]:
    return tuple(run.latency_s for run in runs if run.latency_s and not run.cached)


def gold_differs(sample: Sample[JSON]) -> bool | None:
    """Whether the judge said anything else than a gold label of the row; `None` without a gold label and a verdict."""
    known = [label.agrees for label in sample.gold if label.agrees is not None]
    return not all(known) if known else None


def verdict_in_words(sample: Sample[JSON]) -> list[str]:
    """What was found about a row, a sentence for each part of it."""
    gold = [_gold(label.name, label.gold, label.judge, label.agrees) for label in sample.gold]
    said = [*_games(objects_in(sample.detail, "games")), *gold, *_details(sample.detail, has_gold=bool(gold))]
    if not said and sample.label is not None:
        return [f"The judgment is {sample.label}."]
    return said


def texts_of_judge(sample: Sample[JSON]) -> list[NamedText]:
    """The texts in which the judge gave the verdict; where the policy is the judge, its answers."""
    found = [text for text in _texts(sample.detail) if text.text]
    if found or not sample.gold:
        return found
    names = [label.name.replace("_", " ") for label in sample.gold]
    titles = [f"the policy as judge{f', {name}' if name else ''}" for name in names]
    if len(titles) != len(sample.completions):  # several votes
        titles = [f"the policy as judge, {number + 1}" for number in range(len(sample.completions))]
    return [NamedText(title, each.answer) for title, each in zip(titles, sample.completions, strict=True)]


def _gold(name: str, gold: str | float, judge: str | float | None, agrees: bool | None) -> str:
    prefix = f"{name.replace('_', ' ')}: " if name else ""
    if judge is None:
        return f"{prefix}no verdict; gold is {_shown(gold)}."
    words = "and so does gold" if agrees else f"and gold says {_shown(gold)}"
    return f"{prefix}the judge says {_shown(judge)}, {words}."


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _games(games: Sequence[Mapping[str, JSON]]) -> Iterator[str]:
    """Both games of a pair in one sentence, such as "Lost both: as A the judge chose B; as B it chose A"."""
    played = [(_PLACES[order], game) for game in games if (order := str(game.get("order"))) in _PLACES]
    if not played:
        return
    results = {_result(place, game.get("label")) for place, game in played}
    each = [f"as {place} {_chose(game.get('label'))}" for place, game in played]
    count = "both" if len(played) == 2 else "all" if len(played) > 2 else "it"
    words = {"won": f"Won {count}", "lost": f"Lost {count}", "tied": f"Tied {count}"}
    single = results.pop() if len(results) == 1 else ""
    beginning = words.get(single, "No verdict" if single == "none" else "The orders disagree")
    if "none" in results:
        beginning = "Not both have a verdict"
    yield f"{beginning}: {'; '.join(each)}.".replace("it chose", "the judge chose", 1)


def _result(place: str, label: JSON) -> str:
    if not isinstance(label, str) or not set(label) >= {"A", "B"}:
        return "none"
    if "=" in label:
        return "tied"
    return "won" if label.startswith(place) == (">" in label) else "lost"


def _chose(label: JSON) -> str:
    if not isinstance(label, str):
        return "there is no verdict"
    if "=" in label:
        return f"it chose neither ({label})"
    first, second = label[:1], label[-1:]
    return f"it chose {first if '>' in label else second} ({label})"


def _details(detail: JSON, *, has_gold: bool) -> Iterator[str]:
    """Verdicts on aspects with their votes, scores by a rubric, ratings; a single one is not said again after gold."""
    for aspect in objects_in(detail, "aspects"):
        votes = objects_in(aspect, "votes")
        if has_gold and len(votes) == 1:
            continue
        yes = sum(vote.get("yes") is True for vote in votes)
        no = sum(vote.get("yes") is False for vote in votes)
        found = aspect.get("yes")
        words = "no majority" if found is None else "yes" if found is True else "no"
        count = f" ({yes} yes, {no} no, of {len(votes)} votes)" if len(votes) > 1 else ""
        yield f"{aspect.get('aspect')}: {words}{count}."
    vetoed_by = wire.lookup(detail, "vetoed_by")
    if isinstance(vetoed_by, str):
        yield f"Vetoed by {vetoed_by}: the score is 0."
    scores = [_score(each) for each in objects_in(detail, "judgments")]
    if scores and not (has_gold and len(scores) == 1):
        yield f"{'Score' if len(scores) == 1 else 'Scores'}: {', '.join(scores)}."
    ratings, right = wire.lookup(detail, "ratings"), wire.lookup(detail, "num_correct")
    if isinstance(ratings, list) and ratings and isinstance(right, int):
        shown = ["–" if each is None else str(each) for each in ratings]
        yield f"Ratings of the right answers: {', '.join(shown[:right])}; of the others: {', '.join(shown[right:])}."


def _score(judgment: Mapping[str, JSON]) -> str:
    found = judgment.get("score")
    found = judgment.get("expected") if found is None else found
    return f"{found:g}" if isinstance(found, int | float) else "none"


def _texts(detail: JSON) -> Iterator[NamedText]:
    for game in objects_in(detail, "games"):
        if str(game.get("order")) in _PLACES:
            place, label = _PLACES[str(game.get("order"))], game.get("label")
            yield NamedText(f"judge, the answer as {place}{f': {label}' if label else ''}", text_of(game.get("text")))
    for aspect in objects_in(detail, "aspects"):
        votes = objects_in(aspect, "votes")[:_MOST_VOTES]
        for number, vote in enumerate(votes, start=1):
            title = f"judge on {aspect.get('aspect')}" + (f", vote {number}" if len(votes) > 1 else "")
            yield NamedText(title, text_of(vote.get("text")))
    judgments = objects_in(detail, "judgments")
    for number, judgment in enumerate(judgments, start=1):
        yield NamedText(f"judge, {number}" if len(judgments) > 1 else "judge", text_of(judgment.get("text")))
    yield NamedText("explanation of the judge", text_of(wire.lookup(detail, "explanation")))


def run_contents(path: Path, options: ReportOptions) -> Contents:
    """Read a run.

    Raises:
        RunDirectoryError: there is no such run, or a file of it is damaged.
    """
    run = SavedRun.open(path)
    figures, failed, uids, ledger = RunFigures(), list[bool](), list[str](), LedgerRows()
    for sample in run.samples():
        figures.add(
            status=sample.status,
            score=sample.score,
            length=_length(sample),
            category=sample.category,
            headline=sample.headline,
            judge_cost=_judge_cost(sample),
            judge_seconds=_seconds((sample.run.judge_calls or {}).values()),
            policy_seconds=_seconds(sample.run.policy_calls),
            orders=sample.orders,
        )
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
    words = run.headline.words if run.headline is not None else "headline metric"
    if not run.is_scored:
        return Words(words)
    # Several responses of one prompt depend on each other: an interval over single ones would be too narrow.
    depend = wire.lookup(run.config, "group_by") is not None or any("/" in uid for uid in uids[:1])
    return Words(words, item="response", length="response", intervals=not depend)


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
