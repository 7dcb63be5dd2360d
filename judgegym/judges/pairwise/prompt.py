"""The prompts for a choice (the letter of the best of N answers) and for a rating (one answer from 1 to 10).

The layout is RewardBench-2's; the built-in instructions are a rewording. To compare with published numbers, replace
them by the published prompts, byte for byte. Texts under judgment are between markers that they cannot imitate
(`judgegym.judges.core.delimiters`).
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from judgegym.judges import prompts
from judgegym.judges.core.delimiters import Prompt, delimit
from judgegym.judges.core.lookalikes import Lookalikes
from judgegym.judges.core.shared_texts import NOTHING_SHARED, SharedTexts
from judgegym.llm.wire import Message

LETTERS = string.ascii_uppercase
FEWEST_CHOICES, MOST_CHOICES = 2, len(LETTERS)

_UNITS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_NUMBERS = (*_UNITS, *_TEENS, "twenty", *(f"twenty-{unit}" for unit in _UNITS[1:]))
_CHOICE_LOOKALIKES = Lookalikes("[user question", "[the start of assistant", "[the end of assistant")
_RATING_LOOKALIKES = Lookalikes("[query", "[response", "[your judgement")


def choice_prompt(
    question: str,
    answers: Sequence[str],
    *,
    system: str = "",
    system_prompt: str | None = None,
    shared: SharedTexts = NOTHING_SHARED,
) -> Prompt:
    """The prompt that asks for the best of N answers.

    Args:
        question: the user's prompt.
        answers: 2 to 26 of them, in the order of their letters.
        system: text before the system prompt.
        system_prompt: replaces the built-in system prompt.
        shared: further sections behind the question.

    Raises:
        ValueError: there are fewer than 2 or more than 26 answers.
    """
    if not FEWEST_CHOICES <= len(answers) <= MOST_CHOICES:
        raise ValueError(f"a choice is between {FEWEST_CHOICES} and {MOST_CHOICES} answers, not {len(answers)}")
    beside = [*shared.by_title.values()]
    delimited = delimit((question, *beside, *answers), _CHOICE_LOOKALIKES, shared=1 + len(beside))
    markers, (shown_question, *others) = delimited.markers, delimited.texts
    sections = [
        f"{markers.bracket('User Question')}\n{shown_question}",
        *shared.sections(lambda title: markers.bracket(shared_title(title)), others[: len(beside)]),
    ]
    for letter, answer in zip(LETTERS, others[len(beside) :], strict=False):
        start = markers.bracket(f"The Start of Assistant {letter}'s Answer")
        end = markers.bracket(f"The End of Assistant {letter}'s Answer")
        sections.append(f"{start}\n{answer}\n{end}")
    task = choice_instructions(len(answers)) if system_prompt is None else system_prompt
    instructions = "\n\n".join(part for part in (system, task) if part)
    messages = [
        Message(role="system", content=instructions),
        Message(role="user", content=markers.notice + shared.instructions + "\n\n".join(sections)),
    ]
    return Prompt(messages, delimited.suspects)


def shared_title(title: str) -> str:
    """The title of a section that all answers share, which is a lookalike in a text of another prompt, too."""
    return f"User Question: {title}"


def choice_instructions(count: int) -> str:
    """The built-in system prompt for this number of answers."""
    verdicts = [f'"[[{letter}]]" if assistant {letter} is best' for letter in LETTERS[:count]]
    listed = f"{', '.join(verdicts[:-1])}{',' if count > FEWEST_CHOICES else ''} and {verdicts[-1]}"
    return prompts.load("choice").replace("{number}", _NUMBERS[count]).replace("{verdicts}", listed)


def rating_prompt(question: str, answer: str, *, system: str = "", instructions: str | None = None) -> Prompt:
    """The prompt that asks for a rating of one answer: a user message, after the system message if there is one.

    Args:
        question: the user's prompt.
        answer: the answer.
        system: the system message; empty for none.
        instructions: replaces the built-in instructions.
    """
    delimited = delimit((question, answer), _RATING_LOOKALIKES, shared=1)
    markers, (shown_question, shown_answer) = delimited.markers, delimited.texts
    sections = [
        markers.notice + (prompts.load("rating") if instructions is None else instructions),
        f"{markers.bracket('Query')}\n{shown_question}",
        f"{markers.bracket('Response')}\n{shown_answer}",
        markers.bracket("Your judgement"),
    ]
    first = [Message(role="system", content=system)] if system else []
    return Prompt([*first, Message(role="user", content="\n\n".join(sections))], delimited.suspects)
