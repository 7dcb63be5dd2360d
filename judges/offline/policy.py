"""The stand-in as policy: a text about the prompt, made of the prompt's own words."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from judges.offline.lexical import salient_words
from judges.offline.request import ChatRequest, Message
from judges.offline.rng import Dice

_FALLBACK = ("question", "answer", "example", "reason", "purpose", "result")
_OPENINGS = (
    "The short answer turns on {a} and {b}.",
    "It helps to begin with {a}, because {b} follows from it.",
    "Two things matter most here: {a} and {b}.",
    "Any good account of {a} has to say something about {b}.",
    "Here is one way to think about {a} together with {b}.",
)
_SENTENCES = (
    "The role of {a} becomes clear once {b} is taken into account.",
    "In practice, {a} depends on how carefully {b} is handled.",
    "A simple example shows {a} at work while {b} stays fixed.",
    "Most difficulties with {a} come from a vague idea of {b}.",
    "Compare {a} with {b}, and the difference is easy to see.",
    "First settle what {a} means, then check it against {b}.",
    "Without {a} there would be little reason to look at {b}.",
    "It is worth testing {a} early, since {b} is costly to change later.",
    "Some would put {b} first, yet {a} usually decides the matter.",
    "The evidence for {a} is stronger than the evidence for {b}.",
    "When {a} changes, {b} tends to change with it, though more slowly.",
    "A careful reader will notice that {a} sets a limit on {b}.",
    "There is a trade-off between {a} and {b}, and both sides have merit.",
    "Think of {a} as the cause and of {b} as what can be observed.",
)
_CLOSINGS = (
    "In sum, keep {a} in view and let {b} follow.",
    "Taken together, {a} and {b} give a workable answer.",
    "That is why {a} deserves more attention than {b}.",
    "With {a} settled, the rest, including {b}, is a matter of detail.",
)
_ITEMS = (
    "Start from {a} and note how it bears on {b}.",
    "Check {a} before relying on {b}.",
    "Explain {a} in plain terms, with {b} as the example.",
    "Weigh {a} against {b}.",
    "Keep {a} apart from {b} as long as possible.",
)
_THOUGHTS = (
    "The prompt is about {a}. I should cover {b} as well and keep to what was asked.",
    "What is asked here? Mainly {a}, and then {b}. A direct answer will do.",
    "I will say something about {a} first, then connect it with {b}.",
)


@dataclass(frozen=True, slots=True)
class Style:
    """How a model writes: words in the answer, a list or prose, and the share of the prompt's words it takes up."""

    length: float
    lists: bool
    share: float


def style(model: str) -> Style:
    """The style of a model, by its name alone."""
    dice = Dice(b"style\0" + model.encode("utf-8", "surrogatepass"))
    return Style(length=dice.between(55, 140), lists=dice.unit() < 0.4, share=dice.between(0.3, 1.0))


def write(request: ChatRequest, index: int) -> str:
    """An answer of 40 to 190 words for choice `index`, without thinking tags.

    At temperature 0 it depends on the messages and the model; above 0 on temperature, seed and index as well.
    """
    dice = _dice("answer", request, index)
    base = style(request.model)
    loose = request.temperature > 0
    length = base.length + (dice.between(-12, 12) if loose else 0)
    share = min(1.0, base.share * (dice.between(0.6, 1.4) if loose else 1))
    subjects = _Subjects(_topic(request.messages), share, dice)
    blocks = [subjects.fill(_OPENINGS)]
    while _size(blocks) < length - 12:
        block = _list(subjects, dice) if base.lists and len(blocks) == 1 else _paragraph(subjects, dice)
        blocks.append(block)
    return "\n\n".join([*blocks, subjects.fill(_CLOSINGS)])


def think(request: ChatRequest, index: int) -> str:
    """One or two sentences of thinking that go before the answer of choice `index`."""
    dice = _dice("thought", request, index)
    return _Subjects(_topic(request.messages), 1.0, dice).fill(_THOUGHTS)


class _Subjects:
    """Fills sentence templates with words of the prompt: each word in turn, each template before any comes again."""

    def __init__(self, topic: Sequence[str], share: float, dice: Dice) -> None:
        kept = dice.shuffled(topic)[: max(2, round(share * len(topic)))]
        self._words = kept if len(kept) >= 2 else [*kept, *_FALLBACK]
        self._next = 0
        self._dice = dice
        self._decks: dict[tuple[str, ...], list[str]] = {}

    def fill(self, templates: tuple[str, ...]) -> str:
        deck = self._decks.get(templates)
        if not deck:
            deck = self._decks[templates] = self._dice.shuffled(templates)
        return deck.pop().format(a=self._word(), b=self._word())

    def _word(self) -> str:
        self._next += 1
        return self._words[(self._next - 1) % len(self._words)]


def _paragraph(subjects: _Subjects, dice: Dice) -> str:
    return " ".join(subjects.fill(_SENTENCES) for _ in range(dice.pick((2, 3))))


def _list(subjects: _Subjects, dice: Dice) -> str:
    return "\n".join(f"- {subjects.fill(_ITEMS)}" for _ in range(dice.pick((3, 4))))


def _size(blocks: Sequence[str]) -> int:
    return sum(len(block.split()) for block in blocks)


def _topic(messages: Sequence[Message]) -> tuple[str, ...]:
    """The words of the last user message that has any."""
    for message in reversed(messages):
        if message.role == "user" and (found := salient_words(message.content)):
            return found
    return ()


def _dice(purpose: str, request: ChatRequest, index: int) -> Dice:
    drawn = (request.temperature, request.seed, index) if request.temperature > 0 else ()
    messages = [(message.role, message.content) for message in request.messages]
    return Dice(orjson.dumps((purpose, request.model, drawn, messages)))
