"""Preference rows as questions to a judge: the answers shown, their order, the right letter.

Every order depends on the seed and the row's id only, not on the order of the rows.

Preference data may have any known schema. The schemas are recognised by the values in a row, not by
a dataset's name. Each schema has a reader. It returns a draft (a `Preference` without uid and
category), the reason why the row has no preference, or `None` for another schema. A row without a
preference, or with an image or another part that judges are not shown, is left out and counted; a
row of no known schema is an error.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, TypeAlias

from judgegym.data.answers import CONVERSATIONS, warn_unused_columns
from judgegym.data.rows import Row
from judgegym.data.task_list import TaskList
from judgegym.judges.conversations.messages import parse_transcript, parse_turns
from judgegym.judges.conversations.turns import (
    Turn,
    UnseenPart,
    completion_text,
    render_transcript,
    text_turn,
)
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.pairwise import LETTERS
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

Reason = Literal[
    "equal scores",
    "no preference",
    "no shared prompt",
    "empty text",
    "identical texts",
    "a part that is no text",
]
"""Why a row is left out."""

_Values: TypeAlias = Mapping[str, JSON]
_Turns: TypeAlias = tuple[Turn, ...]
_EXPECTED = (
    "a preference: chosen and rejected (texts, lists of texts or messages) with a prompt, alone or "
    "at the beginning of both; or context, response1, response2 and overall_preference from -3 to "
    "3; or prompt and answers with answer and rank; or question, response_A, response_B and label"
)


@dataclass(frozen=True, slots=True)
class Preference:
    """Preference of one row.

    Attributes:
        prompt: the prompt; a conversation of several turns is one text that names the roles.
        correct: at least one correct answer; none is empty.
        wrong: at least one wrong answer; none is empty or, without surrounding white space, equal
            to a correct one.
        uid: unique among the rows of the dataset and independent of their order: the row's own id
            (with a digest of its content if several rows have the same id), or `row-<digest>`.
        category: the category for metrics by category.
    """

    prompt: str
    correct: tuple[str, ...]
    wrong: tuple[str, ...]
    uid: str = ""
    category: str | None = None


def recognise(row: Row) -> Preference | Reason:
    """Recognise the preference of a row of any known schema, or the reason why it has none.

    A null column counts as absent.

    Raises:
        DataError: the row has none of the schemas; the message names file, row and columns.
        UnseenPart: a message has a part that no judge is shown, such as an image.
    """
    values = row.filled_values()
    for read in (_read_ranked, _read_graded, _read_labelled, _read_pair):
        draft = read(values)
        if draft is not None:
            return draft
    null = [column for column in row.values if column not in values]
    null_words = ""
    if null:
        null_words = " (null here: " + ", ".join(null) + ")"
    raise row.missing_error(_EXPECTED + null_words)


def _read_ranked(values: _Values) -> Preference | Reason | None:
    """Read Nectar: `prompt`, and `answers` with `answer` and `rank`; the lowest rank is best."""
    prompt, answers = parse_prompt_turns(values.get("prompt")), values.get("answers")
    if prompt is None or isinstance(answers, str) or not isinstance(answers, Sequence):
        return None
    entries = [
        (answer.get("answer"), _parse_number(answer.get("rank")))
        for answer in answers
        if isinstance(answer, Mapping)
    ]
    ranked = []
    for text, rank in entries:
        if isinstance(text, str) and rank is not None:
            ranked.append((rank, text))
    if len(ranked) < len(answers):
        return None
    if not ranked:
        return "empty text"
    best = min(rank for rank, _ in ranked)
    wrong = tuple(text for rank, text in ranked if rank > best)
    correct = tuple(text for rank, text in ranked if rank == best)
    if not wrong:
        return "equal scores"
    return Preference(render_transcript(prompt), correct, wrong)


def _read_graded(values: _Values) -> Preference | Reason | None:
    """Read HelpSteer3: `context`, two responses, and a preference.

    The preference is negative if the first response is better.
    """
    grade = _parse_number(values.get("overall_preference"))
    # Do not guess other scales: a reversed one would swap the labels.
    if grade is None or abs(grade) > 3:
        return None
    return _draft_two(
        values.get("context", values.get("prompt")),
        values.get("response1"),
        values.get("response2"),
        -grade,
    )


def _read_labelled(values: _Values) -> Preference | Reason | None:
    """Read JudgeBench: `question`, two responses and a label."""
    label = values.get("label")
    if not isinstance(label, str):
        return None
    preference = {"A>B": 1, "B>A": -1}.get(label.strip(), 0)
    return _draft_two(
        values.get("question"), values.get("response_A"), values.get("response_B"), preference
    )


def _draft_two(
    prompt_value: JSON, first: JSON, second: JSON, preference: float
) -> Preference | Reason | None:
    """Draft two responses; the first is the better one if the preference is positive."""
    prompt = parse_prompt_turns(prompt_value)
    if prompt is None or not isinstance(first, str) or not isinstance(second, str):
        return None
    better, worse = (first, second) if preference > 0 else (second, first)
    if not preference:
        return "no preference"
    return Preference(render_transcript(prompt), (better,), (worse,))


def _read_pair(values: _Values) -> Preference | Reason | None:
    """Read `chosen` and `rejected`: TRL, UltraFeedback, Skywork, RewardBench 1 and 2, RM-Bench."""
    draft = draft_pair(values)
    scores = _parse_number(values.get("score_chosen")), _parse_number(values.get("score_rejected"))
    if draft is not None and scores[0] is not None and scores[0] == scores[1]:
        return "equal scores"
    return draft


def draft_pair(values: _Values) -> Preference | Reason | None:
    """Draft `chosen` and `rejected`, whatever their scores.

    `values` has no null columns.
    """
    correct = _parse_texts(values.get("chosen"))
    wrong = _parse_texts(values.get("rejected"))
    turns = split_pair_turns(values)
    if correct == () or wrong == ():  # an empty list
        return "empty text"
    if turns is None:
        return None
    prompt, chosen, rejected = turns
    if correct is not None and wrong is not None and not chosen:
        return Preference(render_transcript(prompt), correct, wrong)
    # Without a user's turn both share no prompt; with only assistants' turns there is none at all.
    if all(turn.role in ("assistant", "system") for turn in prompt):
        has_question = any(turn.role != "assistant" for turn in (*prompt, *chosen, *rejected))
        if has_question:
            return "no shared prompt"
        return None
    return Preference(
        render_transcript(prompt), (completion_text(chosen),), (completion_text(rejected),)
    )


def split_pair_turns(values: _Values) -> tuple[_Turns, _Turns, _Turns] | None:
    """Split `chosen` and `rejected` into the turns of their prompt and of each answer.

    `None` if there are none.

    The common beginning of two conversations is the prompt, after the explicit prompt unless they
    repeat that. Answers that are texts, or lists of texts, have no turns.
    """
    explicit, chosen, rejected = (values.get(name) for name in ("prompt", "chosen", "rejected"))
    prompt = parse_prompt_turns(explicit)
    if (
        prompt is not None
        and _parse_texts(chosen) is not None
        and _parse_texts(rejected) is not None
    ):
        return prompt, (), ()
    better, worse = _parse_conversation(chosen), _parse_conversation(rejected)
    if not better or not worse:
        return None
    # The last turn is an answer even if it is the same in both.
    pairs = list(zip(better[:-1], worse[:-1], strict=False))
    num_shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    # If the prompt is a text, conversations that begin with a question or a system message contain
    # it in other form.
    before = prompt or ()
    if isinstance(explicit, str):
        repeated = better[0].role != "assistant"
    else:
        repeated = better[: len(before)] == before
    if repeated:
        before = ()
    return before + better[:num_shared], better[num_shared:], worse[num_shared:]


def parse_prompt_turns(value: JSON) -> tuple[Turn, ...] | None:
    """Parse the turns of a prompt: messages, a transcript up to the answer, or one text."""
    if not isinstance(value, str):
        return parse_turns(value)
    spoken = parse_transcript(value) if value.rstrip().endswith("Assistant:") else None
    return spoken or (text_turn("user", value),)


def _parse_conversation(value: JSON) -> tuple[Turn, ...] | None:
    if isinstance(value, str):
        return parse_transcript(value)
    return parse_turns(value)


def _parse_texts(value: JSON) -> tuple[str, ...] | None:
    """Return one text or a list of texts as a tuple; `None` for anything else."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence):
        return None
    texts = tuple(text for text in value if isinstance(text, str))
    if len(texts) != len(value):
        return None
    return texts


