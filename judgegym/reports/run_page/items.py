"""What the page of a run is made of. `page` writes it as JSON, the page's script reads it: the names are the contract.

An item is a row of an evaluation, a group of `process`, or a response of a scored data set. The
list needs only its summary; its detail is what it opens to. All texts are those of the run,
unescaped: the script puts them on the page as text.

Which items a page holds, and in which order.

A browser opens a page of a few thousand items quickly, and a page of 100,000 not at all. So a page
has a limit: items that failed come first, then the worst, then others at even distances over the
whole run; the page says so.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from judgegym.engine.runs.recorded_calls import IMAGES, RecordedCall

View = dict[str, Any]
"""A part of an item as JSON."""
Item = tuple[View, View]
"""The summary and the detail of an item; both have its `id`, which is unique on the page and the end of its link."""
Rank = tuple[bool, bool, float]
"""What items are chosen by; the worst sort to the front."""

_IMAGE_FILE = re.compile(rf"{IMAGES}/\w+\.(png|jpeg|gif|webp)")
MOST_ITEMS = 2000
"""What a page holds unless the user says otherwise."""
ORDERS = ("dataset", "worst")
START = 140
"""How many characters of a question the list shows."""


def titled_text(title: str, text: str) -> View:
    """A text with its title: a message with its role, or a text of the row (`baseline`, `reference`, `rubric`)."""
    return {"title": title, "text": text}


def completion_view(
    title: str,
    text: str,
    thinking: str = "",
    notes: Sequence[str] = (),
    score: float | None = None,
    **more: object,
) -> View:
    """Return a completion of the policy with what belongs to it alone.

    Args:
        title: `answer`, or which of several: `conversation 2`, `rollout 3`, a candidate's name.
        text: the text that was judged.
        thinking: the thinking that was split off; empty without any.
        notes: what is particular, in words: `thinking: not closed`, `cut off`, `refused`, `shorter
            than asked for`.
        score: of a rollout or a candidate; in an evaluation the row has the score.
        more: in a conversation what the user `asked` before it, whether it `is_judged`, with which
            `turn_score` of its own, and its `turns` (`turn_view`) where it is a conversation
            itself; of a rollout the `status` and `label` of its judgment, its `explanation`, where
            it was `seen` in each call that compared it with others, and the `calls` that were made
            for it alone.
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
    """Return a turn of a conversation; what a tool returned is folded."""
    is_folded = title.startswith(("tool", "system"))
    return {
        **titled_text(title, text),
        "turn_score": turn_score,
        "is_judged": is_judged,
        "is_folded": is_folded,
    }


def call_views(calls: Iterable[RecordedCall]) -> list[View]:
    """The calls, in the order of their answers; of several completions each is a view, with the usage at the first."""
    return [view for call in calls for view in _iter_call_views(call)]


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
    """The images of calls, each once: those that are files of the run with their data, and of others the address."""
    messages = (message for call in calls for message in call.messages or ())
    marks = {image.url: image.mark for message in messages for image in message.get("images", ())}
    return [
        {"title": mark or "image", "url": url, "data": _render_data(run, url)}
        for url, mark in marks.items()
    ]


def _render_data(run: Path, url: str) -> str:
    kind, path = _IMAGE_FILE.fullmatch(url), run / url
    return (
        f"data:image/{kind[1]};base64,{b64encode(path.read_bytes()).decode()}"
        if kind and path.is_file()
        else ""
    )


def rank(failed: bool, value: float) -> Rank:
    """What an item is chosen by: those that failed come first, then those without a value (NaN), then the least."""
    has_value = not math.isnan(value)
    return not failed, has_value, value if has_value else 0.0


def choose_items(
    ranks: Sequence[Rank], *, most: int | None, order: str, items: str = "rows"
) -> tuple[Sequence[int], list[str]]:
    """Choose the items of a page.

    Args:
        ranks: of all items, in the order of the run.
        most: how many the page may hold; `None` for all.
        order: that of the run (`dataset`), or the `worst` first.
        items: what they are called in the notice.

    Returns:
        Their places in the run, in the order of the page; and a notice of how they were chosen,
        unless all are there.
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
            "least value, and "
            f"{len(spread)} at even distances over the others. The charts and numbers are of all "
            f"{items}."
        )
    if order == "worst":
        indices = sorted(indices, key=lambda index: (ranks[index], index))
    return indices, notices


def _space_evenly(indices: Sequence[int], count: int) -> list[int]:
    """Places at even distances; all, if there are no more than `count`."""
    if len(indices) <= count:
        return list(indices)
    return [indices[number * len(indices) // count] for number in range(count)]
