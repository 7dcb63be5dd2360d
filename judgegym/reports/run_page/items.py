"""What the page of a run is made of. `page` writes it as JSON, the page's script reads it: the names are the contract.

An item is a row of an evaluation, a group of `process`, or a response of a scored data set. The list needs only
`ItemSummary`; `ItemDetail` is what an item opens to. All texts are those of the run, unescaped: the script puts them on
the page as text.

Which items a page holds, and in which order.

A browser opens a page of a few thousand items quickly, and a page of 100,000 not at all. So a page has a limit: items
that failed come first, then the worst, then others at even distances over the whole run; the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.judges.core.judgment import Critique
from judgegym.llm.wire import JSON

PageKind = Literal["rows", "groups", "responses"]


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text with its title: a message with its role, or a text of the row (`baseline`, `reference`, `rubric`)."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CallView:
    """A call to policy or judge, as it was asked and answered.

    Attributes:
        name: the call's component, such as `game_1`.
        vote: which of several independent answers to one question.
        model: the model that was asked.
        messages: what it was asked; `None` if the run did not keep texts.
        answer: its text, as received.
        reasoning: reasoning that the endpoint returned apart.
        verdict_at: from where to where in `answer` the verdict stands (code points); `None` if it has none, or if it is
            not known where.
        has_verdict: whether a verdict was read in it.
        finish_reason: as received.
        prompt_tokens: tokens of the prompt; `None` if they were not counted.
        cached_prompt_tokens: those that the endpoint had cached.
        completion_tokens: tokens of the answer.
        cost: US dollars; `None` if it is not known.
        seconds: from the first request to the answer.
        attempts: requests sent; 0 for an answer of the judgment cache.
    """

    name: str
    vote: int
    model: str
    messages: Sequence[NamedText] | None
    answer: str
    reasoning: str | None
    verdict_at: tuple[int, int] | None
    has_verdict: bool
    finish_reason: str | None
    prompt_tokens: int | None
    cached_prompt_tokens: int | None
    completion_tokens: int | None
    cost: float | None
    seconds: float
    attempts: int


def call_views(calls: Iterable[RecordedCall]) -> list[CallView]:
    """The calls, in the order of their answers; of several completions each is a view, with the usage at the first."""
    return [view for call in calls for view in _views(call)]


def _views(call: RecordedCall) -> Iterator[CallView]:
    answer, choices = call.answer, call.answer.choices
    name = call.component.rpartition("/")[2] if call.group is not None else call.component
    for number, choice in enumerate(choices):
        is_first = number == 0
        usage = answer.usage if is_first and not answer.cached else None
        yield CallView(
            name=name if len(choices) == 1 else f"{name}, {number + 1} of {len(choices)}",
            vote=call.vote,
            model=call.model,
            messages=_messages(call) if is_first else (),
            answer=choice.text or choice.refusal or "",
            reasoning=choice.reasoning,
            verdict_at=call.verdict_at if is_first else None,
            has_verdict=call.has_verdict,
            finish_reason=choice.finish_reason,
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            cached_prompt_tokens=None if usage is None else usage.cached_prompt_tokens,
            completion_tokens=None if usage is None else usage.completion_tokens,
            cost=None if usage is None else usage.cost,
            seconds=answer.latency_s,
            attempts=answer.attempts,
        )


def _messages(call: RecordedCall) -> tuple[NamedText, ...] | None:
    if call.messages is None:
        return None
    return tuple(NamedText(message["role"], message["content"]) for message in call.messages)


@dataclass(frozen=True, slots=True)
class CompletionView:
    """A completion of the policy with what belongs to it alone.

    Attributes:
        title: `answer`, or which of several: `conversation 2`, `rollout 3`, a candidate's name.
        text: the text that was judged.
        thinking: the thinking that was split off; empty without any.
        notes: what is particular, in words: `thinking: not closed`, `cut off`, `refused`, `shorter than asked for`.
        score: its score or reward, of a rollout; `None` in an evaluation, where the row has the score.
        status: how its judgment ended, of a rollout.
        label: the judgment in the judge's terms, of a rollout.
        explanation: the judge's reasons, of a rollout; of rows and responses `ItemDetail.said` has the judge's texts.
        seen: where it stood in each call that compared it with others, and what it was given, in words.
        calls: the calls that were made for it alone, of a rollout.
    """

    title: str
    text: str
    thinking: str
    notes: Sequence[str]
    score: float | None = None
    status: str | None = None
    label: str | None = None
    explanation: str = ""
    seen: str = ""
    calls: Sequence[CallView] = ()


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """What the list shows, searches, filters and sorts by.

    Attributes:
        id: the row's uid, or the group's number as text; unique on the page, and the end of its link.
        category: the row's category.
        status: `ok`, `invalid_completion`, or the failure's kind.
        label: the outcome in the judge's terms, such as `win`.
        failed: whether there is no score because a call failed or no verdict could be read.
        score: the row's score; of a group the mean.
        value: what it contributes to the headline metric, as a number per unit of weight; `None` if nothing.
        orders_disagree: whether the orders of the answers led to different verdicts; `None` with one order.
        length: characters of the completion; of a group the mean.
        seconds: how long the row took.
        judge_cost: US dollars of its judge calls; `None` if not known.
        start: the beginning of the question, in one line.
        gold_differs: whether the judge said anything else than a gold label; `None` without a gold label or a verdict.
    """

    id: str
    category: str | None
    status: str
    label: str | None
    failed: bool
    score: float | None
    value: float | None
    orders_disagree: bool | None
    length: int
    seconds: float
    judge_cost: float | None
    start: str
    gold_differs: bool | None = None


@dataclass(frozen=True, slots=True)
class ItemDetail:
    """What an item opens to.

    Attributes:
        id: as in the summary.
        error: why it failed.
        conversation: what the policy was asked, where that is known; else the question.
        texts: the texts of the row: baseline, reference, rubric, candidates.
        completions: the policy's completions.
        calls: the calls of the row, in the order of their answers, but for those of single completions.
        judgment: the judgment's detail as it was saved.
        critique: the history of self-critique as it was saved.
        comparison: how the rollouts of a group were compared with each other, in words; empty if they were not.
        verdict: what was found, in words, a sentence for each part of it.
        said: the judge's texts with the verdict.
    """

    id: str
    error: str | None
    conversation: Sequence[NamedText]
    texts: Sequence[NamedText]
    completions: Sequence[CompletionView]
    calls: Sequence[CallView]
    judgment: JSON = None
    critique: Critique | None = None
    comparison: str = ""
    verdict: Sequence[str] = ()
    said: Sequence[NamedText] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the page's head: `judge`, `data`, `date`, `cost`, `left out`.

    Attributes:
        name: what it is about.
        value: what is to be said of it.
        is_first: a reader needs it before the charts; the others are folded below them.
    """

    name: str
    value: str
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as an image: SVG for a light and for a dark page, and what it shows in words."""

    title: str
    light: bytes
    dark: bytes
    description: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of the environment, such as ratings: names in the first column, numbers in the others."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class PageHead:
    """What stands above the items.

    Attributes:
        kind: what the items are.
        title: the environment, and what was evaluated.
        headline: the result with its interval, in words; empty without one.
        facts: lines about the run.
        notices: what a reader of the numbers must know.
        charts: the charts.
        total: the number of items of the run; the page may hold fewer.
        tables: further tables of the environment.
    """

    kind: PageKind
    title: str
    headline: str
    facts: Sequence[Fact]
    notices: Sequence[str]
    charts: Sequence[Chart]
    total: int
    tables: Sequence[PageTable] = ()


@dataclass(frozen=True, slots=True)
class Contents:
    """A page's head, and its items, which are read each time that they are gone through."""

    head: PageHead
    items: Callable[[], Iterator[tuple[ItemSummary, ItemDetail]]]


