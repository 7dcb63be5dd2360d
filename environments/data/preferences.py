"""Preference data of any known schema: for each prompt, correct and wrong answers.

A row without a preference is left out and counted; a row of no known schema is an error.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from environments.data.preference_schemas import Draft, Reason, recognise
from environments.data.rows import Row
from judges.llm import wire
from judges.llm.errors import DataError

_CATEGORY_COLUMNS = ("subset", "category", "domain")
_DIGEST_LENGTH = 12


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
        rows: the usable rows, at least one, in the order of the dataset.
        dropped: the number of rows left out, by reason.
    """

    rows: list[Preference]
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
    dropped: Counter[str] = Counter()
    kept: list[tuple[Row, Draft]] = []
    for row in rows:
        draft = recognise(row)
        usable = _usable(draft) if isinstance(draft, Draft) and not all_rows else draft
        if isinstance(usable, Draft):
            kept.append((row, usable))
        else:
            dropped[usable] += 1
    if not kept:
        reasons = ", ".join(f"{count} for {reason}" for reason, count in dropped.items())
        raise DataError(
            f"{rows[0].source}: none of the {len(rows)} rows can be used; left out: {reasons}" if rows else "no rows"
        )
    uids = _uids([(_own_id(row), _digest(draft)) for row, draft in kept])
    preferences = [
        Preference(uid, draft.prompt, draft.correct, draft.wrong, _category(row))
        for uid, (row, draft) in zip(uids, kept, strict=True)
    ]
    return Preferences(preferences, dict(dropped))


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


def _digest(draft: Draft) -> str:
    content = wire.dumps([draft.prompt, draft.correct, draft.wrong])
    return hashlib.sha256(content).hexdigest()[:_DIGEST_LENGTH]


def _uids(named: Sequence[tuple[str | None, str]]) -> list[str]:
    """A uid for each (id, digest). It seeds random choices, so it must not depend on the order of the rows."""
    times = Counter(own for own, _ in named)
    copies: Counter[str] = Counter()
    taken: dict[str, None] = {}
    for own, digest in named:
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
