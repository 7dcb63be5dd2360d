"""The page of an evaluation, or of a scored data set, from the files of its run directory: its rows are the items.

Guarantees: the lines are read one by one, twice: for the numbers, which are kept, and for the items
of the page, which are not. The calls of the rows on the page are in memory, compressed.

What an opened row shows first is its verdict in words, and the judge's texts. They are read from
the detail of the judgment, by the fields that `docs/run_files.md` names; a detail of another form
has its label alone. Whatever a file holds, nothing here fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample
from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.judges.conversations.turns import headed_turns
from judgegym.judges.core.judgment import CallRun
from judgegym.llm import wire
from judgegym.llm.wire import CUT_OFF, JSON, Message, mapping_or_empty, text_or_empty
from judgegym.reports.juries import read_report
from judgegym.reports.labels.correction import Correction, read_correction
from judgegym.reports.labels.rendering import make_fact, make_table
from judgegym.reports.results.calls import CallsOfRows, LedgerRows, calls_about
from judgegym.reports.results.run import SavedRun, objects_in
from judgegym.reports.run_page import head
from judgegym.reports.run_page.charts import Words, charts
from judgegym.reports.run_page.figures import Mean, RunFigures, orders_disagree, total_cost
from judgegym.reports.run_page.items import (
    MOST_ITEMS,
    START,
    Item,
    View,
    call_views,
    choose,
    completion_view,
    image_views,
    named,
    rank,
    turn_view,
)

_PLACES = {"model_is_a": "A", "model_is_b": "B"}
_MOST_VOTES = 12


def run_contents(
    path: Path,
    *,
    order: str | None = None,
    most: int | None = MOST_ITEMS,
    correction: Correction | None = None,
) -> tuple[View, Callable[[], Iterator[Item]]]:
    """Read a run: the head of its page, and its items, which are read each time that they are gone through.

    Args:
        path: the run directory.
        order: the order of the items; by default that of the run, and of a scored data set the
            worst first.
        most: the most items of the page; `None` for all.
        correction: of the result; by default the one in `metrics.json`.

    Raises:
        RunDirectoryError: there is no such run, or a file of it is damaged.
    """
    run = SavedRun.open(path)
    correction = correction or read_correction(run)
    report = read_report(run)
    of_judges = [] if report is None else report.tables()
    facts, tables = (
        ([], []) if correction is None else ([make_fact(correction)], [make_table(correction)])
    )
    figures, failed, uids, ledger = (
        RunFigures(run.headline_ends),
        list[bool](),
        list[str](),
        LedgerRows(),
    )
    for sample in run.samples():
        figures.add(
            status=sample.status,
            score=sample.score,
            length=_length(render_completions(sample)),
            prompt=sample.prompt_key,
            category=sample.category,
            headline=sample.headline,
            judge_cost=_judge_cost(sample),
            orders=sample.orders,
        )
        figures.judge_seconds.extend(_seconds((sample.run.judge_calls or {}).values()))
        figures.policy_seconds.extend(_seconds(sample.run.policy_calls))
        failed.append(not sample.finished)
        uids.append(sample.uid)
        if run.is_scored:
            ledger.add(sample)
    order = order or ("worst" if run.is_scored else "dataset")
    ranks = [rank(each, figures.value(place)) for place, each in enumerate(failed)]
    places, notices = choose(ranks, most=most, order=order, items=run.items)
    so_far, said = figures.headline(), run.headline
    if (
        so_far is not None and said is not None
    ):  # an earlier version may have written another interval
        so_far = Mean(said.value, so_far.rows, so_far.interval or said.interval)
    judge = f", judged by {run.judge}" if run.judge and run.judge != run.policy else ""
    page_head = {
        "kind": "responses" if run.is_scored else "rows",
        "title": f"{run.environment or run.path.name}: {run.policy}{judge}",
        "headline": head.headline(run, so_far),
        "first_facts": [*head.first_facts(run, figures.statuses), *facts],
        "facts": head.facts(run),
        "notices": [*head.notices(run, figures), *notices],
        "charts": charts(figures, _words(run), overall=so_far),
        "total": len(figures),
        "tables": [*tables, *of_judges, *head.render_tables(run)],
    }
    shown = [uids[place] for place in places]
    rows = ledger.map_rows(places, shown) if run.is_scored else None
    return page_head, lambda: _items(run, shown, rows, is_sorted=order == "dataset")


def _words(run: SavedRun) -> Words:
    """What the charts call things."""
    words = run.headline.words if run.headline is not None else "headline metric"
    return Words(words, item="response", length="response") if run.is_scored else Words(words)


def _items(
    run: SavedRun, uids: Sequence[str], rows: Mapping[str, str] | None, *, is_sorted: bool
) -> Iterator[Item]:
    """The items.

    Args:
        run: the run.
        uids: which of its rows.
        rows: of a scored data set, under which row the ledger has the calls of each.
        is_sorted: they are in the order of the run.
    """
    calls = CallsOfRows.read(run.path, uids if rows is None else {*rows.values()})
    for sample in run.samples(frozenset(uids)) if is_sorted else map(run.read_sample, uids):
        if rows is None:
            summary, detail = row_item(sample, of_row := calls.select(sample.uid))
            yield summary, {**detail, "images": image_views(run.path, of_row)}
            continue
        found = [completion.answer for completion in sample.completions]
        summary, detail = row_item(
            sample, of_row := calls_about(calls.select(rows[sample.uid]), found)
        )
        detail["images"] = image_views(run.path, of_row)
        # What a response opens to is the judge's reasons, and the numbers of its score.
        detail["completions"] = [{**each, "title": "response"} for each in detail["completions"]]
        yield (
            summary,
            {
                **detail,
                "judgment": mapping_or_empty(wire.lookup(sample.detail, "components")) or None,
            },
        )


def row_item(sample: Sample[JSON], calls: Sequence[RecordedCall]) -> Item:
    """A row in the list, and what it opens to."""
    share, completions = sample.headline, render_completions(sample)
    summary = {
        "id": sample.uid,
        "category": sample.category,
        "status": sample.status,
        "label": sample.label,
        "failed": not sample.finished,
        "score": sample.score,
        "value": None if share is None or not share.weight else share.value,
        "orders_disagree": orders_disagree(sample.orders),
        "length": _length(completions),
        "seconds": sample.run.seconds,
        "judge_cost": _judge_cost(sample),
        "start": wire.shorten(sample.question, START),
        "gold_differs": gold_differs(sample),
    }
    return summary, {
        "id": sample.uid,
        "error": sample.error,
        "conversation": conversation(calls) or [named("question", sample.question)],
        "texts": [named(title, text) for title, text in sample.texts.items()],
        "completions": completions,
        "calls": call_views(calls),
        "judgment": {**mapping_or_empty(sample.detail), "members": sample.members}
        if sample.members
        else sample.detail,
        "critique": None if sample.judgment is None else sample.judgment.critique,
        "comparison": "",
        "verdict": verdict_in_words(sample),
        "said": render_judge_texts(sample),
    }


def render_completions(sample: Sample[JSON]) -> list[View]:
    """The completions of a row: of each conversation, of each turn of one, or of each candidate with its score.

    Of a conversation those turns are marked as judged that have a score of their own (`turn_1`, …),
    or else all.
    """
    is_one_conversation = any(each.follow_up for each in sample.completions)
    title = (
        "turn {}"
        if is_one_conversation
        else "conversation {}"
        if len(sample.completions) > 1
        else "answer"
    )
    scores, of_steps = turn_scores(sample.detail, "turn"), turn_scores(sample.detail, "step")
    own = [
        completion_view(
            title.format(number),
            each.answer,
            each.thinking,
            _notes(each),
            asked=each.follow_up,
            turn_score=scores.get(number),
            is_judged=is_one_conversation and (number in scores or not scores),
            turns=_turns(each, of_steps),
        )
        for number, each in enumerate(sample.completions, start=1)
    ]
    return own or _candidates(sample.detail)


def _turns(completion: Completion, scores: Mapping[int, float]) -> list[View]:
    """The turns of a trace, those of the policy marked as judged; none of a text, however it looks."""
    turns = headed_turns(completion.answer) if completion.turns else []
    if len(turns) != completion.turns:
        return []
    return [
        turn_view(
            heading,
            text,
            scores.get(place),
            is_judged=place in scores if scores else heading == "assistant",
        )
        for place, (heading, text) in enumerate(turns)
    ]


def turn_scores(detail: JSON, name: str) -> dict[int, float]:
    """The scores of the turns of a conversation by their numbers, from parts such as `turn_1` or `step_3`."""
    parts = {
        **mapping_or_empty(wire.lookup(detail, "parts")),
        **mapping_or_empty(wire.lookup(detail, "components")),
    }
    numbers = {key: re.fullmatch(rf"{name}_(\d+)", key) for key in parts}
    found = {key: int(match[1]) for key, match in numbers.items() if match is not None}
    return {
        number: score
        for key, number in found.items()
        if isinstance(score := parts[key], float | int)
    }


def _candidates(detail: JSON) -> list[View]:
    """The candidates of a row, in their order; none where one policy answers.

    They are read from `answers` with `candidate`, `answer` and `error`, and from `cells` with
    `candidate` and `score` (peer evaluation) or `games` with `first`, `second`, `points` and
    `weight` (candidates that play). The score of one is the mean of the scores that judges gave it,
    or its share of the points of its games.
    """
    scores: list[tuple[JSON, JSON, JSON]]
    scores = [
        (cell.get("candidate"), cell.get("score"), 1.0) for cell in objects_in(detail, "cells")
    ]
    for game in objects_in(detail, "games"):
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
    found = []
    for each in objects_in(detail, "answers"):
        name, answer, error = (
            each.get("candidate"),
            text_or_empty(each.get("answer")),
            text_or_empty(each.get("error")),
        )
        if isinstance(name, str):
            total, weights = sums.get(name, (0.0, 0.0))
            score = total / weights if weights else None
            title = name if score is None else f"{name}, scored {score:.4g}"
            is_there = isinstance(each.get("answer"), str)
            notes = [*filter(None, [error])] if is_there else [f"no answer: {error or None}"]
            found.append(completion_view(title, answer, notes=notes, score=score))
    return found


def conversation(calls: Sequence[RecordedCall]) -> list[View]:
    """What the policy was asked, by the ledger; nothing if it was not asked, or if no texts were kept.

    Of several conversations each message is titled with its number. One that was asked several
    times, for several votes or of several candidates, is there once. The later turns of a
    conversation stand with their completions.
    """
    asked: dict[str, Sequence[Message]] = {}
    for call in calls:
        if call.is_policy_call and call.messages and "/turn_" not in call.component:
            asked.setdefault(call.component, call.messages)
    first: Sequence[Message] = next(iter(asked.values()), ())
    if all(messages == first for messages in asked.values()):
        return [named(each["role"], each["content"]) for each in first]
    in_order = sorted(
        asked, key=lambda component: (len(component), component)
    )  # conversation_9, conversation_10
    return [
        named(f"conversation {number}: {each['role']}", each["content"])
        for number, component in enumerate(in_order, start=1)
        for each in asked[component]
    ]


def _notes(completion: Completion) -> list[str]:
    notes = {
        f"thinking: {(completion.thinking_fault or '').replace('_', ' ')}": completion.thinking_fault
        is not None,
        "cut off": completion.finish_reason == CUT_OFF,
        "refused": completion.refused,
        "shorter than asked for": completion.short,
        "empty": not completion.answer.strip(),
    }
    return [note for note, holds in notes.items() if holds]


def _length(completions: Iterable[View]) -> int:
    return sum(len(completion["text"]) for completion in completions)


def _judge_cost(sample: Sample[JSON]) -> float | None:
    calls = sample.run.judge_calls  # none: no judge was asked
    return total_cost(run.usage.cost for run in calls.values()) if calls else None


def _seconds(runs: Iterable[CallRun]) -> Iterator[float]:
    return (run.latency_s for run in runs if run.latency_s and not run.cached)


def gold_differs(sample: Sample[JSON]) -> bool | None:
    """Whether the judge said anything else than a gold label of the row; `None` without a gold label and a verdict."""
    known = [label.agrees for label in sample.gold if label.agrees is not None]
    return not all(known) if known else None


def verdict_in_words(sample: Sample[JSON]) -> list[str]:
    """What was found about a row, a sentence for each part of it."""
    said = [*_games(objects_in(sample.detail, "games"))]
    for each in sample.gold:
        prefix = f"{each.name.replace('_', ' ')}: " if each.name else ""
        gold, judge = _shown(each.gold), _shown(each.judge)
        agrees = "and so does gold" if each.agrees else f"and gold says {gold}"
        found = (
            f"no verdict; gold is {gold}"
            if each.judge is None
            else f"the judge says {judge}, {agrees}"
        )
        said.append(f"{prefix}{found}.")
    said += _details(sample.detail, has_gold=bool(sample.gold))
    return [f"The judgment is {sample.label}."] if not said and sample.label is not None else said


def render_judge_texts(sample: Sample[JSON]) -> list[View]:
    """The texts in which the judge gave the verdict; where the policy is the judge, its answers."""
    found = [
        named(title, text_or_empty(text))
        for title, text in _texts(sample.detail)
        if text_or_empty(text)
    ]
    if found or not sample.gold:
        return found
    names = [f", {label.name.replace('_', ' ')}" if label.name else "" for label in sample.gold]
    if len(names) != len(sample.completions):  # several votes
        names = [f", {number + 1}" for number in range(len(sample.completions))]
    return [
        named(f"the policy as judge{name}", each.answer)
        for name, each in zip(names, sample.completions, strict=True)
    ]


def _shown(value: str | float | None) -> str:
    return value if isinstance(value, str) else f"{value or 0.0:g}"


def _games(games: Sequence[Mapping[str, JSON]]) -> Iterator[str]:
    """Both games of a pair in one sentence, such as "Lost both: as A the judge chose B; as B it chose A"."""
    played = [
        _game(_PLACES[order], game.get("label"))
        for game in games
        if (order := str(game.get("order"))) in _PLACES
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
    yield f"{beginning}: {'; '.join(words for _, words in played)}.".replace(
        "it chose", "the judge chose", 1
    )


def _game(place: str, label: JSON) -> tuple[str, str]:
    """How a game ended for the answer in this place, and what the judge chose; without a verdict it has no end."""
    if not isinstance(label, str):
        return "", f"as {place} there is no verdict"
    is_tied, best = "=" in label, label[:1] if ">" in label else label[-1:]
    result = "Tied" if is_tied else "Won" if best == place else "Lost"
    words = f"as {place} it chose {'neither' if is_tied else best} ({label})"
    return result if set(label) >= {"A", "B"} else "", words


def _details(detail: JSON, *, has_gold: bool) -> Iterator[str]:
    """Verdicts on aspects with their votes, scores by a rubric, ratings; a single one is not said again after gold."""
    for aspect in objects_in(detail, "aspects"):
        votes = [vote.get("yes") for vote in objects_in(aspect, "votes")]
        if not (has_gold and len(votes) == 1):
            found = aspect.get("yes")
            words = "no majority" if found is None else "yes" if found is True else "no"
            count = f" ({votes.count(True)} yes, {votes.count(False)} no, of {len(votes)} votes)"
            yield f"{aspect.get('aspect')}: {words}{count if len(votes) > 1 else ''}."
    vetoed_by = wire.lookup(detail, "vetoed_by")
    if isinstance(vetoed_by, str):
        yield f"Vetoed by {vetoed_by}: the score is 0."
    scores = []
    for each in objects_in(detail, "judgments"):
        score = each.get("expected") if each.get("score") is None else each.get("score")
        scores.append(f"{score:g}" if isinstance(score, int | float) else "none")
    if scores and not (has_gold and len(scores) == 1):
        yield f"{'Score' if len(scores) == 1 else 'Scores'}: {', '.join(scores)}."
    ratings, right = wire.lookup(detail, "ratings"), wire.lookup(detail, "num_correct")
    if isinstance(ratings, list) and ratings and isinstance(right, int):
        shown = ["–" if each is None else str(each) for each in ratings]
        yield (
            f"Ratings of the right answers: {', '.join(shown[:right])}; of the others: "
            f"{', '.join(shown[right:])}."
        )


def _texts(detail: JSON) -> Iterator[tuple[str, JSON]]:
    for game in objects_in(detail, "games"):
        if (place := _PLACES.get(str(game.get("order")))) is not None:
            label = game.get("label")
            yield f"judge, the answer as {place}{f': {label}' if label else ''}", game.get("text")
    for aspect in objects_in(detail, "aspects"):
        votes = objects_in(aspect, "votes")[:_MOST_VOTES]
        for number, vote in enumerate(votes, start=1):
            yield (
                f"judge on {aspect.get('aspect')}{f', vote {number}' if len(votes) > 1 else ''}",
                vote.get("text"),
            )
    judgments = objects_in(detail, "judgments")
    for number, judgment in enumerate(judgments, start=1):
        yield f"judge, {number}" if len(judgments) > 1 else "judge", judgment.get("text")
    yield "explanation of the judge", wire.lookup(detail, "explanation")
