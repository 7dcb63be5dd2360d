"""Read letters and ratings from a policy's answers, and compare them with the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from judgegym.data.pairs import Mode, PairTask
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.pairwise.rewardbench import ties_row_score
from judgegym.judges.parsing.verdicts import choice_letter, choice_letter_official, rating, rating_official

ParseMode = Literal["last", "official"]


@dataclass(frozen=True, slots=True)
class PairwiseDetail:
    """The verdicts of a policy on one row.

    Attributes:
        mode: one choice, or a rating for each answer.
        gold: the right letter of each conversation (two if both orders were asked); empty in ties.
        letters: the letter that was read in each; `None` where none could be.
        official_letters: the same as RewardBench-2's own code reads it.
        ratings: the rating of each answer, the correct ones first; `None` where none could be read; empty in choice.
        official_ratings: the same as RewardBench-2's own code reads it.
        ambiguous: whether RewardBench-2's own code reads a rating that differs from ours, whichever counts.
        num_correct: how many of the ratings are of correct answers.
        truncated: answers were left out.
    """

    mode: Mode
    gold: tuple[str, ...] = ()
    letters: tuple[str | None, ...] = ()
    official_letters: tuple[str | None, ...] = ()
    ratings: tuple[int | None, ...] = ()
    official_ratings: tuple[int | None, ...] = ()
    ambiguous: tuple[bool, ...] = ()
    num_correct: int = 0
    truncated: bool = False


def read_choices(task: PairTask, texts: Sequence[str], mode: ParseMode) -> Judgment[PairwiseDetail]:
    """Judge choices: 1.0 if the letter is right in each order, else 0.0; invalid if an order has no letter."""
    official = tuple(choice_letter_official(text) for text in texts)
    shown = tuple(letter if letter is not None and letter in task.letters else None for letter in official)
    letters = shown if mode == "official" else tuple(choice_letter(text, task.letters) for text in texts)
    orders = [task, task.swapped()][: len(texts)]
    gold = tuple(order.gold for order in orders)
    detail = PairwiseDetail("choice", gold=gold, letters=letters, official_letters=official)
    if None in letters:
        return _unreadable(detail)
    return Judgment(
        float(letters == gold), Status.OK, label="".join(letter or "-" for letter in letters), detail=detail
    )


def read_ratings(task: PairTask, texts: Sequence[str], mode: ParseMode) -> Judgment[PairwiseDetail]:
    """Judge the ratings of a Ties row by the specification's rule; invalid if no rating can be read."""
    official = tuple(rating_official(text) for text in texts)
    ours = tuple(rating(text) for text in texts)
    ratings = official if mode == "official" else ours
    detail = PairwiseDetail(
        "ties",
        ratings=ratings,
        official_ratings=official,
        ambiguous=tuple(theirs is not None and theirs != own for theirs, own in zip(official, ours, strict=True)),
        num_correct=len(task.correct),
        truncated=task.truncated,
    )
    if all(value is None for value in ratings):
        return _unreadable(detail)
    return Judgment(ties_row_score(ratings, detail.num_correct), Status.OK, detail=detail)


def _unreadable(detail: PairwiseDetail) -> Judgment[PairwiseDetail]:
    return Judgment(None, Status.INVALID_COMPLETION, explanation="no readable verdict", detail=detail)
