"""One call about answers in one order, its repair, chunks of long groups, and the judgments.

Guarantees: scores are assigned by the ids of the call, never by the order in which the judge names
them. A repair, sent if the reply has no usable scores, is the same conversation with what was
wrong; its scores are those of all answers. If the judge's reply would make the conversation longer
than `judge_max_input_tokens`, the repair leaves that reply out. A failed call is not repaired,
since the client has retried it.

All answers are shown together, or, if a prompt has a limit, in chunks that share one answer.

Token counts are approximate, since the judge's tokenizer is not known: the larger of
`judgegym.llm.usage` and an estimate by characters (digits and rare ones count most), and a tenth
more. By this count the first prompt of every call stays below the limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import NamedTuple

from judgegym.judges.core.calls import NoVerdict, failed_judgment
from judgegym.judges.core.delimiters import break_tokens
from judgegym.judges.core.group import Look, MemberDetail, OrderAgreement, response_number
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.model_judge import Question, ask_question
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.prompt import (
    ListwiseJudgeSettings,
    answer_section,
    count_suspects,
    draw_ids,
    listwise_prompt,
    merge_scales,
    repair_request,
)
from judgegym.judges.parsing.scores import (
    LISTWISE_FORM,
    ListwiseScores,
    ScoredAnswer,
    listwise_fault,
    listwise_scores,
)
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm.client import ChatClient
from judgegym.llm.usage import count_tokens
from judgegym.llm.wire import Choice, Message

_ASCII_PER_TOKEN = 4
_DIGITS = "0123456789"
"""Each is a token for many models."""
_TOKENS_OF_RARE = 4
"""Of a character that UTF-8 writes in four bytes, if the tokenizer does not know it."""
_ROUNDED_UP = 1.1
_IDS = 24
"""Tokens of the ids and tags in an answer's markers, beyond those of ordinary words."""
_NOTICE = 150
"""Tokens for the notice of a prompt with suspects, and for the template of a conversation."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The answers that are shown together, and their order.

    Attributes:
        shown: the texts of each chunk, in the first of its orders.
        link: the text that every chunk has, if there are several chunks; the anchor, if there is
            one.
        left_out: for each text in no chunk, the reason.
    """

    shown: tuple[tuple[str, ...], ...]
    link: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


def divide_texts(
    shared: Mapping[str, str],
    texts: Sequence[str],
    settings: ListwiseJudgeSettings,
    key: str,
    anchor: str | None,
) -> Chunks:
    """Divide the distinct texts of a group into as few chunks as possible, of about equal length.

    The chunks share the anchor, otherwise a text of middle length, or a shorter one if a long
    answer would not fit beside that. A text that does not fit beside it is left out.

    Args:
        shared: the shared texts, by the titles of the prompt.
        texts: the distinct texts, in an order that does not depend on the caller's.
        settings: the limit and the seed.
        key: identifies the texts, to seed the order.
        anchor: the text that is the anchor.
    """
    limit = settings.judge_max_input_tokens
    if limit is None:
        return Chunks((_shuffle(texts, settings.seed, key, 1),))
    empty = listwise_prompt(shared, {}, system_prompt=settings.judge_system_prompt)
    room = limit - _NOTICE - sum(estimate_tokens(message["content"]) for message in empty.messages)
    costs = {text: _IDS + estimate_tokens(answer_section(text)) for text in texts}
    if sum(costs.values()) <= room:
        return Chunks((_shuffle(texts, settings.seed, key, 1),))
    link = anchor
    if link is None:
        link = _choose_link(costs, room)
    beside = room - costs[link]
    others = {text: cost for text, cost in costs.items() if text != link}
    fitting = {text: cost for text, cost in others.items() if cost <= beside}
    chunks = tuple(
        _shuffle([link, *chunk], settings.seed, key, number)
        for number, chunk in enumerate(_pack(fitting, beside), start=1)
    )
    compared = set[str]()
    if fitting:
        compared = {link, *fitting}
    link_name = "another answer" if anchor is None else "the anchor"
    left_out = {
        text: f"too long: this answer has about {cost} tokens, {link_name} {costs[link]}, and what "
        f"all prompts share {limit - room}; judge_max_input_tokens is {limit}"
        for text, cost in costs.items()
        if text not in compared
    }
    return Chunks(chunks, link, left_out)


