"""Find the prompt and the responses of a row in any of the usual schemas.

If no column is named, the schemas are tried in this order: `chosen` and `rejected` (TRL,
UltraFeedback binarized, RewardBench …); two responses to a prompt (HelpSteer3, JudgeBench); a
response or a list of them beside a prompt (texts, messages, or objects with the text:
UltraFeedback's `completions`, Nectar's `answers`); a conversation that ends with the response
(messages, ShareGPT). The prompt is one text for a judge, and turns for a policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, TypeAlias

from pydantic import BaseModel

from judgegym.data.answers import (
    CONVERSATIONS,
    PROMPTS,
    RESPONSES,
    build_prompt,
    list_prompt_columns,
    strip_answer,
)
from judgegym.data.pairs import draft_pair, parse_prompt_turns, split_pair_turns
from judgegym.data.rows import Row, name_row_in_errors, value_at
from judgegym.datasets.rows.task import JudgedResponse
from judgegym.judges.config.fields import setting
from judgegym.judges.conversations.images import IMAGES, insert_images, show_images
from judgegym.judges.conversations.messages import parse_turns
from judgegym.judges.conversations.readers import add_tools, parse_trace, split_trace
from judgegym.judges.conversations.tools import Tool, parse_tools
from judgegym.judges.conversations.turns import (
    Turn,
    UnseenPart,
    completion_text,
    list_images,
    render_transcript,
    text_turn,
)
from judgegym.llm.wire import JSON

_JOINED = "; several columns, separated by commas, are joined by blank lines"
RESPONSES_OF_ROW = ("one response", "several responses")
"""Names of the two forms of a row, for messages; the second has a list of responses."""
_PREFERENCE = ("chosen", "rejected")
_RESPONSE_PAIRS = (
    ("response1", "response2"),
    ("response_A", "response_B"),
    ("response_a", "response_b"),
)
_TOOLS = "tools"
_LOGS = ("responses_create_params", "nodes")
"""Columns that identify a rollout of NeMo Gym and a trace of verifiers."""
_TEXT_KEYS = ("response", "answer", "completion", "text", "content", "generation")
"""Keys of a response's text in an object that is not a message."""
_NO_PROMPT = (
    "a prompt in prompt, question, instruction or another usual column, or a conversation in "
    "messages; or name its column: --prompt_column"
)
_NO_RESPONSE = (
    "a response to it in response, completion, answer or another usual column, a list in "
    "responses, or chosen and rejected; or name its column: --response_column; or ask a policy: "
    "--responses_per_prompt"
)

_NO_LAST_TURN = (
    "a conversation that ends with a response, and this one ends with the user; name the column of "
    "the response: --response_column; leave such rows out: --on_bad_row=skip; or ask a policy: "
    "--responses_per_prompt"
)
_AS_COLUMNS = " (its values are lists: expected a file of rows, not of columns)"


class ColumnSettings(BaseModel, use_attribute_docstrings=True):
    """The columns of a data set. A column that is not named is found by its usual names."""

    help_group: ClassVar[str] = "data"

    split: str = setting("train")
    """Take this split of a data set of the Hugging Face hub."""
    prompt_column: str | None = setting(
        None, f"Take the prompt from this column: a text, or messages{_JOINED}.", common=True
    )
    response_column: str | None = setting(None)
    """Take the response from this column: a text or messages, or a list of them for several
    responses to one prompt. Several columns, separated by commas, are several responses."""
    reference_column: str | None = setting(None)
    """Take a response that deserves the highest score from this column, where it has one. If
    unset, from reference or reference_answer."""
    rubric_column: str | None = setting(None)
    """Take the rubric of a row from this column, where it has one, instead of --rubric. If
    unset, from rubric or score_rubric."""
    baseline_column: str | None = setting(None)
    """Take the response to compare with from this column, where it has one (judge arena_hard and
    others). If unset, from baseline."""
    aspects_column: str | None = setting(None)
    """Take the aspects of a row from this column, where it has any, instead of --aspects (judge
    aspect): names, or objects with name and definition. If unset, from aspects."""
    criteria_column: str | None = setting(None)
    """Take the criteria of a row from this column, where it has any, instead of --criteria
    (judge checklist): a list of texts and objects. If unset, from criteria, rubrics, a rubric
    that is a list, Rubrics, rubric_items, or reward_model.rubrics."""
    context_column: str | None = setting(None)
    """Take the text, or the list of texts, that a response should be based on from this column,
    where it has one (judges aspect, listwise, tournament). If unset, these judges take it from
    contexts or context."""
    category_column: str | None = setting(None, common=True)
    """Report the scores by the values of this column, such as the source of a row."""
    repeat_column: str | None = setting(None)
    """Judge equal rows independently if the whole numbers in this column differ: each row has its
    own calls and sampling seed. If unset, equal rows share one judgment."""
    group_by: str | None = setting(None)
    """Judge the rows with the same value in this column together, with a judge that compares
    responses. Each row has one response; the rows may be anywhere in the data."""


