"""Preference rows as questions to a judge: which answers are shown, in which order, and which letter is right.

Every order depends on the seed and the row's id only, and not on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judgegym.data.preferences import Preference
from judgegym.data.task_list import TaskList
from judgegym.judges.core.seeding import generator
from judgegym.judges.pairwise.prompt import LETTERS
from judgegym.llm.errors import DataError

Mode = Literal["choice", "ties"]
Shuffle = Literal["permutation", "official_swap"]

_TIES = "ties"
_TIES_IDS = ("ref:", "tied:")


@dataclass(frozen=True, slots=True)
class PairTask:
    """One question to a judge.

    Attributes:
        uid: the row's id, followed by `/swapped` if its answers are in reverse order.
        question: the user's prompt.
        category: the row's subset.
        mode: one choice between letters, or a rating for each answer.
        answers: the answers shown: in `choice` in the order of their letters, in `ties` with the correct ones first.
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
        """The letters of the answers."""
        return LETTERS[: len(self.answers)]

    @property
    def gold(self) -> str:
        """The letter of the correct answer of a choice."""
        return LETTERS[self.correct[0]]

    def swapped(self) -> PairTask:
        """The same question with its answers in reverse order."""
        last = len(self.answers) - 1
        places = tuple(last - place for place in self.correct)
        return replace(self, uid=f"{self.uid}{SWAPPED}", answers=self.answers[::-1], correct=places)


SWAPPED = "/swapped"


def is_ties(row: Preference) -> bool:
    """Whether a row is of the Ties subset, in which each answer is rated."""
    return (row.category or "").casefold() == _TIES or row.uid.startswith(_TIES_IDS)


def choice_task(row: Preference, *, num_choices: int | None, seed: int, shuffle: Shuffle) -> PairTask:
    """A choice between one correct answer and wrong ones.

    Args:
        row: a row with at least one correct and one wrong answer.
        num_choices: the most answers shown; `None` for all that the row has.
        seed: the seed for the choice of the answers and for their order.
        shuffle: a full permutation, or as in RewardBench-2's code: the correct answer is swapped with a random one.
    """
    rng = generator(seed, row.uid, "order")
    right = row.correct[0] if len(row.correct) == 1 else rng.choice(row.correct)
    wrong = list(row.wrong)
    most = min(len(LETTERS), num_choices or len(LETTERS)) - 1
    if len(wrong) > most:
        wrong = [wrong[place] for place in sorted(rng.sample(range(len(wrong)), most))]
    places = list(range(len(wrong) + 1))
    if shuffle == "permutation":
        rng.shuffle(places)
    else:
        slot = rng.randrange(len(places))
        places[0], places[slot] = places[slot], places[0]
    shown = [right, *wrong]
    return PairTask(
        uid=row.uid,
        question=row.prompt,
        category=row.category,
        mode="choice",
        answers=tuple(shown[place] for place in places),
        correct=(places.index(0),),
    )


def ties_task(row: Preference, *, most: int) -> PairTask:
    """A rating for each of at most `most` answers, of which at least one is correct and one is wrong."""
    correct = row.correct[: max(1, most - 1)]
    wrong = row.wrong[: max(1, most - len(correct))]
    return PairTask(
        uid=row.uid,
        question=row.prompt,
        category=row.category,
        mode="ties",
        answers=(*correct, *wrong),
        correct=tuple(range(len(correct))),
        truncated=len(correct) + len(wrong) < len(row.correct) + len(row.wrong),
    )


def with_swapped(tasks: TaskList[PairTask]) -> TaskList[PairTask]:
    """All tasks, and after them their reversed twins."""
    uids = [*tasks.uids, *(f"{uid}{SWAPPED}" for uid in tasks.uids)]
    count = len(tasks)
    return TaskList(uids, lambda index: tasks[index] if index < count else tasks[index - count].swapped(), tasks.named)


def check_choices(rows: Sequence[Preference], num_choices: int, source: str) -> None:
    """Check that every row has at least `num_choices` answers.

    Raises:
        DataError: a row has fewer.
    """
    short = [(row.uid, 1 + len(row.wrong)) for row in rows if not is_ties(row) and 1 + len(row.wrong) < num_choices]
    if short:
        uid, count = short[0]
        raise DataError(
            f"{source}: {len(short)} of {len(rows)} rows have fewer than {num_choices} answers, such as {uid!r} "
            f"with {count}; set --env.num_choices to what they have, or to auto"
        )