def _parse_number(value: JSON) -> float | None:
    """Return a finite number, also from a text as in CSV files; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return number


_CATEGORY_COLUMNS = ("subset", "category", "domain")
_DIGEST_BYTES = 6
_PROMPT = ("prompt", "context", "question")


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of a dataset.

    Attributes:
        rows: the usable rows, at least one, in the order of the dataset; each is read on access.
        dropped: the number of rows left out, by reason.
    """

    rows: TaskList[Preference]
    dropped: Mapping[str, int]


def read_preferences(rows: Sequence[Row], *, all_rows: bool = False) -> Preferences:
    """Return the preferences of a dataset's rows; the rows may have different schemas.

    Args:
        rows: the rows of one dataset. Known schemas are TRL's (texts, messages, implicit prompt),
            UltraFeedback, Skywork, HelpSteer3, Nectar, JudgeBench, RewardBench 1 and 2, and
            RM-Bench.
        all_rows: also keep rows with empty or equal answers, because a benchmark's denominator
            counts all rows. Rows without a preference (equal scores, no label, an empty list) are
            left out in any case.

    Raises:
        DataError: a row has no known schema (the message names file, row and columns), or no row is
            usable (it says how many were left out, and why); with `all_rows` also a row with a part
            that judges are not shown.
    """
    warn_unused_columns(rows, (_PROMPT,), CONVERSATIONS)
    dropped: Counter[str] = Counter()
    categories = set[str]()
    row_numbers = array("Q")
    ids: list[str | None] = []
    digests = bytearray()
    for row_number, row in enumerate(rows):
        draft = _read_draft(row, all_rows=all_rows)
        if isinstance(draft, Preference):
            row_numbers.append(row_number)
            ids.append(row.find_id())
            digests += _content_digest(draft)
            categories |= {_category(row) or ""}
        else:
            dropped[draft] += 1
    if not row_numbers:
        reasons = ", ".join(f"{count} for {reason}" for reason, count in dropped.items())
        if not rows:
            raise DataError("no rows")
        count = len(rows)
        raise DataError(
            f"{rows[0].source}: none of the {count} rows can be used; left out: {reasons}"
        )
    uids = _assign_uids(ids, digests)

    def build(index: int) -> Preference:
        row = rows[row_numbers[index]]
        draft = _read_draft(row, all_rows=all_rows)
        # Reading raises if the row has changed.
        assert isinstance(draft, Preference)
        return replace(draft, uid=uids[index], category=_category(row))

    return Preferences(TaskList(uids, build, categories - {""}), dict(dropped))


