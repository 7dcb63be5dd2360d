"""Existing answers to score, and the prompts of rows with their usual columns.

Answers are read from their file on access. For prompts, this module knows the usual columns of a
prompt, those that belong to it, and those that nothing reads.

Guarantee: a column of a usual name that is not read is named in one line of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Literal, cast, get_args

from judgegym.data.opening import FILE_KINDS, parse_file_kind
from judgegym.data.rows import (
    LazyMapping,
    Row,
    TaskT,
    index_by_uid,
    load_rows,
    name_row_in_errors,
    value_at,
)
from judgegym.data.task_list import TaskList, list_uids
from judgegym.judges.conversations.images import IMAGES, insert_images
from judgegym.judges.conversations.messages import parse_turns
from judgegym.judges.conversations.turns import Turn, UnseenPart, render_transcript, text_turn
from judgegym.judges.scorers.columns import USUAL_COLUMNS
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON, Message, Role


def load_answers(path: Path, tasks: Sequence[TaskT]) -> Mapping[str, str]:
    """Load existing answers to score, by uid.

    Args:
        path: JSONL with `uid` and `answer`, or with `messages` as Arena-Hard-Auto writes them.
        tasks: the tasks that need an answer.

    Raises:
        DataError: the file cannot be loaded, or lacks the answer to a row; leaving the row out
            would change the result.
    """
    if parse_file_kind(str(path)) is None:  # otherwise it would be searched on the hub
        if not path.exists():
            raise DataError(f"{path}: there is no such file of answers or run directory")
        endings = ", ".join(FILE_KINDS)
        raise DataError(
            f"{path}: expected a file of answers, which ends with {endings}, or these with .gz, "
            "or a file of a run, with config.yaml in its folder"
        )
    rows, uids = index_by_uid(load_rows(str(path), split="train")), list_uids(tasks)
    missing = [uid for uid in uids if uid not in rows]
    if missing:
        count, total = len(missing), len(tasks)
        raise DataError(f"{path}: no answer for {count} of {total} rows, such as {missing[0]!r}")
    answers = LazyMapping(dict.fromkeys(uids), lambda uid: answer_text(rows[uid]))
    for uid in uids:
        _ = answers[uid]  # raises for a row without text before the first call
    return answers


def answer_text(row: Row) -> str:
    """Return the answer of a row: `answer`, or `messages[-1].content.answer` (Arena-Hard-Auto).

    Raises:
        DataError: the row has no such field.
    """
    answer = row.optional_text("answer")
    if answer is None:
        messages = row.values.get("messages")
        last = messages[-1] if isinstance(messages, Sequence) and messages else None
        content = last.get("content") if isinstance(last, Mapping) else None
        text = content.get("answer") if isinstance(content, Mapping) else content
        answer = text if isinstance(text, str) else None
    if answer is None:
        raise row.missing_error("text in answer or messages[-1].content.answer")
    return answer


logger = logging.getLogger(__name__)

PROMPTS = ("prompt", "question", "instruction", "query", "input", "context", "problem")
CONVERSATIONS = ("messages", "conversation", "conversations")
RESPONSES = (
    "response",
    "completion",
    "responses",
    "completions",
    "generations",
    "candidates",
    "outputs",
    "generation",
    # These five often hold the expected text, if a row has another of these columns.
    "model_answer",
    "output",
    "answers",
    "answer",
    "solution",
)
SYSTEM = ("system", "system_prompt")
TURNS = "turns"
"""Column of the user's messages; in `PromptTask.fields`, of all but the first."""
AskedTurns = Literal["last", "all"]
INSTRUCTION_INPUTS = ("input", "context")
"""The rest of a task beside `instruction`: Alpaca's `input`, Dolly's `context`."""
_MEDIA = ("image", "images", "audio", "audios", "video", "videos", "tools")
_FIELDS = tuple(chain.from_iterable(USUAL_COLUMNS.values()))
_USUAL_NAMES = frozenset((*PROMPTS, *CONVERSATIONS, *RESPONSES, *SYSTEM, *_MEDIA, *_FIELDS))
_ROWS_READ = 100
"""Rows of an environment's data in which columns that nothing reads are looked for."""


