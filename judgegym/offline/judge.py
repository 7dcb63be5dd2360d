"""The stand-in as judge: computes merits from words, and lets the judge's prompt format make a reply of them."""

import json
from collections.abc import Callable, Sequence

from judgegym.judges.core.prompt_format import PREVIOUS_EVALUATION, PromptFormat, ShownPrompt
from judgegym.judges.core.seeding import generator
from judgegym.judges.parsing.verdict_form import CRITIQUE
from judgegym.offline.lexical import merit, quality
from judgegym.offline.protocol.request import BadRequest, ChatRequest
from judgegym.offline.reader import ParsedPrompt

_LENIENCY = 0.04  # the most that a model's merits differ from another's, up or down
_VOTE_SPREAD = 0.1  # the same between votes, at temperature 1
_REVISION_SPREAD, _REVISED = 0.12, 0.3  # the same after a critique, and the share of verdicts that a critique changes
_CRITIQUES = (
    "I looked at my evaluation again and asked whether it is too harsh or too lenient.",
    "I went through my rationale once more and looked for what it misses.",
)


def judge_reply(reading: ParsedPrompt, request: ChatRequest, index: int) -> str:
    """The judge's reply for choice `index`, with a critique before it if the prompt asks for one.

    The first choice without a seed or with seed 0 uses the merits as they are. Above temperature 0 all other choices
    change them a little, as votes differ; and so do some replies to a request for a critique.
    """
    case = [text for title, text in reading.sections.items() if title != PREVIOUS_EVALUATION]
    # Seeded without the earlier evaluation, so that a round keeps the verdict that the round before it revised.
    rng = generator(index, repr((request.model, case)) if reading.is_critique else request.question, "judge")
    is_vote = request.temperature > 0 and (index > 0 or request.seed not in (None, 0))
    spread = _VOTE_SPREAD * request.temperature if is_vote else 0.0
    if reading.is_critique and rng.random() < _REVISED:
        spread += _REVISION_SPREAD
    try:
        reply = reading.prompt_format.reply(_shown(reading, request.model, lambda: rng.uniform(-spread, spread)))
    except Exception as error:  # of a user's own judge; any other status would be asked for again
        raise BadRequest(f"reply of the PromptFormat with the sections {[*reading.sections]}: {error!r}") from error
    critique = rng.choice(_CRITIQUES) if reading.is_critique else ""
    if request.properties is not None:
        return _object(reading.prompt_format, reply, critique, request.properties)
    return f"{critique}\n\n{reply}" if critique else reply


def _object(prompt_format: PromptFormat, reply: str, critique: str, properties: Sequence[str]) -> str:
    """The reply as an object with these fields, in this order."""
    fields = {CRITIQUE: critique, **(prompt_format.fields(reply) or {})}
    missing = [name for name in properties if name not in fields]
    if missing:
        raise BadRequest(f"response_format: the offline judge's replies to this prompt have no {', '.join(missing)}")
    return json.dumps({name: fields[name] for name in properties}, ensure_ascii=False)


def _shown(reading: ParsedPrompt, model: str, move: Callable[[], float]) -> ShownPrompt:
    prompt_format, sections = reading.prompt_format, reading.sections
    question = sections.get(prompt_format.question, "")
    reference = next((sections[title] for title in prompt_format.references if title in sections), "")
    leniency = generator(0, model, "leniency").uniform(-_LENIENCY, _LENIENCY)
    merits = {
        title: merit(quality(sections[title], question, reference) + leniency + move())
        for title in prompt_format.judged_of(sections)
    }
    context = [text for title, text in sections.items() if title not in (*merits, PREVIOUS_EVALUATION)]
    return ShownPrompt(reading.instructions, sections, merits, generator(0, repr(context), "case"))