def _read_draft(row: Row, *, all_rows: bool) -> Preference | Reason:
    try:
        draft = recognise(row)
    except UnseenPart as error:
        if all_rows:
            raise DataError(f"{row.place}: {error}") from None
        return "a part that is no text"
    if isinstance(draft, Preference) and not all_rows:
        return _drop_unusable(draft)
    return draft


def _drop_unusable(draft: Preference) -> Preference | Reason:
    """Drop answers that are empty or equal to a correct one.

    Return the reason if no preference is left.
    """
    correct = tuple(text for text in draft.correct if text.strip())
    wrong = tuple(text for text in draft.wrong if text.strip())
    if not draft.prompt.strip() or not correct or not wrong:
        return "empty text"
    right = {text.strip() for text in correct}
    wrong = tuple(text for text in wrong if text.strip() not in right)
    if not wrong:
        return "identical texts"
    return Preference(draft.prompt, correct, wrong)


def _content_digest(draft: Preference) -> bytes:
    content = wire.dumps([draft.prompt, draft.correct, draft.wrong])
    return hashlib.sha256(content).digest()[:_DIGEST_BYTES]


def _assign_uids(ids: Sequence[str | None], digests: bytes | bytearray) -> list[str]:
    """Return a uid for each row, from its own id and the digest of its content.

    The digest has `_DIGEST_BYTES` for each row.

    It seeds random choices, so it must not depend on the order of the rows.
    """
    times = Counter(ids)
    copies: Counter[str] = Counter()
    taken: dict[str, None] = {}
    for number, row_id in enumerate(ids):
        digest = digests[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES].hex()
        base = f"row-{digest}"
        if row_id is not None:
            base = row_id
            if times[row_id] != 1:
                base = f"{row_id}-{digest}"
        uid = base
        while uid in taken:  # rows with the same id and content
            copies[base] += 1
            uid = f"{base}-{copies[base] + 1}"
        taken[uid] = None
    return list(taken)


def _category(row: Row) -> str | None:
    values = (row.values.get(column) for column in _CATEGORY_COLUMNS)
    texts = (value for value in values if isinstance(value, str))
    return next((text for text in texts if text.strip()), None)


Mode = Literal["choice", "ties"]
Shuffle = Literal["permutation", "official_swap"]

_TIES = "ties"
_TIES_IDS = ("ref:", "tied:")
"""The ids of RewardBench 2's Ties subset begin with these, if the data set has no category."""


