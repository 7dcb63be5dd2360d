"""The answers of the stand-in, a function of the request and the known prompts only."""

from collections.abc import Sequence
from itertools import islice

from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.sections import marker_lines
from judgegym.judges.core.seeding import generator
from judgegym.offline.judge import judge_reply
from judgegym.offline.known import BUILT_IN
from judgegym.offline.policy import think, write
from judgegym.offline.protocol.request import BadRequest, ChatRequest, system_text
from judgegym.offline.reader import read_prompt

_NOISE = ("brindle", "costrav", "dimmel", "fennow", "gralt", "hosket", "lumber", "morrow", "pintle", "quorish")


def answers(request: ChatRequest, prompts: Sequence[PromptFormat] = BUILT_IN, *, judge_only: bool = False) -> list[str]:
    """The full texts of all choices: a judge's replies to a known prompt, else a policy's answers.

    If a system message asks for `<think>` tags, each text begins with one closed block of thinking.

    Raises:
        BadRequest: the prompt is not known, and `judge_only` is set.
    """
    reading = read_prompt(request.asked, prompts)
    if reading is None and judge_only:
        lines = islice(marker_lines(request.messages[-1].content), 8)
        titles = ", ".join(repr(line.text) for line in lines) or "none"
        raise BadRequest(
            "the offline judge does not know this prompt: no judge's sections are in it. Declare a PromptFormat beside "
            "the prompt, and name it in offline_prompts of the environment or with `judgegym offline-server "
            f"--prompt FILE.py:NAME`. Possible section titles in the last message: {titles}"
        )
    thinks = "<think>" in system_text(request.messages)
    texts = []
    for index in range(request.n):
        text = write(request, index) if reading is None else judge_reply(reading, request, index)
        texts.append(f"<think>\n{think(request, index)}\n</think>\n\n{text}" if thinks else text)
    return texts


def noise(request: ChatRequest, index: int = 0) -> str:
    """Random lower-case words for choice `index`, without verdict, digit, bracket, quotation mark or single letter."""
    return " ".join(generator(index, request.digest, "noise").choices(_NOISE, k=12))