def _choose_link(costs: Mapping[str, int], room: int) -> str:
    """Choose the text that all chunks share.

    It has middle length. If a text that fits beside the shortest does not fit beside it, the
    longest shorter text with enough room is chosen.
    """
    texts = sorted(costs, key=lambda text: (costs[text], text))
    shortest = costs[texts[0]]
    longest = max((cost for cost in costs.values() if cost <= room - shortest), default=0)
    middle = texts[: (len(texts) + 1) // 2]
    return next((text for text in reversed(middle) if costs[text] + longest <= room), texts[0])


def _pack(costs: Mapping[str, int], room: int) -> list[list[str]]:
    """Pack the texts into as few chunks as possible.

    The longest come first, each into the chunk that is shortest so far.
    """
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


def _shuffle(texts: Sequence[str], seed: int, key: str, number: int) -> tuple[str, ...]:
    return tuple(make_generator(seed, key, f"order of chunk {number}").sample(texts, len(texts)))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text; the estimate is rather too high than too low."""
    ascii_only, digits = len(text.encode("ascii", "ignore")), sum(map(text.count, _DIGITS))
    rare = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
    others = len(text) - ascii_only + digits
    estimate = (ascii_only - digits) / _ASCII_PER_TOKEN + others + (_TOKENS_OF_RARE - 1) * rare
    return int(_ROUNDED_UP * max(count_tokens(text), estimate)) + 1


_LEFT_OUT = "…"


@dataclass(frozen=True, slots=True)
class ScoredOrder:
    """Answers in one order, with the scores that the judge gave them.

    Attributes:
        shown: the texts in the order in which the judge saw them.
        ids: their ids in the call.
        scores: the scores by text; `None` without a verdict.
        calls: the call and its repairs.
    """

    shown: tuple[str, ...]
    ids: tuple[str, ...]
    scores: Mapping[str, ScoredAnswer] | None
    calls: tuple[JudgeCall[ListwiseScores], ...]


async def ask_order(
    client: ChatClient,
    settings: ListwiseJudgeSettings,
    shared: Mapping[str, str],
    shown: Sequence[str],
    *,
    key: str,
    name: str,
) -> ScoredOrder:
    """Ask for the scores of the texts in this order.

    Args:
        client: the client of the judge model.
        settings: the seed of the ids, the system prompt, and the number of repairs.
        shared: the shared texts, by the titles of the prompt.
        shown: distinct texts.
        key: identifies the texts, to seed the ids.
        name: the name of the call, unique in the judgment of the group.
    """
    rng = make_generator(settings.seed, key, f"ids of {name}")
    ids = draw_ids(rng, len(shown), [*shown, *shared.values()])

    def read(choice: Choice) -> ParsedVerdict[ListwiseScores] | NoVerdict:
        return listwise_scores.find(choice.text, ids) or NoVerdict(listwise_fault(choice.text, ids))

    def repair(messages: Sequence[Message], call: JudgeCall[ListwiseScores]) -> tuple[str, str]:
        excerpt, request = (
            break_tokens(call.text),
            repair_request(ids, break_tokens(call.error or "")),
        )
        if settings.judge_max_input_tokens is not None:
            before = sum(estimate_tokens(message["content"]) for message in messages)
            fits = (
                before + estimate_tokens(excerpt) + estimate_tokens(request)
                <= settings.judge_max_input_tokens
            )
            if not fits:
                excerpt = _LEFT_OUT
        return excerpt, request

    by_id = dict(zip(ids, shown, strict=True))
    prompt = listwise_prompt(shared, by_id, system_prompt=settings.judge_system_prompt)
    question = Question(
        name, prompt, read, LISTWISE_FORM, reasks=settings.judge_reask, repair=repair
    )
    answers = await ask_question(client, settings, question)
    value = answers.last.value
    scores = None
    if value is not None:
        scores = {text: value[answer_id] for answer_id, text in by_id.items()}
    return ScoredOrder(tuple(shown), tuple(ids), scores, answers.calls)


_DECIMALS = 12
"""Digits that computed scores are rounded to, so that rounding errors are no signal."""


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """Scores of a chunk's answers in each of its orders."""

    orders: tuple[ScoredOrder, ...]

    @property
    def scores(self) -> dict[str, float] | None:
        """Mean score of each text over the orders; `None` if one order has no verdict.

        Means that are equal in the judge's numbers stay equal: (0.7 + 0.1) / 2 is 0.4, not less in
        the last bit.
        """
        scored = [order.scores for order in self.orders if order.scores is not None]
        if len(scored) < len(self.orders):
            return None
        if len(scored) == 1:
            return {text: entry.score for text, entry in scored[0].items()}
        return {
            text: round(sum(scores[text].score for scores in scored) / len(scored), _DECIMALS)
            for text in self.orders[0].shown
        }


class _CallReply(NamedTuple):
    """What one call gave an answer; ids in the explanation are replaced by numbers."""

    look: Look
    explanation: str


def build_judgments(
    task: JudgeTask, shared: Mapping[str, str], chunks: Chunks, results: Sequence[ChunkResult]
) -> list[Judgment[MemberDetail]]:
    """Return a judgment for each answer of the task, without calls.

    Explanations name answers by number instead of by the ids of the call.

    Args:
        task: the answers and the anchor as the judge was shown them.
        shared: what they share.
        chunks: which texts were shown together, and why others were not.
        results: of each chunk.
    """
    usable = [scores for result in results if (scores := result.scores) is not None]
    own_scores = merge_scales(usable, chunks.link)
    relative = own_scores
    if task.baseline is not None:
        relative = _compare_with_anchor(task.baseline, usable)
    orders = list(chain.from_iterable(result.orders for result in results))
    names = {}
    for position, text in reversed([*enumerate(task.responses)]):
        number = response_number(task, position)
        names[text] = f"answer {number}"
    if task.baseline is not None:
        names.setdefault(task.baseline, "the anchor")
    by_text: dict[str, Judgment[MemberDetail]] = {}
    for text in {*task.responses}:
        shown = [order for order in orders if text in order.shown]
        replies = [
            _read_reply(text, order, order.scores, names)
            for order in shown
            if order.scores is not None
        ]
        if text in own_scores:
            judgment = _member_judgment(own_scores[text], relative[text], replies)
        elif text in chunks.left_out:
            judgment = Judgment(None, Status.JUDGE_FAILED, explanation=chunks.left_out[text])
        else:
            judgment = _failed_member([order for order in shown if order.scores is None], replies)
        by_text[text] = replace(judgment, suspects=count_suspects(shared, text))
    return [by_text[text] for text in task.responses]


def count_agreement(results: Sequence[ChunkResult]) -> OrderAgreement:
    """Count pairs with the same winner in both orders, the anchor included."""
    agreed = pairs = 0
    for result in results:
        if len(result.orders) < 2 or result.scores is None:
            continue
        first, second = (
            {text: entry.score for text, entry in (order.scores or {}).items()}
            for order in result.orders
        )
        for first_text, second_text in combinations(first, 2):
            pairs += 1
            agreed += _sign(first[first_text] - first[second_text]) == _sign(
                second[first_text] - second[second_text]
            )
    return OrderAgreement(agreed, pairs)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _compare_with_anchor(anchor: str, usable: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return how each text compares with the anchor in its own chunk, from 0 to 1."""
    compared: dict[str, float] = {}
    for scores in usable:
        for text, score in scores.items():
            compared[text] = round(0.5 + (score - scores[anchor]) / 2, _DECIMALS)
    return compared


def _read_reply(
    text: str, order: ScoredOrder, scores: Mapping[str, ScoredAnswer], names: Mapping[str, str]
) -> _CallReply:
    by_id = {
        answer_id: names[shown_text]
        for answer_id, shown_text in zip(order.ids, order.shown, strict=True)
    }
    any_id = "|".join(order.ids)
    ids = re.compile(rf"\b(?:answer )?({any_id})\b", re.IGNORECASE)
    explanation = ids.sub(lambda match: by_id[match[1].lower()], scores[text].explanation)
    return _CallReply(
        Look(order.shown.index(text) + 1, len(order.shown), scores[text].score), explanation
    )


def _member_judgment(
    own_score: float, score: float, replies: Sequence[_CallReply]
) -> Judgment[MemberDetail]:
    detail = MemberDetail(tuple(entry.look for entry in replies), own_score)
    if len(replies) == 1:
        explanation = replies[0].explanation
    else:
        explanation = "\n\n".join(
            f"In place {reply.look.place} of {reply.look.of}: {reply.explanation}"
            for reply in replies
        )
    return Judgment(score, Status.OK, f"{own_score:.3g}", explanation, detail=detail)


def _failed_member(
    unscored: Sequence[ScoredOrder], replies: Sequence[_CallReply]
) -> Judgment[MemberDetail]:
    """Return the judgment of a text whose chunks all lack a verdict in at least one order."""
    reasons = [f"{order.calls[0].name}: {order.calls[-1].error}" for order in unscored]
    calls = list(chain.from_iterable(order.calls for order in unscored))
    detail = MemberDetail(tuple(entry.look for entry in replies), None)
    return replace(failed_judgment(calls, explanation="; ".join(reasons), detail=detail), calls=())
