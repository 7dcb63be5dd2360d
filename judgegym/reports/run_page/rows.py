"""Build the page of an evaluation or a scored data set from its run directory; rows are the items.

Guarantees: lines are read one by one, and twice: for the numbers, which are kept, and for the
items, which are not. The calls of the rows on the page are in memory, compressed.

An opened row first shows its verdict in words, and the judge's texts. They are read from the detail
of the judgment, by the fields in `docs/run_files.md`; for a detail of another form only the label
is shown. No content of a file makes this code fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample
from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.judges.conversations.turns import split_turns
from judgegym.judges.core.judgment import CallRun
from judgegym.llm import wire
from judgegym.llm.wire import CUT_OFF, JSON, Message, mapping_or_empty, text_or_empty
from judgegym.reports.juries import read_report
from judgegym.reports.labels.correction import Correction, read_correction
from judgegym.reports.labels.rendering import make_fact, make_table
from judgegym.reports.results.calls import CallsOfRows, LedgerRows, filter_calls
from judgegym.reports.results.run import SavedRun, list_objects
from judgegym.reports.run_page import head
from judgegym.reports.run_page.charts import ChartLabels, draw_charts
from judgegym.reports.run_page.figures import Mean, RunFigures, orders_disagree, total_cost
from judgegym.reports.run_page.items import (
    MOST_ITEMS,
    START,
    Item,
    View,
    call_views,
    choose_items,
    completion_view,
    image_views,
    rank,
    titled_text,
    turn_view,
)

_SHOWN_AS = {"model_is_a": "A", "model_is_b": "B"}
_MOST_VOTES = 12


def read_run_page(
    path: Path,
    *,
    order: str | None = None,
    most: int | None = MOST_ITEMS,
    correction: Correction | None = None,
) -> tuple[View, Callable[[], Iterator[Item]]]:
    """Read a run: the head of its page, and a function that reads its items.

    Args:
        path: the run directory.
        order: the order of the items; by default that of the run, for a scored data set the
            worst first.
        most: the most items of the page; `None` for all.
        correction: the correction of the result; by default the one in `metrics.json`.

    Raises:
        RunDirectoryError: there is no such run, or a file of it is damaged.
    """
    run = SavedRun.open(path)
    correction = correction or read_correction(run)
    report = read_report(run)
    judge_tables = [] if report is None else report.tables()
    facts, tables = (
        ([], []) if correction is None else ([make_fact(correction)], [make_table(correction)])
    )
    figures = RunFigures(run.headline_ends)
    failed = list[bool]()
    uids = list[str]()
    ledger = LedgerRows()
    for sample in run.samples():
        figures.add(
            status=sample.status,
            score=sample.score,
            length=_total_length(render_completions(sample)),
            prompt=sample.prompt_key,
            category=sample.category,
            headline=sample.headline,
            judge_cost=_sum_judge_cost(sample),
            orders=sample.orders,
        )
        figures.judge_seconds.extend(_call_seconds((sample.run.judge_calls or {}).values()))
        figures.policy_seconds.extend(_call_seconds(sample.run.policy_calls))
        failed.append(not sample.finished)
        uids.append(sample.uid)
        if run.is_scored:
            ledger.add(sample)
    order = order or ("worst" if run.is_scored else "dataset")
    ranks = [rank(has_failed, figures.value(index)) for index, has_failed in enumerate(failed)]
    indices, notices = choose_items(ranks, most=most, order=order, items=run.items)
    so_far, headline = figures.headline(), run.headline
    if (
        so_far is not None and headline is not None
    ):  # `metrics.json` of an earlier version may have another interval
        so_far = Mean(headline.value, so_far.rows, so_far.interval or headline.interval)
    judge = f", judged by {run.judge}" if run.judge and run.judge != run.policy else ""
    page_head = {
        "kind": "responses" if run.is_scored else "rows",
        "title": f"{run.environment or run.path.name}: {run.policy}{judge}",
        "headline": head.make_headline(run, so_far),
        "first_facts": [*head.list_first_facts(run, figures.statuses), *facts],
        "facts": head.list_facts(run),
        "notices": [*head.list_notices(run, figures), *notices],
        "charts": draw_charts(figures, _chart_labels(run), overall=so_far),
        "total": len(figures),
        "tables": [*tables, *judge_tables, *head.render_tables(run)],
    }
    page_uids = [uids[index] for index in indices]
    rows = ledger.map_rows(indices, page_uids) if run.is_scored else None
    return page_head, lambda: _iter_items(run, page_uids, rows, is_sorted=order == "dataset")


def _chart_labels(run: SavedRun) -> ChartLabels:
    """Return the words of the charts."""
    words = run.headline.words if run.headline is not None else "headline metric"
    if run.is_scored:
        return ChartLabels(words, item="response", length="response")
    return ChartLabels(words)


def _iter_items(
    run: SavedRun, uids: Sequence[str], rows: Mapping[str, str] | None, *, is_sorted: bool
) -> Iterator[Item]:
    """Yield the items.

    Args:
        run: the run.
        uids: the rows to show.
        rows: for a scored data set, the ledger's row of each uid.
        is_sorted: the uids are in the order of the run.
    """
    calls = CallsOfRows.read(run.path, uids if rows is None else {*rows.values()})
    for sample in run.samples(frozenset(uids)) if is_sorted else map(run.read_sample, uids):
        if rows is None:
            summary, detail = make_row_item(sample, row_calls := calls.select(sample.uid))
            yield summary, {**detail, "images": image_views(run.path, row_calls)}
            continue
        texts = [completion.answer for completion in sample.completions]
        summary, detail = make_row_item(
            sample, row_calls := filter_calls(calls.select(rows[sample.uid]), texts)
        )
        detail["images"] = image_views(run.path, row_calls)
        # A response shows the judge's reasons and the numbers of its score.
        detail["completions"] = [{**view, "title": "response"} for view in detail["completions"]]
        yield (
            summary,
            {
                **detail,
                "judgment": mapping_or_empty(wire.lookup(sample.detail, "components")) or None,
            },
        )


def make_row_item(sample: Sample[JSON], calls: Sequence[RecordedCall]) -> Item:
    """Return a row's summary and detail."""
    share = sample.headline
    completions = render_completions(sample)
    summary = {
        "id": sample.uid,
        "category": sample.category,
        "status": sample.status,
        "label": sample.label,
        "failed": not sample.finished,
        "score": sample.score,
        "value": None if share is None or not share.weight else share.value,
        "orders_disagree": orders_disagree(sample.orders),
        "length": _total_length(completions),
        "seconds": sample.run.seconds,
        "judge_cost": _sum_judge_cost(sample),
        "start": wire.shorten(sample.question, START),
        "gold_differs": differs_from_gold(sample),
    }
    judgment = sample.detail
    if sample.members:
        judgment = {**mapping_or_empty(sample.detail), "members": sample.members}
    return summary, {
        "id": sample.uid,
        "error": sample.error,
        "conversation": conversation_views(calls) or [titled_text("question", sample.question)],
        "texts": [titled_text(title, text) for title, text in sample.texts.items()],
        "completions": completions,
        "calls": call_views(calls),
        "judgment": judgment,
        "critique": None if sample.judgment is None else sample.judgment.critique,
        "comparison": "",
        "verdict": describe_verdict(sample),
        "said": render_judge_texts(sample),
    }


