"""The schemas of preference data, recognised by the values in a row and not by a dataset's name.

Each schema has a reader that returns a draft, the reason why the row has no preference, or `None` for another schema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, TypeAlias

from judgegym.data.rows import Row
from judgegym.judges.core.turns import Turn, answer_text, text_turn, transcript, turns_of, turns_of_transcript
from judgegym.llm.wire import JSON

Reason = Literal[
    "equal scores", "no preference", "no shared prompt", "empty text", "identical texts", "a part that is no text"
]
"""Why a row is left out."""

_Values: TypeAlias = Mapping[str, JSON]
_Turns: TypeAlias = tuple[Turn, ...]
_EXPECTED = (
    "a preference: chosen and rejected (texts, lists of texts or messages) with a prompt, alone or at the beginning of "
    "both; or context, response1, response2 and overall_preference from -3 to 3; or prompt and answers with answer and "
    "rank; or question, response_A, response_B and label"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """The texts of a row as its schema names them, before they are checked."""

    prompt: str
    correct: tuple[str, ...]
    wrong: tuple[str, ...]


def recognise(row: Row) -> Draft | Reason:
    """The draft of a row of any known schema, or the reason why the row has no preference.

    A null column counts as absent.

    Raises:
        DataError: the row has none of the schemas; the message names file, row and columns.
        UnseenPart: a message has a part that no judge is shown, such as an image.
    """
    values = row.filled()
    for read in (_ranked, _graded, _labelled, _pair):
        draft = read(values)
        if draft is not None:
            return draft
    null = [column for column in row.values if column not in values]
    raise row.lacks(_EXPECTED + (f" (null here: {', '.join(null)})" if null else ""))


def _ranked(values: _Values) -> Draft | Reason | None:
    """Nectar: `prompt`, and `answers` with `answer` and `rank`; the lowest rank is the best."""
    prompt, answers = turns_of_prompt(values.get("prompt")), values.get("answers")
    if prompt is None or isinstance(answers, str) or not isinstance(answers, Sequence):
        return None
    ranked: list[tuple[float, str]] = []
    for answer in answers:
        if not isinstance(answer, Mapping):
            return None
        text, rank = answer.get("answer"), _number(answer.get("rank"))
        if not isinstance(text, str) or rank is None:
            return None
        ranked.append((rank, text))
    if not ranked:
        return "empty text"
    best = min(rank for rank, _ in ranked)
    wrong = tuple(text for rank, text in ranked if rank > best)
    correct = tuple(text for rank, text in ranked if rank == best)
    return Draft(transcript(prompt), correct, wrong) if wrong else "equal scores"


def _graded(values: _Values) -> Draft | Reason | None:
    """HelpSteer3: `context`, two responses and a preference, which is negative if the first is better."""
    prompt = turns_of_prompt(values.get("context", values.get("prompt")))
    first, second, grade = values.get("response1"), values.get("response2"), _number(values.get("overall_preference"))
    if prompt is None or grade is None or not isinstance(first, str) or not isinstance(second, str):
        return None
    if abs(grade) > 3:  # another scale, perhaps in the other direction: reading it would silently swap the labels
        return None
    if grade == 0:
        return "no preference"
    better, worse = (first, second) if grade < 0 else (second, first)
    return Draft(transcript(prompt), (better,), (worse,))


def _labelled(values: _Values) -> Draft | Reason | None:
    """JudgeBench: `question`, two responses and a label."""
    prompt, label = turns_of_prompt(values.get("question")), values.get("label")
    a, b = values.get("response_A"), values.get("response_B")
    if prompt is None or not (isinstance(a, str) and isinstance(b, str) and isinstance(label, str)):
        return None
    if label.strip() not in ("A>B", "B>A"):
        return "no preference"
    better, worse = (a, b) if label.strip() == "A>B" else (b, a)
    return Draft(transcript(prompt), (better,), (worse,))


def _pair(values: _Values) -> Draft | Reason | None:
    """`chosen` and `rejected`: TRL, UltraFeedback, Skywork, RewardBench 1 and 2, RM-Bench."""
    draft = pair_of(values)
    scores = _number(values.get("score_chosen")), _number(values.get("score_rejected"))
    return "equal scores" if draft is not None and scores[0] is not None and scores[0] == scores[1] else draft


def pair_of(values: _Values) -> Draft | Reason | None:
    """The draft of `chosen` and `rejected`, whatever scores they have; the null columns are left out of `values`."""
    chosen, rejected = values.get("chosen"), values.get("rejected")
    return _pair_of_texts(values, chosen, rejected) or _pair_of_conversations(values, chosen, rejected)


def _pair_of_texts(values: _Values, chosen: JSON, rejected: JSON) -> Draft | Reason | None:
    prompt, correct, wrong = turns_of_prompt(values.get("prompt")), _texts(chosen), _texts(rejected)
    if () in (correct, wrong):
        return "empty text"
    if prompt is None or correct is None or wrong is None:
        return None
    return Draft(transcript(prompt), correct, wrong)


def _pair_of_conversations(values: _Values, chosen: JSON, rejected: JSON) -> Draft | Reason | None:
    """Two conversations: their common beginning is the prompt, after the explicit prompt unless they repeat that."""
    better, worse = _conversation(chosen), _conversation(rejected)
    if better is None or worse is None:
        return None
    context, answered_after = _context(values, better, worse)
    if all(turn.role in ("assistant", "system") for turn in context):
        asked = any(turn.role != "assistant" for turn in better + worse)
        return "no shared prompt" if asked else None
    return Draft(transcript(context), (answer_text(better[answered_after:]),), (answer_text(worse[answered_after:]),))


def _context(values: _Values, better: _Turns, worse: _Turns) -> tuple[_Turns, int]:
    """The prompt of two conversations, and after how many of their turns the answers begin."""
    # The last turn is an answer even if it is the same in both.
    pairs = list(zip(better[:-1], worse[:-1], strict=False))
    shared = better[: len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))]
    explicit = values.get("prompt")
    prompt = turns_of_prompt(explicit) or ()
    # If the prompt is a text, conversations that begin with a question or a system message contain it in other form.
    repeated = better[0].role != "assistant" if isinstance(explicit, str) else better[: len(prompt)] == prompt
    return shared if repeated else prompt + shared, len(shared)


def prompt_of_pair(values: _Values) -> tuple[Turn, ...] | None:
    """The turns before the answers of `chosen` and `rejected`; `None` without a prompt that both have."""
    chosen, rejected = values.get("chosen"), values.get("rejected")
    prompt = turns_of_prompt(values.get("prompt"))
    if prompt is not None and _texts(chosen) is not None and _texts(rejected) is not None:
        return prompt
    better, worse = _conversation(chosen), _conversation(rejected)
    return _context(values, better, worse)[0] or None if better and worse else None


def turns_of_prompt(value: JSON) -> tuple[Turn, ...] | None:
    """The turns of a prompt: messages, a transcript up to the answer, or the text of one turn."""
    if not isinstance(value, str):
        return turns_of(value)
    spoken = turns_of_transcript(value) if value.rstrip().endswith("Assistant:") else None
    return spoken or (text_turn("user", value),)


def _conversation(value: JSON) -> tuple[Turn, ...] | None:
    return turns_of_transcript(value) if isinstance(value, str) else turns_of(value)


def _texts(value: JSON) -> tuple[str, ...] | None:
    """One text or a list of texts; `None` for anything else."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence):
        return None
    texts = tuple(text for text in value if isinstance(text, str))
    return texts if len(texts) == len(value) else None


def _number(value: JSON) -> float | None:
    """A finite number, or the text of one, as in CSV files; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