_PROMPT_COLUMNS = (*PROMPTS, *CONVERSATIONS)

_Response: TypeAlias = "tuple[str, tuple[Turn, ...]]"
"""A response as text, with its turns if it was given as messages."""
Values: TypeAlias = Mapping[str, JSON]
"""The columns of a row that are not null."""


@dataclass(frozen=True, slots=True)
class Responses:
    """The prompt and the responses of a row; a prompt alone has no responses.

    Attributes:
        prompt: the prompt as one text.
        columns: the columns that were read, for messages.
        turns: the prompt as a conversation; a text is a turn of the user.
        parts: further columns that belong to the prompt, if a row has them.
        texts: the responses; empty ones are kept.
        traces: the turns of each response, including earlier ones such as tool calls; empty for
            a text.
        tools: the tools that the policy was offered.
        several: the row has a list of responses, even if it has one entry.
        chosen: the number of preferred responses, which come first; 0 without a preference.
        earlier: the responses, if they are those of an earlier run.
    """

    prompt: str
    columns: tuple[str, ...]
    turns: tuple[Turn, ...] = ()
    parts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    traces: tuple[tuple[Turn, ...], ...] = ()
    tools: tuple[Tool, ...] = ()
    several: bool = False
    chosen: int = 0
    earlier: tuple[JudgedResponse, ...] = ()

    @property
    def response_turns(self) -> list[tuple[Turn, ...]]:
        """The turns of each response: its messages, or one turn if a text can express them."""
        responses = []
        for text, trace in zip(self.texts, self.traces or [()] * len(self.texts), strict=True):
            last_turns = next(
                (turns for turns in (trace, trace[-1:]) if completion_text(turns) == text), ()
            )
            is_text = len(last_turns) < 2 and not any(turn.calls for turn in last_turns)
            responses.append((text_turn("assistant", text),) if is_text else last_turns)
        return responses


def _split_names(setting: str) -> tuple[str, ...]:
    """Split a setting that names columns, separated by commas."""
    return tuple(name.strip() for name in setting.split(",") if name.strip())


def _find_prompt(
    row: Row, values: Values, settings: ColumnSettings, taken: Sequence[str]
) -> Responses | None:
    """Find the prompt in the named columns, or in the first usual one that is free.

    Return `None` without a prompt. Several columns become one turn of the user, joined by blank
    lines.

    Raises:
        DataError: a named column holds something else.
    """
    if settings.prompt_column is None:
        return _find_usual_prompt(values, taken)
    columns = _split_names(settings.prompt_column)
    prompts: list[tuple[Turn, ...]] = []
    for column in columns:
        value = value_at(values, column)
        turns = None if value is None else parse_prompt_turns(value)
        if turns is None and isinstance(row.values.get(column), str):
            turns = parse_prompt_turns(row.values[column])  # a text that looks like a list
        if (column not in row.values and value is None) or (turns is None and value is not None):
            raise row.missing_error(f"a prompt (a text or messages) in {column}", column)
        prompts += [turns] if turns and any(turn.shown.strip() for turn in turns) else []
    if len(prompts) > 1:
        if any(map(list_images, prompts)):
            raise UnseenPart("images in several columns of a prompt are not read: name one column")
        prompts = [(text_turn("user", "\n\n".join(map(render_transcript, prompts))),)]
    prompt_turns = insert_images(values, prompts[0]) if prompts else ()
    if prompts:
        return Responses(render_transcript(prompt_turns), columns, prompt_turns, IMAGES)
    return None


def _find_usual_prompt(values: Values, taken: Sequence[str]) -> Responses | None:
    """Find the prompt in the first of the usual columns that is free; or return `None`.

    An answer at the end of a conversation is dropped: it may be the response itself, or the
    expected one.
    """
    for column in _PROMPT_COLUMNS:
        turns = None
        if column in values and column not in taken:
            turns = parse_prompt_turns(values[column])
        if turns and column in CONVERSATIONS:
            turns = strip_answer(turns)
        if turns:
            parts = tuple(part for part in list_prompt_columns(column, turns) if part not in taken)
            part_values = {part: values[part] for part in parts if part in values}
            prompt_turns = build_prompt(part_values, column, turns)
            return Responses(render_transcript(prompt_turns), (column,), prompt_turns, parts)
    return None


def _missing_prompt_error(row: Row) -> Exception:
    """Return the error for a row without a prompt."""
    return row.missing_error(
        f"a prompt, a text or messages, in {' or '.join(PROMPTS)}; or name the column: "
        "--prompt_column"
    )