def render_completions(sample: Sample[JSON]) -> list[View]:
    """Return the views of a row's completions: conversations, turns of one, or candidates.

    In a conversation, turns with a score of their own (`turn_1`, …) are marked as judged; without
    such scores, all turns.
    """
    is_one_conversation = any(completion.follow_up for completion in sample.completions)
    if is_one_conversation:
        title = "turn {}"
    elif len(sample.completions) > 1:
        title = "conversation {}"
    else:
        title = "answer"
    scores = turn_scores(sample.detail, "turn")
    step_scores = turn_scores(sample.detail, "step")
    views = [
        completion_view(
            title.format(number),
            completion.answer,
            completion.thinking,
            _list_notes(completion),
            asked=completion.follow_up,
            turn_score=scores.get(number),
            is_judged=is_one_conversation and (number in scores or not scores),
            turns=_turn_views(completion, step_scores),
        )
        for number, completion in enumerate(sample.completions, start=1)
    ]
    return views or _candidate_views(sample.detail)


def _turn_views(completion: Completion, scores: Mapping[int, float]) -> list[View]:
    """Return the turns of a trace, the policy's marked as judged; a text has none."""
    turns = split_turns(completion.answer) if completion.turns else []
    if len(turns) != completion.turns:
        return []
    return [
        turn_view(
            heading,
            text,
            scores.get(number),
            is_judged=number in scores if scores else heading == "assistant",
        )
        for number, (heading, text) in enumerate(turns)
    ]


