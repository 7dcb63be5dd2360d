"""The prompt and the responses of a row, whichever of the usual schemas it has.

Schemas, in this order where no column is named: `chosen` and `rejected` (TRL, UltraFeedback binarized, RewardBench …),
two responses to a prompt (HelpSteer3, JudgeBench), a response or a list of them beside a prompt (texts, messages, or
objects with the text: UltraFeedback's `completions`, Nectar's `answers`), a conversation that ends with the response
(messages, ShareGPT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgegym.data.preference_schemas import pair_of
from judgegym.data.prompts import CONVERSATIONS, RESPONSES, parts_of_prompt, whole_prompt
from judgegym.data.rows import Row, named_row, value_at
from judgegym.datasets.rows.prompts import (
    ColumnSettings,
    RowPrompt,
    Values,
    find_prompt,
    lacks_prompt,
    names,
    usual_prompt,
)
from judgegym.datasets.rows.unit import EarlierResponse
from judgegym.judges.core.turns import Turn, answer_text, transcript, turns_of
from judgegym.llm.wire import JSON

RESPONSES_OF_ROW = ("one response", "several responses")
"""What a row has, in words; the second if it has a list of responses."""
_PREFERENCE = ("chosen", "rejected")
_TWO = (("response1", "response2"), ("response_A", "response_B"), ("response_a", "response_b"))
_OF_OBJECT = ("response", "answer", "completion", "text", "content", "generation")
"""What the text of a response is called in an object that is no message."""
_NO_PROMPT = (
    "a prompt in prompt, question, instruction or another usual column, or a conversation in messages; or name its "
    "column: --prompt_column"
)
_NO_RESPONSE = (
    "a response to it in response, completion, answer or another usual column, a list in responses, or chosen and "
    "rejected; or name its column: --response_column; or ask a policy: --responses_per_prompt"
)


@dataclass(frozen=True, slots=True)
class Responses:
    """What a row has to judge.

    Attributes:
        prompt: the prompt as one text.
        texts: the responses; empty ones are kept.
        several: the row has a list of responses, if only of one.
        columns: the columns that were read, for a message.
        chosen: so many of the responses, the first ones, are preferred to the others; 0 without a preference.
        turns: the prompt as a conversation; empty where it is known as a text alone.
        earlier: the responses, where they are those of an earlier run.
        parts: the columns that belong to the prompt where a row has them.
    """

    prompt: str
    texts: tuple[str, ...]
    several: bool
    columns: tuple[str, ...]
    chosen: int = 0
    turns: tuple[Turn, ...] = ()
    earlier: tuple[EarlierResponse, ...] = ()
    parts: tuple[str, ...] = ()


def read_responses(row: Row, settings: ColumnSettings) -> Responses:
    """Read a row.

    Raises:
        DataError: it has no prompt or no response in the columns that are named, or in any of the usual ones.
    """
    with named_row(row):
        return _read(row, settings)


def _read(row: Row, settings: ColumnSettings) -> Responses:
    values = row.filled()
    if settings.response_column is not None:
        columns = names(settings.response_column)
        return _named(row, values, columns, find_prompt(row, values, settings, columns))
    if settings.prompt_column is None:
        for read in (_preferred, _two):
            found = read(values)
            if found is not None:
                return found
    column = next((name for name in RESPONSES if name in values and _answers(values[name]) is not None), None)
    prompt = None if column is None else find_prompt(row, values, settings, (column,))
    if column is not None and (settings.prompt_column is not None or prompt is not None):
        return _named(row, values, (column,), prompt)
    if settings.prompt_column is None:
        for name in CONVERSATIONS:
            found = _conversation(values, name)
            if found is not None:
                return found
    unread = [f"{name} holds {_kind(values[name])}" for name in RESPONSES if name in values and column is None]
    raise row.lacks(_what_is_missing(row, values, settings) + (f" (here {', '.join(unread)})" if unread else ""))


def _what_is_missing(row: Row, values: Values, settings: ColumnSettings) -> str:
    """What a row should have that has no prompt, or a prompt alone."""
    prompt = find_prompt(row, values, settings, ())
    return _NO_PROMPT if prompt is None else f"beside the prompt in {', '.join(prompt.columns)} {_NO_RESPONSE}"


def _named(row: Row, values: Values, columns: Sequence[str], prompt: RowPrompt | None) -> Responses:
    """The responses in columns of one text each, or in one column with a list."""
    found = [_answers(value_at(values, column)) for column in columns]
    for column, answers in zip(columns, found, strict=True):
        if answers is None:
            what = _kind(value_at(values, column))
            wanted = f"a response (a text or messages), or a list of them, in {column}, which holds {what}"
            raise row.lacks(wanted, column)
        if len(columns) > 1 and answers[1]:
            raise row.error(f"expected one response in {column}, since --response_column names several", column)
    if prompt is None:
        raise lacks_prompt(row)
    texts = tuple(text for answers in found if answers is not None for text in answers[0])
    several = len(columns) > 1 or any(answers is not None and answers[1] for answers in found)
    chosen = 1 if tuple(columns) == _PREFERENCE else 0
    read = (*prompt.columns, *columns)
    return Responses(prompt.text, texts, several, read, chosen, prompt.turns, parts=prompt.parts)


def _answers(value: JSON) -> tuple[tuple[str, ...], bool] | None:
    """The responses of a value, and whether it is a list of them; `None` if it holds none."""
    one = _answer(value)
    if one is not None:
        return (one,), False
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return None
    texts = tuple(text for text in map(_answer, value) if text is not None)
    return (texts, True) if len(texts) == len(value) else None


def _kind(value: JSON) -> str:
    """What a value is, for the message that it is no response."""
    if value is None:
        return "nothing"
    if not isinstance(value, list | tuple):
        return f"a value of type {type(value).__name__}"
    place, wrong = next(((n, each) for n, each in enumerate(value, start=1) if _answer(each) is None), (0, None))
    return f"a list whose entry {place} is {_kind(wrong)}" if place else "an empty list"


def _answer(value: JSON) -> str | None:
    """A text, messages as one text, or the text of an object; `None` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        text = next((value[key] for key in _OF_OBJECT if isinstance(value.get(key), str)), None)
        if isinstance(text, str) and not {"role", "from"} & value.keys():
            return text
    turns = turns_of(value)
    return answer_text(turns) if turns else None


def _preferred(values: Values) -> Responses | None:
    """`chosen` and `rejected`, in this order."""
    if not all(column in values for column in _PREFERENCE):
        return None
    found = pair_of(values)
    if found is None or isinstance(found, str):
        return None
    columns = tuple(column for column in ("prompt", *_PREFERENCE) if column in values)
    return Responses(found.prompt, (*found.correct, *found.wrong), True, columns, len(found.correct))


def _two(values: Values) -> Responses | None:
    """Two responses in columns of their own."""
    for first, second in _TWO:
        if first in values and isinstance(values[first], str) and isinstance(values.get(second), str):
            prompt = usual_prompt(values, ())
            if prompt is not None:
                texts, columns = (str(values[first]), str(values[second])), (*prompt.columns, first, second)
                return Responses(prompt.text, texts, True, columns, turns=prompt.turns, parts=prompt.parts)
    return None


def _conversation(values: Values, column: str) -> Responses | None:
    """A conversation whose last turn is the response."""
    turns = turns_of(values.get(column))
    if turns is None or len(turns) < 2 or turns[-1].role != "assistant":
        return None
    asked, parts = whole_prompt(values, column, turns[:-1]), parts_of_prompt(column, turns)
    return Responses(transcript(asked), (turns[-1].shown,), False, (column,), turns=asked, parts=parts)