def read_turns(row: Row, settings: ColumnSettings) -> Responses:
    """Read the prompt for a policy: the turns before a final answer, all convertible to messages.

    It comes from the named column, or from the common beginning of `chosen` and `rejected`, or
    from a usual column.

    Raises:
        DataError: the row has no prompt.
    """
    with name_row_in_errors(row, shows_images=True):
        values, prompt = row.filled_values(), None
        if settings.prompt_column is None and all(column in values for column in _PREFERENCE):
            pair = split_pair_turns(values)
            prompt = None
            if pair is not None and pair[0]:
                prompt = Responses("", _list_pair_columns(values), pair[0])
        prompt = prompt or _find_prompt(row, values, settings, ())
        turns = () if prompt is None else strip_answer(prompt.turns)
        if prompt is None or not any(turn.shown.strip() for turn in turns if turn.role != "system"):
            raise _missing_prompt_error(row)
        for turn in turns:
            turn.message()
        return replace(prompt, prompt=render_transcript(turns), turns=turns)


def _list_pair_columns(values: Values) -> tuple[str, ...]:
    return tuple(column for column in ("prompt", *_PREFERENCE) if column in values)


def read_responses(row: Row, settings: ColumnSettings) -> Responses:
    """Read the prompt and the responses of a row.

    Raises:
        DataError: there is no prompt or no response in the named columns, or in any usual one.
    """
    with name_row_in_errors(row, shows_images=True):
        values = row.filled_values()
        responses = _read(row, values, settings)
        tools = responses.tools or parse_tools(values.get(_TOOLS)) or ()
        if not tools or _TOOLS in responses.columns:
            return responses
        prompt = render_transcript(add_tools(responses.turns, tools))
        return replace(responses, prompt=prompt, parts=(*responses.parts, _TOOLS), tools=tools)


def _read(row: Row, values: Values, settings: ColumnSettings) -> Responses:
    if settings.response_column is not None:
        columns = _split_names(settings.response_column)
        return _read_named(row, values, columns, _find_prompt(row, values, settings, columns))
    if settings.prompt_column is None:
        for reader in (_read_log, _read_preference, _read_two_responses):
            responses = reader(values)
            if responses is not None:
                return responses
    held_names = [name for name in RESPONSES if name in values]
    column = next((name for name in held_names if _parse_responses(values[name]) is not None), None)
    prompt = None if column is None else _find_prompt(row, values, settings, (column,))
    if column is not None and (settings.prompt_column is not None or prompt is not None):
        return _read_named(row, values, (column,), prompt)
    if settings.prompt_column is None:
        for name in CONVERSATIONS:
            responses = _read_conversation(values, name)
            if responses is not None:
                return responses
    wrong = []
    if column is None:
        wrong = [f"{name} holds {_describe(values[name])}" for name in held_names]
    if (
        len(wrong) == 1
        and "a list whose entry" in wrong[0]
        and _find_prompt(row, values, settings, ()) is not None
    ):
        raise row.error(
            f"{wrong[0]}; expected a response in each entry: fill or remove it, leave such rows "
            "out (--on_bad_row=skip), or name another column: --response_column"
        )
    expected = _describe_missing(row, values, settings)
    if wrong:
        expected += f" (here {', '.join(wrong)})"
    raise row.missing_error(expected)


def _describe_missing(row: Row, values: Values, settings: ColumnSettings) -> str:
    """Describe what a row lacks that has no prompt, or no response."""
    prompt = _find_prompt(row, values, settings, ())
    if prompt is None:
        return _NO_PROMPT + (_AS_COLUMNS if _holds_columns(values) else "")
    conversation = next((column for column in prompt.columns if column in CONVERSATIONS), None)
    if conversation is not None:
        return f"in {conversation} {_NO_LAST_TURN}"
    return f"beside the prompt in {', '.join(prompt.columns)} {_NO_RESPONSE}"


def _holds_columns(values: Values) -> bool:
    """Return whether a row is a file of columns: prompts and responses are lists of one length."""
    lists = [
        [value for name in names if isinstance(value := values.get(name), list)]
        for names in (PROMPTS, RESPONSES)
    ]
    lengths = {len(value) for value in chain.from_iterable(lists)}
    return all(lists) and len(lengths) == 1


