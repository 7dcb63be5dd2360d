"""What the stand-in answers: a pure function of the request and the choice index."""

import re

from judges.offline.formats import FORMATS, judged_by
from judges.offline.policy import think, write
from judges.offline.request import ChatRequest, system_text
from judges.offline.rng import Dice, unit

_PIECE = re.compile(r"\w+|[^\w\s]")
_NOISE = ("brindle", "costrav", "dimmel", "fennow", "gralt", "hosket", "lumber", "morrow", "pintle", "quorish")


def answer(request: ChatRequest, index: int = 0) -> str:
    """The full text of choice `index`: a judge's reply when a format recognises its prompt, else a policy's answer.

    When a system message asks for `<think>` tags, the text begins with one closed block of thinking.
    """
    judge = next((known for known in FORMATS if known.matches(request.messages)), None)
    # The samples of one request differ, as a policy's do that is trained as a judge, and so do a judge's votes, which
    # are requests of their own with the seeds 0, 1, 2 …; the first of either is the considered one.
    strays = request.temperature > 0 and (index > 0 or request.seed not in (None, 0))
    doubt = unit(f"doubt\0{request.digest}\0{index}") if strays else 0.0
    text = write(request, index) if judge is None else judged_by(judge, request.model).reply(request.messages, doubt)
    if "<think>" in system_text(request.messages):
        return f"<think>\n{think(request, index)}\n</think>\n\n{text}"
    return text


def noise(request: ChatRequest, index: int = 0) -> str:
    """Senseless lower-case words for choice `index`: no verdict, digit, bracket, quotation mark or single letter."""
    dice = Dice(f"noise\0{request.digest}\0{index}".encode())
    return " ".join(dice.pick(_NOISE) for _ in range(12))


def cut(text: str, max_tokens: int | None) -> tuple[str, int, bool]:
    """The text within `max_tokens`, how many tokens that is, and whether something was cut off.

    A token is a word or a punctuation mark.
    """
    count, end = 0, 0
    for piece in _PIECE.finditer(text):
        if count == max_tokens:
            return text[:end], count, True
        count, end = count + 1, piece.end()
    return text, count, False
