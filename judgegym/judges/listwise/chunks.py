"""Which answers are shown together: all of them, or, where a prompt has a limit, chunks that share one answer.

Token counts are approximate, since the judge's tokenizer is not known: the larger of `judgegym.llm.tokens` and an
estimate by characters (digits and rare ones count most), and a tenth more. By this count the first prompt of every call
stays below the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judgegym.judges.core.seeding import generator
from judgegym.judges.listwise.prompt import answer_section, listwise_prompt
from judgegym.judges.listwise.settings import ListwiseJudgeSettings
from judgegym.llm.tokens import count_tokens

_ASCII_PER_TOKEN = 4
_DIGITS = "0123456789"
"""Each is a token for many models."""
_TOKENS_OF_RARE = 4
"""Of a character that UTF-8 writes in four bytes, if the tokenizer does not know it."""
_ROUNDED_UP = 1.1
_IDS = 24
"""Tokens that the ids and tags of an answer's markers have beyond those of words of their length."""
_NOTICE = 150
"""Tokens for the notice of a prompt with suspects, and for the template of a conversation."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Which answers are shown together, and in which order.

    Attributes:
        shown: the texts of each chunk, in the first of its orders.
        link: the text that is in every chunk, if there are several; the anchor, if the case has one.
        left_out: why a text is in no chunk.
    """

    shown: tuple[tuple[str, ...], ...]
    link: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


def divide(
    shared: Mapping[str, str], texts: Sequence[str], settings: ListwiseJudgeSettings, key: str, anchor: str | None
) -> Chunks:
    """Divide the distinct texts of a group into as few chunks as possible, of about equal length.

    The text that chunks share is the anchor, otherwise one of middle length, or a shorter one if a long answer would
    not fit beside that. A text that does not fit beside it is left out.

    Args:
        shared: what the texts share, by the titles of the prompt.
        texts: the distinct texts, in an order that does not depend on the caller's.
        settings: the limit and the seed.
        key: identifies the texts, to seed the order.
        anchor: the one of the texts that is the anchor.
    """
    limit = settings.judge_max_input_tokens
    if limit is None:
        return Chunks((_shuffled(texts, settings.seed, key, 1),))
    empty = listwise_prompt(shared, {}, system_prompt=settings.judge_system_prompt)
    room = limit - _NOTICE - sum(about_tokens(message["content"]) for message in empty.messages)
    costs = {text: _IDS + about_tokens(answer_section(text)) for text in texts}
    if sum(costs.values()) <= room:
        return Chunks((_shuffled(texts, settings.seed, key, 1),))
    link = _link(costs, room) if anchor is None else anchor
    beside = room - costs[link]
    fitting = {text: cost for text, cost in costs.items() if text != link and cost <= beside}
    chunks = tuple(
        _shuffled([link, *chunk], settings.seed, key, number)
        for number, chunk in enumerate(_packed(fitting, beside), start=1)
    )
    compared = {link, *fitting} if fitting else set[str]()
    other = "another answer" if anchor is None else "the anchor"
    left_out = {
        text: f"too long: this answer has about {cost} tokens, {other} {costs[link]}, and what all prompts share "
        f"{limit - room}; judge_max_input_tokens is {limit}"
        for text, cost in costs.items()
        if text not in compared
    }
    return Chunks(chunks, link, left_out)


def _link(costs: Mapping[str, int], room: int) -> str:
    """The text of middle length, or the longest shorter one beside which all fit that fit beside the shortest."""
    texts = sorted(costs, key=lambda text: (costs[text], text))
    shortest = costs[texts[0]]
    longest = max((cost for cost in costs.values() if cost <= room - shortest), default=0)
    middle = texts[: (len(texts) + 1) // 2]
    return next((text for text in reversed(middle) if costs[text] + longest <= room), texts[0])


def _packed(costs: Mapping[str, int], room: int) -> list[list[str]]:
    """The texts in as few chunks as possible: the longest first, each into the chunk that is the shortest so far."""
    longest_first = sorted(costs, key=lambda text: (-costs[text], text))
    for count in range(1, len(costs) + 1):
        chunks, filled = [list[str]() for _ in range(count)], [0] * count
        for text in longest_first:
            shortest = filled.index(min(filled))
            chunks[shortest].append(text)
            filled[shortest] += costs[text]
        if max(filled) <= room:
            return chunks
    return []


def _shuffled(texts: Sequence[str], seed: int, key: str, number: int) -> tuple[str, ...]:
    return tuple(generator(seed, key, f"order of chunk {number}").sample(texts, len(texts)))


def about_tokens(text: str) -> int:
    """How many tokens a judge may count in a text; approximate, and rather too many than too few."""
    ascii_only, digits = len(text.encode("ascii", "ignore")), sum(map(text.count, _DIGITS))
    rare = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
    others = len(text) - ascii_only + digits
    estimate = (ascii_only - digits) / _ASCII_PER_TOKEN + others + (_TOKENS_OF_RARE - 1) * rare
    return int(_ROUNDED_UP * max(count_tokens(text), estimate)) + 1