def _read_named(
    row: Row, values: Values, columns: Sequence[str], prompt: Responses | None
) -> Responses:
    """Read the responses from columns of one text each, or from one column with a list."""
    column_answers = [_parse_responses(value_at(values, column)) for column in columns]
    for column, answers in zip(columns, column_answers, strict=True):
        if answers is None:
            kind = _describe(value_at(values, column))
            expected = (
                f"a response (a text or messages), or a list of them, in {column}, which holds "
                f"{kind}"
            )
            raise row.missing_error(expected, column)
        if len(columns) > 1 and answers[1]:
            raise row.error(
                f"expected one response in {column}, since --response_column names several", column
            )
    if prompt is None:
        raise _missing_prompt_error(row)
    read_answers = [answers for answers in column_answers if answers is not None]
    texts, traces = zip(*chain.from_iterable(answers[0] for answers in read_answers), strict=True)
    several = len(columns) > 1 or any(answers[1] for answers in read_answers)
    chosen = 1 if tuple(columns) == _PREFERENCE else 0
    return replace(
        prompt,
        columns=(*prompt.columns, *columns),
        texts=texts,
        traces=traces,
        several=several,
        chosen=chosen,
    )


def _parse_responses(value: JSON) -> tuple[tuple[_Response, ...], bool] | None:
    """Parse a value as responses, and whether it is a list; `None` if it holds none."""
    single = _parse_response(value)
    if single is not None:
        return (single,), False
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return None
    answers = tuple(answer for answer in map(_parse_response, value) if answer is not None)
    if len(answers) == len(value):
        return (answers, True)
    return None


def _describe(value: JSON) -> str:
    """Describe a value that is not a response, for a message."""
    if value is None:
        return "nothing"
    if not isinstance(value, list | tuple):
        return f"a value of type {type(value).__name__}"
    position, wrong = next(
        ((n, entry) for n, entry in enumerate(value, start=1) if _parse_response(entry) is None),
        (0, None),
    )
    if position:
        return f"a list whose entry {position} is {_describe(wrong)}"
    return "an empty list"


def _parse_response(value: JSON) -> _Response | None:
    """Parse a response: a text, messages, or an object with the text; `None` for anything else."""
    if isinstance(value, str):
        return value, ()
    if isinstance(value, Mapping):
        text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        if isinstance(text, str) and not {"role", "from"} & value.keys():
            return text, ()
    turns = parse_turns(value)
    if turns:
        return (completion_text(turns), turns)
    return None


def _read_preference(values: Values) -> Responses | None:
    """Read `chosen` and `rejected`, in this order."""
    if not all(column in values for column in _PREFERENCE):
        return None
    if any(values.get(name) for name in IMAGES):
        raise UnseenPart(
            "images beside chosen and rejected are not read: name a column of the prompt and of "
            "responses"
        )
    with show_images(shown=False):
        pair, turns = draft_pair(values), split_pair_turns(values)
    if turns is None or pair is None or isinstance(pair, str):
        return None
    columns = _list_pair_columns(values)
    texts = (*pair.correct, *pair.wrong)
    traces = turns[1:] if turns[1] else ()
    return Responses(
        pair.prompt,
        columns,
        turns[0],
        texts=texts,
        traces=traces,
        several=True,
        chosen=len(pair.correct),
    )


def _read_two_responses(values: Values) -> Responses | None:
    """Read two responses in columns of their own."""
    for first, second in _RESPONSE_PAIRS:
        if (
            first in values
            and isinstance(values[first], str)
            and isinstance(values.get(second), str)
        ):
            prompt = _find_usual_prompt(values, ())
            if prompt is not None:
                texts = (str(values[first]), str(values[second]))
                columns = (*prompt.columns, first, second)
                return replace(prompt, columns=columns, texts=texts, several=True)
    return None


def _read_conversation(values: Values, column: str) -> Responses | None:
    """Read a conversation that ends with the response; the trace begins with its tool calls."""
    trace = split_trace(parse_turns(values.get(column)) or ())
    if trace is None:
        return None
    prompt_turns = build_prompt(values, column, trace.turns[:-1])
    parts = list_prompt_columns(column, trace.turns)
    earlier_turns = tuple(
        replace(turn, images=()) for turn in trace.turns[trace.prompt_length : -1]
    )  # the prompt shows their images
    texts = (completion_text(trace.turns[-1:]),)
    traces = ((*earlier_turns, trace.turns[-1]),)
    return Responses(
        render_transcript(prompt_turns), (column,), prompt_turns, parts, texts=texts, traces=traces
    )


def _read_log(values: Values) -> Responses | None:
    """Read a rollout of NeMo Gym, or a trace of verifiers."""
    for column in _LOGS:
        if (trace := parse_trace(values, column)) is not None:
            prompt_turns = trace.turns[: trace.prompt_length]
            answer = trace.turns[trace.prompt_length :]
            columns = (column, "response") if column == _LOGS[0] else (column,)
            texts = (completion_text(answer),)
            return Responses(
                render_transcript(prompt_turns),
                columns,
                prompt_turns,
                texts=texts,
                traces=(answer,),
                tools=trace.tools,
            )
    return None
