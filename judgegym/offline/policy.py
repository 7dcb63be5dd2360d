"""The stand-in as policy: answers with sentences made of the prompt's words."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random

from judgegym.judges.core.seeding import generator
from judgegym.offline.lexical import salient_words
from judgegym.offline.protocol.request import ChatRequest

_FALLBACK = ("question", "answer", "example", "reason", "purpose", "result")
_SENTENCES = (
    "The short answer turns on {a} and {b}.",
    "The role of {a} becomes clear once {b} is taken into account.",
    "In practice, {a} depends on how carefully {b} is handled.",
    "Most difficulties with {a} come from a vague idea of {b}.",
    "First settle what {a} means, then check it against {b}.",
    "Some would put {b} first, yet {a} usually decides the matter.",
    "When {a} changes, {b} tends to change with it, though more slowly.",
    "There is a trade-off between {a} and {b}, and both sides have merit.",
    "Taken together, {a} and {b} give a workable answer.",
)


def write(request: ChatRequest, index: int) -> str:
    """An answer of 40 to 220 words (bullets count) for choice `index`, without thinking tags.

    The model's name determines its length, its share of the prompt's words, and whether it is a list. The rest depends
    on the messages and, above temperature 0, on temperature, seed and index.
    """
    rng, style = _rng("answer", request, index), generator(0, request.model, "style")
    length, share, is_list = style.uniform(55, 140), style.uniform(0.3, 1.0), style.random() < 0.4
    if request.temperature > 0:
        length, share = length + rng.uniform(-12, 12), share * rng.uniform(0.6, 1.4)
    topic = _topic(request)
    words = cycle(rng.sample(topic, min(len(topic), max(2, round(share * len(topic))))))
    sentences: list[str] = []
    while sum(len(sentence.split()) for sentence in sentences) < length:
        sentences += _sentences(rng.sample(_SENTENCES, 3), words)
    return ("\n- " if is_list else " ").join(sentences)


def think(request: ChatRequest, index: int) -> str:
    """The thinking before the answer of choice `index`."""
    return _sentences([_rng("thought", request, index).choice(_SENTENCES)], iter(_topic(request)))[0]


def _sentences(templates: Sequence[str], words: Iterator[str]) -> list[str]:
    return [template.format(a=next(words), b=next(words)) for template in templates]


def _topic(request: ChatRequest) -> tuple[str, ...]:
    """The words of the last user message that has any."""
    for message in reversed(request.messages):
        if message.role == "user" and (found := salient_words(message.content)):
            return found if len(found) > 1 else (*found, *_FALLBACK)
    return _FALLBACK


def _rng(purpose: str, request: ChatRequest, index: int) -> Random:
    drawn = (request.temperature, request.seed, index) if request.temperature > 0 else ()
    return generator(0, repr((request.model, drawn, request.messages)), purpose)
