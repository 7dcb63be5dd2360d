"""The prompt of one call: what all answers share first, then each answer between markers that carry its id.

Guarantees: no text can imitate a marker (`judgegym.judges.core.delimiters`), and no id of the call occurs in any of its
texts, in any case; an id says nothing of its answer or of the order. Behind the last answer stands only what is asked
for.

The settings of the listwise judge.

Brings the scores of several chunks onto one scale, by the answer that all of them share.

Guarantees: two answers of one chunk never change their order, nor do equal ones part; the scores are from 0 to 1; of
a single chunk they are what the judge gave.

A plausible reply of the listwise judge, for the offline stand-in: equal merits have equal scores in any place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from random import Random

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import ReaskSettings
from judgegym.judges.core.delimiters import Delimiters, Lookalikes, Prompt, delimit
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.core.tasks import JudgeTask

CRITERIA = "Criteria for all answers"
QUESTION, CONTEXT, REFERENCE, TASK = "Question", "Context", "Reference", "Your task"
BEGINNING = "Beginning of all answers"
START, END = "Start of answer", "End of answer"
"""Titles of the sections; the last two are followed by an id."""
DEFAULT_CRITERIA = prompts.load("listwise_criteria")
"""What makes an answer good where a task has no rubric."""

_LETTERS = "ghjkmnpqrtvwxz"
"""No vowels, so that no id is a word; and none of the digits of a tag."""
_LENGTH = 5
_RUN = re.compile(f"[{_LETTERS}]{{{_LENGTH},}}")
_DRAWS_OF_A_LENGTH = 8
"""So many refused draws make the ids one letter longer: half a megabyte of text can hold every id of five letters."""
_LOOKALIKES = Lookalikes(
    *("[criteria", "[question", "[context", "[reference", "[beginning of all answers"),
    *("[start of answer", "[end of answer", "[your task"),
)


def draw_ids(rng: Random, count: int, texts: Collection[str]) -> list[str]:
    """Distinct random ids that occur in none of the texts; longer ones where a text holds very many short ones."""
    # An id can occur only where so many of its letters stand together, which they hardly ever do.
    runs = " ".join(run for text in texts for run in _RUN.findall(text.casefold()))
    ids: list[str] = []
    refused = 0
    while len(ids) < count:
        drawn = "".join(rng.choices(_LETTERS, k=_LENGTH + refused // _DRAWS_OF_A_LENGTH))
        if drawn not in ids and drawn not in runs:
            ids.append(drawn)
        else:
            refused += 1
    return ids


def shared_texts(task: JudgeTask, beginning: str = "") -> dict[str, str]:
    """What all answers of a task share, by the title of its section, in the order of the prompt.

    Args:
        task: the prompt and what belongs to it; its responses and baseline are not looked at.
        beginning: the turns with which all answers begin, which are then not shown in each.
    """
    given = {
        CRITERIA: task.rubric or DEFAULT_CRITERIA,
        QUESTION: task.prompt,
        CONTEXT: task.context,
        REFERENCE: task.reference,
        BEGINNING: beginning.strip() or None,
    }
    return {title: text for title, text in given.items() if text is not None}


def listwise_prompt(
    shared: Mapping[str, str], answers: Mapping[str, str], *, system_prompt: str | None = None
) -> Prompt:
    """The prompt that asks for the scores of some answers.

    Args:
        shared: what the answers share (`shared_texts`).
        answers: the answers by their ids (`draw_ids`), in the order in which they are shown.
        system_prompt: replaces the built-in instructions; what is asked for is said at the end, too.
    """
    delimited = delimit((*shared.values(), *answers.values()), _LOOKALIKES, shared=len(shared))
    markers, texts = delimited.markers, delimited.texts
    sections = [f"{markers.bracket(title)}\n{text}" for title, text in zip(shared, texts, strict=False)]
    sections += [
        f"{markers.bracket(f'{START} {name}')}\n{text}\n{markers.bracket(f'{END} {name}')}"
        for name, text in zip(answers, texts[len(shared) :], strict=True)
    ]
    sections.append(f"{markers.bracket(TASK)}\n{_filled('listwise_task', [*answers])}")
    system = prompts.load("listwise") if system_prompt is None else system_prompt
    return Prompt.of(system, markers.notice + "\n\n".join(sections), delimited.suspects)


def repair_request(ids: Sequence[str], fault: str) -> str:
    """What a judge is asked whose scores cannot be used; `fault` says why, with its tokens broken up."""
    return _filled("listwise_reask", ids, fault=fault)


def suspects_of(shared: Mapping[str, str], answer: str) -> int:
    """How many suspects there are in what an answer's score is based on: the shared texts and the answer itself."""
    return delimit((*shared.values(), answer), _LOOKALIKES).suspects


def answer_section(text: str) -> str:
    """An answer as a prompt shows it, with ids and tags as long as any, to count its tokens."""
    (shown,) = delimit((text,), _LOOKALIKES).texts
    markers, name = Delimiters("0" * 12), "g" * _LENGTH
    return f"{markers.bracket(f'{START} {name}')}\n{shown}\n{markers.bracket(f'{END} {name}')}\n\n, {name}"


def _filled(template: str, ids: Sequence[str], fault: str = "") -> str:
    return prompts.fill(prompts.load(template), {"{count}": str(len(ids)), "{ids}": ", ".join(ids), "{fault}": fault})


class ListwiseJudgeSettings(ReaskSettings):
    """How the answers of a group are scored in one call."""

    listwise_orders: int = setting(1, ge=1, le=2)
    """Show the answers of a group in this many orders, one call each. 2: also in the reverse order; the scores are
    averaged, so that a preference for early or late answers cancels out."""
    judge_max_input_tokens: int | None = setting(None, ge=256)
    """Split a group whose prompt has more tokens than this into several calls that share one answer, by which their
    scores are brought together. If unset, a group is one call for each order."""

    def built_in_prompt(self) -> str:
        """The instructions."""
        return prompts.load("listwise")


def one_scale(chunks: Sequence[Mapping[str, float]], link: str | None) -> dict[str, float]:
    """The scores of all texts.

    A chunk is shifted so that the shared text has the mean of its scores. If scores are then below 0 or above 1, all of
    them are moved together linearly, as far as it takes: cutting them off would make equals of unequal answers.

    Args:
        chunks: the scores of each chunk, by text.
        link: the text that every chunk has; needed if there are several.
    """
    if not chunks:
        return {}
    if link is None:
        (only,) = chunks
        return dict(only)
    level = sum(scores[link] for scores in chunks) / len(chunks)
    shifted: dict[str, float] = {}
    for scores in chunks:
        own = scores[link]
        # Without a shift the scores stay as they are, to the last bit.
        shifted.update({text: score if own == level else level + (score - own) for text, score in scores.items()})
    shifted[link] = level
    low, high = min(0.0, *shifted.values()), max(1.0, *shifted.values())
    return {text: (score - low) / (high - low) for text, score in shifted.items()}


def _reply(shown: ShownPrompt) -> str:
    scores = [
        {
            "id": title.removeprefix(START).strip(),
            "explanation": "By its words, the answer covers a part of the question.",
            "score": round(merit, 2),
        }
        for title, merit in shown.merits.items()
    ]
    return f"I compared the {len(scores)} answers by their words.\n\n{json.dumps({'scores': scores})}"


LISTWISE_PROMPT = PromptFormat(
    sections=(CRITERIA, QUESTION, TASK),
    optional=(CONTEXT, REFERENCE, BEGINNING),
    with_id=(START, END),
    judged=(START,),
    question=QUESTION,
    references=(REFERENCE,),
    reply=_reply,
)
