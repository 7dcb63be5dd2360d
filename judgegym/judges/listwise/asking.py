"""One order of some answers: a call, and the repair of an answer that has no usable scores.

Guarantees: scores are assigned by the ids of the call, never by the order in which the judge names them; a repair is
the same conversation with what was wrong, and its scores are those of all answers. Where the judge's answer would make
the conversation longer than `judge_max_input_tokens`, the repair leaves that answer out. A failed call is not repaired,
since the client has retried it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgegym.judges.core.calls import NoVerdict, ask_choice
from judgegym.judges.core.delimiters import without_tokens
from judgegym.judges.core.judgment import JudgeCall
from judgegym.judges.core.seeding import generator
from judgegym.judges.listwise.chunks import about_tokens
from judgegym.judges.listwise.prompt import draw_ids, listwise_prompt, repair_request
from judgegym.judges.listwise.settings import ListwiseJudgeSettings
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.judges.parsing.verdicts import (
    LISTWISE_FORM,
    ListwiseScores,
    ScoredAnswer,
    listwise_fault,
    listwise_scores,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Choice, Message

_LEFT_OUT = "…"


@dataclass(frozen=True, slots=True)
class ScoredOrder:
    """Some answers in one order, and what the judge said of them.

    Attributes:
        shown: the texts in the order in which the judge saw them.
        ids: their ids in the call.
        scores: by text; `None` without a verdict.
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
        settings: the seed of the ids, the system prompt, and how many repairs.
        shared: what the texts share, by the titles of the prompt.
        shown: distinct texts.
        key: identifies the texts, to seed the ids.
        name: the name of the call, unique in the judgment of the group.
    """
    rng = generator(settings.seed, key, f"ids of {name}")
    ids = draw_ids(rng, len(shown), [*shown, *shared.values()])

    def read(choice: Choice) -> ParsedVerdict[ListwiseScores] | NoVerdict:
        return listwise_scores.find(choice.text, ids) or NoVerdict(listwise_fault(choice.text, ids))

    prompt = listwise_prompt(shared, dict(zip(ids, shown, strict=True)), system_prompt=settings.judge_system_prompt)
    messages = prompt.messages
    form = settings.form(LISTWISE_FORM)
    call = await ask_choice(client, messages, read, name=name, form=form)
    calls = [call]
    # After an empty text there is no conversation to continue.
    while call.value is None and call.text.strip() and len(calls) <= settings.judge_reask:
        messages = _repaired(messages, call, ids, settings.judge_max_input_tokens)
        call = await ask_choice(client, messages, read, name=f"{name}_reask_{len(calls)}", form=form)
        calls.append(call)
    value = call.value
    scores = None if value is None else {text: value[own] for own, text in zip(ids, shown, strict=True)}
    return ScoredOrder(tuple(shown), tuple(ids), scores, tuple(calls))


def _repaired(
    messages: Sequence[Message], call: JudgeCall[ListwiseScores], ids: Sequence[str], limit: int | None
) -> list[Message]:
    """The conversation with the judge's answer, and with the request to repair it."""
    said = without_tokens(call.text)
    request = repair_request(ids, without_tokens(call.error or ""))
    if limit is not None:
        before = sum(about_tokens(message["content"]) for message in messages)
        said = said if before + about_tokens(said) + about_tokens(request) <= limit else _LEFT_OUT
    return [*messages, Message(role="assistant", content=said), Message(role="user", content=request)]