Order = Literal["dataset", "worst"]
ORDERS: tuple[Order, ...] = ("dataset", "worst")

MOST_ITEMS = 2000
"""What a page holds unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How a page is made.

    Attributes:
        order: the order of its items; by default that of the run, and of a scored data set the worst first.
        samples: the most items that it holds; `None` for all.
    """

    order: Order | None = None
    samples: int | None = MOST_ITEMS


@dataclass(frozen=True, slots=True)
class Rank:
    """What an item is chosen by.

    Attributes:
        failed: it has no score because a call failed, or because no verdict could be read.
        value: what it adds to the result; not a number without one.
    """

    failed: bool
    value: float

    @property
    def key(self) -> tuple[bool, bool, float]:
        """Sorts the worst items to the front: those that failed, those without a value, those of the least value."""
        has_value = not math.isnan(self.value)
        return (not self.failed, has_value, self.value if has_value else 0.0)


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """The items of a page.

    Attributes:
        places: their places in the run, in the order of the page.
        notice: how they were chosen; `None` if the page holds all of them.
    """

    places: Sequence[int]
    notice: str | None


def choose(ranks: Sequence[Rank], *, most: int | None, order: Order, items: str = "rows") -> ItemSelection:
    """Choose the items of a page.

    Args:
        ranks: of all items, in the order of the run.
        most: how many the page may hold; `None` for all.
        order: that of the run, or the worst first.
        items: what they are called in the notice.
    """
    places: Sequence[int] = range(len(ranks))
    notice = None
    if most is not None and len(ranks) > most:
        places, notice = _some(ranks, most, items)
    if order == "worst":
        places = sorted(places, key=lambda place: (*ranks[place].key, place))
    return ItemSelection(places, notice)


def _some(ranks: Sequence[Rank], most: int, items: str) -> tuple[list[int], str]:
    failed = [place for place, rank in enumerate(ranks) if rank.failed]
    others = sorted((place for place, rank in enumerate(ranks) if not rank.failed), key=lambda at: (ranks[at].key, at))
    kept_failed = _evenly(failed, max(most // 2, most - len(others)))
    room = most - len(kept_failed)
    worst, rest = others[: room // 2], others[room // 2 :]
    spread = _evenly(sorted(rest), room - len(worst))
    all_failed = "all" if len(kept_failed) == len(failed) else f"{len(kept_failed)} of"
    of_failed = f"{all_failed} {len(failed)} that failed, " if failed else ""
    notice = (
        f"This page holds {most} of {len(ranks)} {items}: {of_failed}the {len(worst)} of the least value, and "
        f"{len(spread)} at even distances over the others. The charts and numbers are of all {items}."
    )
    return sorted([*kept_failed, *worst, *spread]), notice


def _evenly(places: Sequence[int], count: int) -> list[int]:
    """Places at even distances; all, if there are no more than `count`."""
    if len(places) <= count:
        return list(places)
    return [places[number * len(places) // count] for number in range(count)]