def turn_scores(detail: JSON, name: str) -> dict[int, float]:
    """Return the scores of turns by number, from parts such as `turn_1` or `step_3`."""
    parts = {
        **mapping_or_empty(wire.lookup(detail, "parts")),
        **mapping_or_empty(wire.lookup(detail, "components")),
    }
    numbers = {key: re.fullmatch(rf"{name}_(\d+)", key) for key in parts}
    turn_numbers = {key: int(match[1]) for key, match in numbers.items() if match is not None}
    return {
        number: score
        for key, number in turn_numbers.items()
        if isinstance(score := parts[key], float | int)
    }


def _candidate_views(detail: JSON) -> list[View]:
    """Return the views of a row's candidates, in their order; empty if one policy answers.

    They are read from `answers` with `candidate`, `answer` and `error`, and from `cells` with
    `candidate` and `score` (peer evaluation) or `games` with `first`, `second`, `points` and
    `weight` (candidates that play). A candidate's score is the mean of its judges' scores, or its
    share of the points of its games.
    """
    scores: list[tuple[JSON, JSON, JSON]]
    scores = [
        (cell.get("candidate"), cell.get("score"), 1.0) for cell in list_objects(detail, "cells")
    ]
    for game in list_objects(detail, "games"):
        points, weight = game.get("points"), game.get("weight")
        scores.append((game.get("first"), points, weight))
        scores.append(
            (game.get("second"), 1.0 - points if isinstance(points, int | float) else None, weight)
        )
    sums: dict[str, tuple[float, float]] = {}
    for name, score, weight in scores:
        if (
            isinstance(name, str)
            and isinstance(score, int | float)
            and isinstance(weight, int | float)
        ):
            total, weights = sums.get(name, (0.0, 0.0))
            sums[name] = total + score * weight, weights + weight
    views = []
    for entry in list_objects(detail, "answers"):
        name = entry.get("candidate")
        answer = text_or_empty(entry.get("answer"))
        error = text_or_empty(entry.get("error"))
        if isinstance(name, str):
            total, weights = sums.get(name, (0.0, 0.0))
            score = total / weights if weights else None
            title = name if score is None else f"{name}, scored {score:.4g}"
            is_there = isinstance(entry.get("answer"), str)
            notes = [*filter(None, [error])] if is_there else [f"no answer: {error or None}"]
            views.append(completion_view(title, answer, notes=notes, score=score))
    return views


