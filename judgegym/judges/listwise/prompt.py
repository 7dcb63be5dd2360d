"""Prompt of one listwise call, the judge's settings, and scores on one scale.

The prompt has what all answers share first, then each answer between markers with its id.

Guarantees of the prompt: no text can imitate a marker (`judgegym.judges.core.delimiters`), and no
id of the call occurs in any of its texts, in any case. An id says nothing about its answer or the
order. Only the request follows the last answer.

The scores of several chunks are brought onto one scale by the answer that all of them share.
Guarantees: two answers of one chunk never change their order, and equal ones stay equal. The scores
are from 0 to 1. The scores of a single chunk are what the judge gave.

In the stand-in reply for offline runs, equal merits have equal scores in any place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from random import Random

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import ReaskSettings
from judgegym.judges.core.delimiters import Lookalikes, Prompt, delimit
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt
from judgegym.judges.core.tasks import JudgeTask

TITLES: Mapping[str, str] = {
    "criteria": "Criteria for all answers",
    "prompt": "Question",
    "context": "Context",
    "reference": "Reference",
    "beginning": "Beginning of all answers",
}
"""Of the sections that all answers share; the ids and orders of a group are seeded with them."""
_TEMPLATE = MessageTemplate(
    (
        *(f"[{title}{{tag}}]\n{{{name}}}" for name, title in TITLES.items()),
        "[Start of answer {id}{tag}]\n{{id}}\n[End of answer {id}{tag}]",
        "[Your task{tag}]\n" + prompts.load("listwise_task"),
    ),
    Lookalikes(
        *("[criteria", "[question", "[context", "[reference", "[beginning of all answers"),
        *("[start of answer", "[end of answer", "[your task"),
    ),
)
DEFAULT_CRITERIA = prompts.load("listwise_criteria")
"""What makes an answer good where a task has no rubric."""

_LETTERS = "ghjkmnpqrtvwxz"
"""No vowels, so that no id is a word; and none of the digits of a tag."""
_LENGTH = 5
_RUN = re.compile(f"[{_LETTERS}]{{{_LENGTH},}}")
_DRAWS_OF_A_LENGTH = 8
"""After this many refused draws ids get one letter more: long texts can hold every short id."""


def draw_ids(rng: Random, count: int, texts: Collection[str]) -> list[str]:
    """Draw distinct random ids that occur in none of the texts.

    Ids get longer if a text holds very many short ones.
    """
    # An id can occur only in a run of its letters; such runs are rare.
    found_runs = (_RUN.findall(text.casefold()) for text in texts)
    runs = " ".join(chain.from_iterable(found_runs))
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
    """Return the texts that all answers share, by placeholder, in the order of the prompt.

    Args:
        task: the prompt and its context; its responses and baseline are not used.
        beginning: the turns with which all answers begin; they are not repeated in each answer.
    """
    texts = {
        "criteria": task.rubric or DEFAULT_CRITERIA,
        "prompt": task.prompt,
        "context": task.context,
        "reference": task.reference,
        "beginning": beginning.strip() or None,
    }
    return {name: text for name, text in texts.items() if text is not None}


def listwise_prompt(
    shared: Mapping[str, str], answers: Mapping[str, str], *, system_prompt: str | None = None
) -> Prompt:
    """Return the prompt that asks for the scores of the answers.

    Args:
        shared: the texts that the answers share (`shared_texts`).
        answers: the answers by their ids (`draw_ids`), in the order shown.
        system_prompt: replaces the built-in instructions; the request is repeated at the end.
    """
    system = system_prompt
    if system is None:
        system = prompts.load("listwise")
    return _TEMPLATE.fill(
        shared, answers, ids=[*answers], wording=_request_words([*answers]), system=system
    )


def repair_request(ids: Sequence[str], fault: str) -> str:
    """Return the request to a judge whose scores cannot be used.

    `fault` says why the reply is repaired; its tokens are broken up.
    """
    return prompts.fill(prompts.load("listwise_reask"), {**_request_words(ids), "fault": fault})


def count_suspects(shared: Mapping[str, str], answer: str) -> int:
    """Count the suspects that an answer's score depends on: in the shared texts and the answer."""
    return delimit((*shared.values(), answer), _TEMPLATE.lookalikes).suspects


def answer_section(text: str) -> str:
    """Render an answer as a prompt shows it, to count its tokens.

    Ids and tags have their full length.
    """
    (shown,) = delimit((text,), _TEMPLATE.lookalikes).texts
    title = f"answer {'g' * _LENGTH} {'0' * 12}"
    return f"[Start of {title}]\n{shown}\n[End of {title}]\n\n, {'g' * _LENGTH}"


def _request_words(ids: Sequence[str]) -> dict[str, str]:
    return {"count": str(len(ids)), "ids": ", ".join(ids)}


class ListwiseJudgeSettings(ReaskSettings):
    """Settings of the listwise judge."""

    listwise_orders: int = setting(1, ge=1, le=2)
    """Show the answers of a group in this many orders, one call each. 2: also in the reverse order;
    the scores are averaged, so that a preference for early or late answers cancels out."""
    judge_max_input_tokens: int | None = setting(None, ge=256)
    """Split a group whose prompt has more tokens than this into several calls. They share one
    answer, which puts their scores on one scale. If unset, a group is one call for each order."""

    def built_in_prompt(self) -> str:
        """Return the instructions."""
        return prompts.load("listwise")


def merge_scales(chunks: Sequence[Mapping[str, float]], link: str | None) -> dict[str, float]:
    """Merge the scores of chunks onto one scale.

    A chunk is shifted so that the shared text has the mean of its scores. If scores are then below
    0 or above 1, all are rescaled linearly, as little as needed: clipping would make unequal
    answers equal.

    Args:
        chunks: the scores of each chunk, by text.
        link: the text that every chunk has; required if there are several chunks.
    """
    if not chunks:
        return {}
    if link is None:
        (only,) = chunks
        return dict(only)
    level = sum(scores[link] for scores in chunks) / len(chunks)
    shifted: dict[str, float] = {}
    for scores in chunks:
        link_score = scores[link]
        # Without a shift the scores stay bitwise equal.
        for text, score in scores.items():
            shifted[text] = score
            if link_score != level:
                shifted[text] = level + (score - link_score)
    shifted[link] = level
    low, high = min(0.0, *shifted.values()), max(1.0, *shifted.values())
    return {text: (score - low) / (high - low) for text, score in shifted.items()}


def _draft_reply(shown: StandInPrompt) -> str:
    scores = [
        {
            "id": title.removeprefix("Start of answer").strip(),
            "explanation": "By its words, the answer covers a part of the question.",
            "score": round(merit, 2),
        }
        for title, merit in shown.merits.items()
    ]
    count, dumped = len(scores), json.dumps({"scores": scores})
    return f"I compared the {count} answers by their words.\n\n{dumped}"


LISTWISE_PROMPT = PromptFormat(
    sections=("Criteria for all answers", "Question", "Your task"),
    optional=("Context", "Reference", "Beginning of all answers"),
    with_id=("Start of answer", "End of answer"),
    judged=("Start of answer",),
    question="Question",
    references=("Reference",),
    reply=_draft_reply,
)