@dataclass(frozen=True, slots=True)
class PairTask:
    """One question to a judge.

    Attributes:
        uid: the row's id, followed by `/swapped` if its answers are in reverse order.
        question: the user's prompt.
        category: the row's subset.
        mode: one choice between letters, or a rating for each answer.
        answers: the answers shown: in `choice` in the order of their letters, in `ties` with the
            correct ones first.
        correct: the indices of the correct answers in `answers`.
        truncated: answers were left out (`max_ties_responses`).
    """

    uid: str
    question: str
    category: str | None
    mode: Mode
    answers: tuple[str, ...]
    correct: tuple[int, ...]
    truncated: bool = False

    @property
    def letters(self) -> str:
        """Letters of the answers."""
        return LETTERS[: len(self.answers)]

    @property
    def gold(self) -> str:
        """The letter of the correct answer of a choice."""
        return LETTERS[self.correct[0]]

    def swap(self) -> PairTask:
        """Return the same question with its answers in reverse order."""
        last = len(self.answers) - 1
        places = tuple(last - place for place in self.correct)
        return replace(self, uid=f"{self.uid}{SWAPPED}", answers=self.answers[::-1], correct=places)


SWAPPED = "/swapped"


def is_ties(row: Preference) -> bool:
    """Return whether a row is of the Ties subset, in which each answer is rated."""
    return (row.category or "").casefold() == _TIES or row.uid.startswith(_TIES_IDS)


def choice_task(
    row: Preference, *, num_choices: int | None, seed: int, shuffle: Shuffle
) -> PairTask:
    """Return a choice between one correct answer and wrong ones.

    Args:
        row: a row with at least one correct and one wrong answer.
        num_choices: the maximum number of answers shown; `None` for all that the row has.
        seed: the seed for the choice of the answers and for their order.
        shuffle: `permutation`: shuffle all answers. `official_swap`: swap the correct answer with a
            random one (or itself), as RewardBench-2's code does.
    """
    rng = make_generator(seed, row.uid, "order")
    right = row.correct[0]
    if len(row.correct) > 1:
        right = rng.choice(row.correct)
    wrong = list(row.wrong)
    max_wrong = min(len(LETTERS), num_choices or len(LETTERS)) - 1
    if len(wrong) > max_wrong:
        wrong = [wrong[place] for place in sorted(rng.sample(range(len(wrong)), max_wrong))]
    places = list(range(len(wrong) + 1))
    if shuffle == "permutation":
        rng.shuffle(places)
    else:
        slot = rng.randrange(len(places))
        places[0], places[slot] = places[slot], places[0]
    shown = [right, *wrong]
    answers = tuple(shown[place] for place in places)
    return PairTask(
        row.uid, row.prompt, row.category, "choice", answers, correct=(places.index(0),)
    )


def ties_task(row: Preference, *, max_answers: int) -> PairTask:
    """Return a rating task of at most `max_answers` answers, at least one correct and one wrong."""
    correct = row.correct[: max(1, max_answers - 1)]
    wrong = row.wrong[: max(1, max_answers - len(correct))]
    answers = (*correct, *wrong)
    places = tuple(range(len(correct)))
    is_cut = len(answers) < len(row.correct) + len(row.wrong)
    return PairTask(
        row.uid, row.prompt, row.category, "ties", answers, correct=places, truncated=is_cut
    )


def add_swapped(tasks: TaskList[PairTask]) -> TaskList[PairTask]:
    """Return all tasks, then their twins with reversed answers."""
    uids = [*tasks.uids, *(f"{uid}{SWAPPED}" for uid in tasks.uids)]
    count = len(tasks)
    return TaskList(
        uids,
        lambda index: tasks[index] if index < count else tasks[index - count].swap(),
        tasks.group_names,
    )


def check_choices(rows: Sequence[Preference], num_choices: int, source: str) -> None:
    """Check that every row of a choice has at least `num_choices` answers, one of them correct.

    Raises:
        DataError: a row has fewer answers.
    """
    short = [row for row in rows if 1 + len(row.wrong) < num_choices and not is_ties(row)]
    if short:
        uid, count = short[0].uid, 1 + len(short[0].wrong)
        short_count, row_count = len(short), len(rows)
        raise DataError(
            f"{source}: {short_count} of {row_count} rows have fewer than {num_choices} answers, "
            f"such as {uid!r} with {count}; set --env.num_choices to a number that every row has, "
            "or to auto"
        )