def conversation_views(calls: Sequence[RecordedCall]) -> list[View]:
    """Return the policy's prompt, by the ledger; empty without calls or without kept texts.

    With several conversations each message has the number in its title. A conversation that was
    asked several times, for votes or candidates, is shown once. Later turns are shown with their
    completions.
    """
    messages_by_component: dict[str, Sequence[Message]] = {}
    for call in calls:
        if call.is_policy_call and call.messages and "/turn_" not in call.component:
            messages_by_component.setdefault(call.component, call.messages)
    first: Sequence[Message] = next(iter(messages_by_component.values()), ())
    if all(messages == first for messages in messages_by_component.values()):
        return [titled_text(message["role"], message["content"]) for message in first]
    # conversation_9 comes before conversation_10
    in_order = sorted(messages_by_component, key=lambda component: (len(component), component))
    views = []
    for number, component in enumerate(in_order, start=1):
        for message in messages_by_component[component]:
            title = f"conversation {number}: {message['role']}"
            views.append(titled_text(title, message["content"]))
    return views


def _list_notes(completion: Completion) -> list[str]:
    fault = completion.thinking_fault
    fault_words = (fault or "").replace("_", " ")
    notes = {
        f"thinking: {fault_words}": fault is not None,
        "cut off": completion.finish_reason == CUT_OFF,
        "refused": completion.refused,
        "shorter than asked for": completion.short,
        "empty": not completion.answer.strip(),
    }
    return [note for note, holds in notes.items() if holds]


def _total_length(completions: Iterable[View]) -> int:
    return sum(len(completion["text"]) for completion in completions)


def _sum_judge_cost(sample: Sample[JSON]) -> float | None:
    calls = sample.run.judge_calls  # None if no judge was called
    if calls:
        return total_cost(run.usage.cost for run in calls.values())
    return None


def _call_seconds(runs: Iterable[CallRun]) -> Iterator[float]:
    called = (run for run in runs if not run.cached)
    return (run.latency_s for run in called if run.latency_s)


def differs_from_gold(sample: Sample[JSON]) -> bool | None:
    """Return whether the judge differs from a gold label; `None` without gold label and verdict."""
    agreements = [label.agrees for label in sample.gold if label.agrees is not None]
    if agreements:
        return not all(agreements)
    return None


def describe_verdict(sample: Sample[JSON]) -> list[str]:
    """Describe the judgment of a row, a sentence for each part."""
    sentences = [*_describe_games(list_objects(sample.detail, "games"))]
    for label in sample.gold:
        name = label.name.replace("_", " ")
        prefix = f"{name}: " if name else ""
        gold = _format_label(label.gold)
        judge = _format_label(label.judge)
        agrees = "and so does gold" if label.agrees else f"and gold says {gold}"
        outcome = f"no verdict; gold is {gold}"
        if label.judge is not None:
            outcome = f"the judge says {judge}, {agrees}"
        sentences.append(f"{prefix}{outcome}.")
    sentences += _describe_details(sample.detail, has_gold=bool(sample.gold))
    if not sentences and sample.label is not None:
        return [f"The judgment is {sample.label}."]
    return sentences


def render_judge_texts(sample: Sample[JSON]) -> list[View]:
    """Return the judge's texts with verdicts; if the policy is the judge, its answers."""
    texts = [
        titled_text(title, text_or_empty(text))
        for title, text in _judge_texts(sample.detail)
        if text_or_empty(text)
    ]
    if texts or not sample.gold:
        return texts
    words = [label.name.replace("_", " ") for label in sample.gold]
    names = [name and f", {name}" for name in words]
    if len(names) != len(sample.completions):  # several votes
        names = [f", {number + 1}" for number in range(len(sample.completions))]
    return [
        titled_text(f"the policy as judge{name}", completion.answer)
        for name, completion in zip(names, sample.completions, strict=True)
    ]


