"""Preference data of any known schema: for each prompt, correct and wrong answers.

A row without a preference, or with a part that no judge is shown, is left out and counted; a row of no known schema is
an error.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgegym.data.preference_schemas import Draft, Reason, recognise
from judgegym.data.prompts import CONVERSATIONS, warn_of_unread_columns
from judgegym.data.rows import Row
from judgegym.data.task_list import TaskList
from judgegym.judges.core.turns import UnseenPart
from judgegym.llm import wire
from judgegym.llm.errors import DataError

_CATEGORY_COLUMNS = ("subset", "category", "domain")
_DIGEST_BYTES = 6
_PROMPT = ("prompt", "context", "question")


@dataclass(frozen=True, slots=True)
class Preference:
    """One row.

    Attributes:
        uid: unique among the rows of the dataset and independent of their order: the row's own id (with a digest of its
            content if several rows have the same id), or `row-<digest>`.
        prompt: the prompt; a conversation of several turns is one text that names the roles.
        correct: at least one correct answer; none is empty.
        wrong: at least one wrong answer; none is empty or, without surrounding white space, equal to a correct one.
        category: the category for metrics by category.
    """

    uid: str
    prompt: str
    correct: tuple[str, ...]
    wrong: tuple[str, ...]
    category: str | None


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of a dataset.

    Attributes:
        rows: the usable rows, at least one, in the order of the dataset; each is read when it is asked for.
        dropped: the number of rows left out, by reason.
    """

    rows: TaskList[Preference]
    dropped: Mapping[str, int]


def read_preferences(rows: Sequence[Row], *, all_rows: bool = False) -> Preferences:
    """The preferences of a dataset's rows; the rows may have different schemas.

    Args:
        rows: the rows of one dataset. Known schemas are TRL's (texts, messages, implicit prompt), UltraFeedback,
            Skywork, HelpSteer3, Nectar, JudgeBench, RewardBench 1 and 2, and RM-Bench.
        all_rows: also keep rows with empty or equal answers, because all rows of a benchmark are in its denominator.

    Raises:
        DataError: a row has no known schema (the message names file, row and columns), or no row is usable (it says how
            many were left out, and why).
    """
    warn_of_unread_columns(rows, (_PROMPT,), CONVERSATIONS)
    dropped: Counter[str] = Counter()
    categories = set[str]()
    places, own, digests = array("Q"), list[str | None](), bytearray()
    for place, row in enumerate(rows):
        draft = _draft(row, all_rows=all_rows)
        if isinstance(draft, Draft):
            places.append(place)
            own.append(_own_id(row))
            digests += _digest(draft)
            categories |= {_category(row) or ""}
        else:
            dropped[draft] += 1
    if not places:
        reasons = ", ".join(f"{count} for {reason}" for reason, count in dropped.items())
        raise DataError(
            f"{rows[0].source}: none of the {len(rows)} rows can be used; left out: {reasons}" if rows else "no rows"
        )
    uids = _uids(own, digests)

    def build(index: int) -> Preference:
        row = rows[places[index]]
        draft = _draft(row, all_rows=all_rows)
        assert isinstance(draft, Draft)  # the same row as before, or reading it would have raised
        return Preference(uids[index], draft.prompt, draft.correct, draft.wrong, _category(row))

    return Preferences(TaskList(uids, build, categories - {""}), dict(dropped))


def _draft(row: Row, *, all_rows: bool) -> Draft | Reason:
    try:
        draft = recognise(row)
    except UnseenPart as error:
        if all_rows:
            raise DataError(f"{row.place}: {error}") from None
        return "a part that is no text"
    return _usable(draft) if isinstance(draft, Draft) and not all_rows else draft


def _usable(draft: Draft) -> Draft | Reason:
    """The draft without answers that are empty or equal to a correct one; or the reason why none is left."""
    correct = tuple(text for text in draft.correct if text.strip())
    wrong = tuple(text for text in draft.wrong if text.strip())
    if not draft.prompt.strip() or not correct or not wrong:
        return "empty text"
    right = {text.strip() for text in correct}
    wrong = tuple(text for text in wrong if text.strip() not in right)
    return Draft(draft.prompt, correct, wrong) if wrong else "identical texts"


def _own_id(row: Row) -> str | None:
    try:
        return row.uid()
    except DataError:
        return None


def _digest(draft: Draft) -> bytes:
    content = wire.dumps([draft.prompt, draft.correct, draft.wrong])
    return hashlib.sha256(content).digest()[:_DIGEST_BYTES]


def _uids(ids: Sequence[str | None], digests: bytes | bytearray) -> list[str]:
    """A uid for each row, from its own id and the digest of its content, `_DIGEST_BYTES` for each row.

    It seeds random choices, so it must not depend on the order of the rows.
    """
    times = Counter(ids)
    copies: Counter[str] = Counter()
    taken: dict[str, None] = {}
    for number, own in enumerate(ids):
        digest = digests[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES].hex()
        base = f"row-{digest}" if own is None else own if times[own] == 1 else f"{own}-{digest}"
        uid = base
        while uid in taken:  # rows with the same id and content
            copies[base] += 1
            uid = f"{base}-{copies[base] + 1}"
        taken[uid] = None
    return list(taken)


def _category(row: Row) -> str | None:
    values = (row.values.get(column) for column in _CATEGORY_COLUMNS)
    return next((value for value in values if isinstance(value, str) and value.strip()), None)