def list_prompt_columns(column: str, turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the columns that belong to the prompt in a usual column; see `build_prompt`."""
    columns = [*IMAGES]
    if not _has_system(turns):
        columns = [*SYSTEM, *columns]
    if column == "instruction":
        columns = [*INSTRUCTION_INPUTS, *columns]
    return tuple(columns)


def build_prompt(
    values: Mapping[str, JSON], column: str, turns: Sequence[Turn]
) -> tuple[Turn, ...]:
    """Build the prompt of a usual column with what belongs to it.

    These are the rest of an instruction, images, and a system prompt.

    The rest follows the instruction after a blank line. The system prompt is a separate first turn,
    unless the turns begin with one. The images are those of `with_images`.

    Args:
        values: the columns of the row.
        column: the column of the prompt.
        turns: the turns in it.
    """
    whole = tuple(turns)
    if column == "instruction" and len(whole) == 1:
        whole = (text_turn(whole[0].role, instruction_text(values, whole[0].text)),)
    whole = insert_images(values, whole)
    system = next(filter(None, (_filled_text(values, name) for name in SYSTEM)), None)
    if system is None or _has_system(whole):
        return whole
    return (text_turn("system", system), *whole)


def strip_answer(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return the turns without the assistant's turns at the end, which are to be generated."""
    while turns and turns[-1].role == "assistant":
        turns = turns[:-1]
    return turns


def _has_system(turns: Sequence[Turn]) -> bool:
    return any(turn.role in ("system", "developer") for turn in turns)


def instruction_text(values: Mapping[str, JSON], text: str) -> str:
    """Return an instruction with the rest of its task, after a blank line."""
    return "\n\n".join(
        filter(None, (text, *(_filled_text(values, name) for name in INSTRUCTION_INPUTS)))
    )


def read_question(row: Row, *columns: str) -> str:
    """Return a row's question as one text, from the first of `columns` that has a text.

    An instruction includes the rest of its task.

    Raises:
        DataError: none has.
    """
    text = row.text(*columns)
    column = next(name for name in columns if row.optional_text(name) is not None)
    if column == "instruction":
        return instruction_text(row.values, text)
    return text


def _filled_text(values: Mapping[str, JSON], name: str) -> str | None:
    value = values.get(name)
    if isinstance(value, str) and value.strip():
        return value
    return None


@dataclass(frozen=True, slots=True)
class PromptTask:
    """Row that is sent to the policy as it is.

    It is a text, or the turns of a conversation up to the wanted one.

    Attributes:
        uid: the row's id.
        turns: the prompt.
        category: for metrics by category.
        fields: the row's other columns that `prompt_tasks` was asked for and the row has, by name.
    """

    uid: str
    turns: tuple[Turn, ...]
    category: str | None = None
    fields: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The prompt as one text."""
        return render_transcript(self.turns)

    @property
    def follow_ups(self) -> tuple[str, ...]:
        """The user's later messages, one after each answer of the policy; empty for most rows."""
        return tuple(cast("list[str]", self.fields.get(TURNS, ())))

    @property
    def messages(self) -> list[Message]:
        """The prompt as chat messages."""
        return [turn.policy_message() for turn in self.turns]


def prompt_tasks(
    dataset: str,
    split: str = "train",
    *,
    also: Collection[str] = (),
    turns: AskedTurns | None = None,
    shows_images: bool = False,
    check: Callable[[PromptTask], None] | None = None,
) -> TaskList[PromptTask]:
    """Return the rows of a dataset with a prompt in a usual column: a text, or messages.

    Args:
        dataset: hub name or file.
        split: of a hub dataset.
        also: further columns that the environment reads, for the tasks' `fields`.
        turns: for an environment that holds conversations and reads the column `turns`, which user
            turns it asks; `None` for any other environment, which asks the last turn.
        shows_images: the environment shows its judge the images of a prompt; otherwise rows with
            images are refused.
        check: called with each row; a `ValueError` says why it cannot be judged.

    Raises:
        DataError: the dataset cannot be loaded, or a row has no prompt, has a prompt with other
            parts than text, or cannot be judged.
    """
    rows = load_rows(dataset, split=split)
    of_turns = () if turns is None else (TURNS,)
    warn_unused_columns(rows, ((*of_turns, *PROMPTS, *CONVERSATIONS),), (*SYSTEM, *IMAGES, *also))

    def build(uid: str, row: Row) -> PromptTask:
        with name_row_in_errors(row, shows_images=shows_images):
            return read_prompt(uid, row, also, turns)

    tasks = TaskList.from_rows(index_by_uid(rows, numbered=True), build)
    if check is None:
        return tasks
    for task in tasks:
        try:
            check(task)
        except ValueError as error:
            raise DataError(f"{dataset}: the row {task.uid}: {error}") from error
    return tasks


def read_prompt(
    uid: str, row: Row, also: Collection[str] = (), asked_turns: AskedTurns | None = None
) -> PromptTask:
    """Read the prompt of a row from the first usual column that has one; see `prompt_tasks`.

    Raises:
        DataError: the row has no prompt, or a prompt with other parts than text.
    """
    fields = {name: value for name in also if (value := value_at(row.values, name)) is not None}
    user_texts = row.values.get(TURNS)
    if asked_turns is not None and isinstance(user_texts, list):
        if not user_texts or not all(isinstance(text, str) and text.strip() for text in user_texts):
            raise row.missing_error("in turns one or more texts of the user", TURNS)
        if user_texts[1:]:
            fields |= {TURNS: user_texts[1:]}
        whole = build_prompt(row.values, TURNS, (text_turn("user", str(user_texts[0])),))
        return PromptTask(uid, whole, row.optional_text("category"), fields)
    for column in (*PROMPTS, *CONVERSATIONS):
        value = row.values.get(column)
        if isinstance(value, str) and value.strip():
            turns: tuple[Turn, ...] | None = (text_turn("user", value),)
        else:
            turns = parse_turns(value)
        if turns := strip_answer(turns or ()):
            whole = build_prompt(row.values, column, turns)
            if any(turn.role not in get_args(Role) or turn.calls for turn in whole):
                raise row.missing_error(
                    f"in {column} messages of system, user and assistant, without tool calls",
                    column,
                )
            if asked_turns == "all":
                whole, later = _split_follow_ups(whole)
                if later:
                    fields |= {TURNS: later}
            return PromptTask(uid, whole, row.optional_text("category"), fields)
    in_turns = ""
    if asked_turns is not None:
        in_turns = f", or a list of texts in {TURNS}"
    columns = " or ".join((*PROMPTS, *CONVERSATIONS))
    raise row.missing_error(f"a prompt, a text or messages, in {columns}{in_turns}")


def _split_follow_ups(turns: tuple[Turn, ...]) -> tuple[tuple[Turn, ...], list[JSON]]:
    """Split a conversation at its first answer.

    Return the turns before it, and what the user says after each answer.
    """
    first_user = next((n for n, turn in enumerate(turns) if turn.role == "user"), len(turns))
    end = next(
        (n for n, turn in enumerate(turns[first_user:], first_user) if turn.role == "assistant"),
        len(turns),
    )
    later: list[str] = []
    for before, turn in pairwise(turns[end:]):
        if turn.role == "system" or (turn.role == "user" and not turn.text.strip()):
            raise UnseenPart(
                f"expected a text of the user after an answer, found one of {turn.role}: "
                f"{turn.text!r}"
            )
        if turn.images:
            raise UnseenPart("images after an answer are not asked with asked_turns=all")
        if turn.role == "user":
            if before.role == "user":
                later[-1:] = [f"{later[-1]}\n\n{turn.text}"]
            else:
                later.append(turn.text)
    return turns[:end], [*later]


def find_unused_columns(values: Mapping[str, JSON], read: Collection[str]) -> list[str]:
    """Return the columns of usual names that have a value and are not read."""
    held = {name: value_at(values, name) for name in _USUAL_NAMES if name not in read}
    filled = {name: value for name, value in held.items() if value not in (None, [], {})}
    return [name for name, value in filled.items() if str(value).strip()]


def log_unused_columns(source: str, names: Iterable[str]) -> None:
    """Log the columns that nothing reads in one line, if there are any."""
    unread = sorted({*names})
    if unread:
        logger.warning(
            "%s: columns that are not read, and that nobody is shown: %s", source, ", ".join(unread)
        )


def warn_unused_columns(
    rows: Sequence[Row], first_of: Sequence[Sequence[str]], also: Collection[str] = ()
) -> None:
    """Warn of data that an environment does not use, from the first 100 rows.

    Responses are not checked.

    Args:
        rows: of one dataset.
        first_of: groups of columns; the first column with a text is read from each group.
        also: further columns that are read, or that repeat one that is read.
    """
    names: set[str] = set()
    for row in islice(rows, _ROWS_READ):
        read = {*chain.from_iterable(_select_read_columns(row, group) for group in first_of)}
        more = INSTRUCTION_INPUTS if "instruction" in read else ()
        names.update(find_unused_columns(row.filled_values(), {*read, *more, *also, *RESPONSES}))
    log_unused_columns(rows[0].source if rows else "", names)


def _select_read_columns(row: Row, group: Sequence[str]) -> Sequence[str]:
    """Return the column of a group that is read.

    If it is an original from which the others are made, all columns count as read.
    """
    held = [name for name in group if row.values.get(name) not in (None, "")]
    if TURNS in held and not isinstance(row.values[TURNS], list):
        held.remove(TURNS)
    read = next(iter(held), None)
    if read is None:
        return ()
    if read.startswith("orig_"):
        return group
    return (read,)