def _format_label(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    return f"{value or 0.0:g}"


def _describe_games(games: Sequence[Mapping[str, JSON]]) -> Iterator[str]:
    """Describe both games of a pair: "Lost both: as A the judge chose B; as B it chose A."."""
    played = [
        _describe_game(_SHOWN_AS[order], game.get("label"))
        for game in games
        if (order := str(game.get("order"))) in _SHOWN_AS
    ]
    if not played:
        return
    results = {result for result, _ in played}
    count = {1: "it", 2: "both"}.get(len(played), "all")
    beginning = "The orders disagree"
    if len(results) == 1:
        beginning = "No verdict" if results == {""} else f"{results.pop()} {count}"
    elif "" in results:
        beginning = "Not both have a verdict"
    choices = "; ".join(words for _, words in played)
    yield f"{beginning}: {choices}.".replace("it chose", "the judge chose", 1)


def _describe_game(place: str, label: JSON) -> tuple[str, str]:
    """Return how a game ended for the answer shown as A or B, and a description of the verdict."""
    if not isinstance(label, str):
        return "", f"as {place} there is no verdict"
    is_tied = "=" in label
    best = label[:1] if ">" in label else label[-1:]
    if is_tied:
        result = "Tied"
    elif best == place:
        result = "Won"
    else:
        result = "Lost"
    choice = "neither" if is_tied else best
    words = f"as {place} it chose {choice} ({label})"
    return result if set(label) >= {"A", "B"} else "", words


def _describe_details(detail: JSON, *, has_gold: bool) -> Iterator[str]:
    """Describe verdicts on aspects, scores and ratings; a single one is not repeated after gold."""
    for aspect in list_objects(detail, "aspects"):
        votes = [vote.get("yes") for vote in list_objects(aspect, "votes")]
        if not (has_gold and len(votes) == 1):
            is_yes = aspect.get("yes")
            if is_yes is None:
                words = "no majority"
            elif is_yes is True:
                words = "yes"
            else:
                words = "no"
            count = ""
            if len(votes) > 1:
                yes, no = votes.count(True), votes.count(False)
                count = f" ({yes} yes, {no} no, of {len(votes)} votes)"
            name = aspect.get("aspect")
            yield f"{name}: {words}{count}."
    vetoed_by = wire.lookup(detail, "vetoed_by")
    if isinstance(vetoed_by, str):
        yield f"Vetoed by {vetoed_by}: the score is 0."
    scores = []
    for judgment in list_objects(detail, "judgments"):
        score = judgment.get("expected") if judgment.get("score") is None else judgment.get("score")
        scores.append(f"{score:g}" if isinstance(score, int | float) else "none")
    if scores and not (has_gold and len(scores) == 1):
        title = "Score" if len(scores) == 1 else "Scores"
        yield f"{title}: {', '.join(scores)}."
    ratings = wire.lookup(detail, "ratings")
    right = wire.lookup(detail, "num_correct")
    if isinstance(ratings, list) and ratings and isinstance(right, int):
        shown = ["–" if rating is None else str(rating) for rating in ratings]
        right_ratings = ", ".join(shown[:right])
        other_ratings = ", ".join(shown[right:])
        yield f"Ratings of the right answers: {right_ratings}; of the others: {other_ratings}."


def _judge_texts(detail: JSON) -> Iterator[tuple[str, JSON]]:
    for game in list_objects(detail, "games"):
        if (place := _SHOWN_AS.get(str(game.get("order")))) is not None:
            label = game.get("label")
            choice = f": {label}" if label else ""
            yield f"judge, the answer as {place}{choice}", game.get("text")
    for aspect in list_objects(detail, "aspects"):
        votes = list_objects(aspect, "votes")[:_MOST_VOTES]
        for number, vote in enumerate(votes, start=1):
            name = aspect.get("aspect")
            title = f"judge on {name}, vote {number}" if len(votes) > 1 else f"judge on {name}"
            yield title, vote.get("text")
    judgments = list_objects(detail, "judgments")
    for number, judgment in enumerate(judgments, start=1):
        title = f"judge, {number}" if len(judgments) > 1 else "judge"
        yield title, judgment.get("text")
    yield "explanation of the judge", wire.lookup(detail, "explanation")
