"""The items of a run's page, as JSON for the page's script, and the choice of items.

`page` writes the JSON and the script reads it: the names are the contract. An item is a row of an
evaluation, a group of `process`, or a response of a scored data set. Its summary is shown in the
list, its detail when it is opened. All texts are those of the run, unescaped: the script inserts
them as text.

A browser opens a page of a few thousand items quickly, and a page of 100,000 not at all. So a page
has a limit: failed items come first, then the worst, then others evenly spaced over the whole run;
the page says so.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from judgegym.engine.runs.recorded_calls import IMAGES, RecordedCall

View = dict[str, Any]
"""A part of an item as JSON."""
Item = tuple[View, View]
"""Summary and detail of an item; both have its `id`, which is unique and ends its link."""
Rank = tuple[bool, bool, float]
"""The key by which items are chosen; the worst sort to the front."""

_IMAGE_FILE = re.compile(rf"{IMAGES}/\w+\.(png|jpeg|gif|webp)")
MOST_ITEMS = 2000
"""The default limit of items on a page."""
ORDERS = ("dataset", "worst")
START = 140
"""The number of characters of a question in the list."""


def titled_text(title: str, text: str) -> View:
    """Return a text with a title: a role, or the name of a row's text (`baseline`, `rubric`, …)."""
    return {"title": title, "text": text}


def completion_view(
    title: str,
    text: str,
    thinking: str = "",
    notes: Sequence[str] = (),
    score: float | None = None,
    **more: object,
) -> View:
    """Return the view of a completion.

    Args:
        title: `answer`, or one of several: `conversation 2`, `rollout 3`, a candidate's name.
        text: the text that was judged.
        thinking: the thinking that was split off; empty without any.
        notes: remarks: `thinking: not closed`, `cut off`, `refused`, `shorter than asked for`.
        score: the score of a rollout or a candidate; in an evaluation the row has the score.
        more: in a conversation the user's message before it (`asked`), whether it `is_judged`,
            its own `turn_score`, and its `turns` (`turn_view`) if it is a conversation itself;
            for a rollout the `status` and `label` of its judgment, its `explanation`, its position
            in each call that compared it (`seen`), and its own `calls`.
    """
    plain = {
        **turn_view(title, text),
        "thinking": thinking,
        "notes": notes,
        "score": score,
        "asked": "",
        "turns": (),
    }
    return {
        **plain,
        "status": None,
        "label": None,
        "explanation": "",
        "seen": "",
        "calls": (),
        **more,
    }


def turn_view(
    title: str, text: str, turn_score: float | None = None, *, is_judged: bool = False
) -> View:
    """Return the view of a turn; results of tools and system turns are folded."""
    is_folded = title.startswith(("tool", "system"))
    return {
        **titled_text(title, text),
        "turn_score": turn_score,
        "is_judged": is_judged,
        "is_folded": is_folded,
    }


def call_views(calls: Iterable[RecordedCall]) -> list[View]:
    """Return the views of calls, one for each choice; the first has the usage."""
    return [*chain.from_iterable(map(_iter_call_views, calls))]


def _iter_call_views(call: RecordedCall) -> Iterator[View]:
    answer, choices = call.answer, call.answer.choices
    name = call.component.rpartition("/")[2] if call.group is not None else call.component
    messages = call.messages and [
        titled_text(message["role"], message["content"]) for message in call.messages
    ]
    for number, choice in enumerate(choices):
        usage = answer.usage if number == 0 and not answer.cached else None
        yield {
            "name": name if len(choices) == 1 else f"{name}, {number + 1} of {len(choices)}",
            "vote": call.vote,
            "model": call.model,
            "messages": messages if number == 0 else (),  # None if the run kept no texts
            "answer": choice.text or choice.refusal or "",
            "reasoning": choice.reasoning,
            "verdict_at": call.verdict_at if number == 0 else None,  # code points of the answer
            "has_verdict": call.has_verdict,
            "finish_reason": choice.finish_reason,
            "prompt_tokens": usage and usage.prompt_tokens,
            "cached_prompt_tokens": usage and usage.cached_prompt_tokens,
            "completion_tokens": usage and usage.completion_tokens,
            "cost": usage and usage.cost,
            "seconds": answer.latency_s,
            "attempts": answer.attempts,  # 0 for an answer of the judgment cache
        }


def image_views(run: Path, calls: Iterable[RecordedCall]) -> list[View]:
    """Return the images of calls, each once: the run's files with data, others by address."""
    messages = chain.from_iterable(call.messages or () for call in calls)
    images = chain.from_iterable(message.get("images", ()) for message in messages)
    marks = {image.url: image.mark for image in images}
    return [
        {"title": mark or "image", "url": url, "data": _render_data(run, url)}
        for url, mark in marks.items()
    ]


def _render_data(run: Path, url: str) -> str:
    kind, path = _IMAGE_FILE.fullmatch(url), run / url
    if kind and path.is_file():
        data = b64encode(path.read_bytes()).decode()
        return f"data:image/{kind[1]};base64,{data}"
    return ""


def rank(failed: bool, value: float) -> Rank:
    """Return an item's sort key: failed items, then those without a value, then the least."""
    has_value = not math.isnan(value)
    return not failed, has_value, value if has_value else 0.0


def choose_items(
    ranks: Sequence[Rank], *, most: int | None, order: str, items: str = "rows"
) -> tuple[Sequence[int], list[str]]:
    """Choose the items of a page.

    Args:
        ranks: the sort keys of all items, in the order of the run.
        most: the limit of items; `None` for all.
        order: that of the run (`dataset`), or the `worst` first.
        items: the name of items in the notice.

    Returns:
            The items' indices in the run, in the order of the page; and a notice about the choice,
            unless all are chosen.
    """
    indices: Sequence[int] = range(len(ranks))
    notices = []
    if most is not None and len(ranks) > most:
        failed = [index for index in indices if not ranks[index][0]]
        others = sorted(
            (index for index in indices if ranks[index][0]), key=lambda index: (ranks[index], index)
        )
        kept_failed = _space_evenly(failed, max(most // 2, most - len(others)))
        room = most - len(kept_failed)
        worst, middle = others[: room // 2], others[room // 2 :]
        spread = _space_evenly(sorted(middle), room - len(worst))
        indices = sorted([*kept_failed, *worst, *spread])
        all_failed = "all" if len(kept_failed) == len(failed) else f"{len(kept_failed)} of"
        failed_text = f"{all_failed} {len(failed)} that failed, " if failed else ""
        notices.append(
            f"This page holds {most} of {len(ranks)} {items}: {failed_text}the {len(worst)} of the "
            f"least value, and {len(spread)} at even distances over the others. The charts and "
            f"numbers are of all {items}."
        )
    if order == "worst":
        indices = sorted(indices, key=lambda index: (ranks[index], index))
    return indices, notices


def _space_evenly(indices: Sequence[int], count: int) -> list[int]:
    """Return `count` evenly spaced indices, or all if there are fewer."""
    if len(indices) <= count:
        return list(indices)
    return [indices[number * len(indices) // count] for number in range(count)]
