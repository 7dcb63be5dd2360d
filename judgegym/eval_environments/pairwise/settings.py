"""The settings of pairwise judgement.

Read letters and ratings from a policy's answers, and compare them with the right ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from judgegym.data.pairs import Mode, PairTask, Shuffle
from judgegym.engine.settings import EnvConfig, comma_separated
from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.judges import prompts
from judgegym.judges.config.explaining import TextOrFile, prompt_digest
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.pairwise import MOST_CHOICES, ChoiceJudgeSettings, ties_row_score
from judgegym.judges.parsing.labels import choice_letter, choice_letter_official
from judgegym.judges.parsing.scores import rating, rating_official

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


class PairwiseConfig(EnvConfig, ChoiceJudgeSettings):
    """Pairwise judgement's own settings."""

    thinking_mode: bool = setting(
        True,
        "Ask the policy to think between <think> and </think>; an answer in any other format counts as wrong.",
        group="policy",
        common=True,
    )
    eval_max_tokens: int = setting(
        16384,
        "Limit a judgement in evaluations to this many tokens; 0 sends no limit.",
        verbs=EVALUATIONS,
        group="policy",
        ge=0,
    )
    min_response_length: int = setting(
        0, "Retry a judgement of an evaluation with fewer characters.", verbs=EVALUATIONS, group="policy", ge=0
    )
    num_choices: Annotated[int, Field(ge=2, le=MOST_CHOICES)] | Literal["auto"] = setting(
        4, "Show this many answers (2 to 26), each under a letter; auto: as many as the row has.", common=True
    )
    eval_categories: Annotated[list[str] | None, NoDecode, BeforeValidator(comma_separated)] = setting(
        None,
        'Evaluate only these subsets, such as Math,Safety or ["Math", "Safety"], written as in the rows; all if unset.',
        verbs=EVALUATIONS,
        common=True,
        min_length=1,
    )
    max_ties_responses: int = setting(
        100, "Rate at most this many answers of a row of the Ties subset, one call each.", verbs=EVALUATIONS, ge=2
    )
    shuffle: Shuffle = setting(
        "permutation",
        "Choose the order of the answers. permutation: shuffle all. official_swap: put the correct one into a random "
        "place, as RewardBench-2's code does.",
    )
    parse_mode: ParseMode = setting(
        "last",
        "Choose how a judgement is read. last: its last [[X]] or rating. official: as RewardBench-2's code reads it.",
    )
    swap_evaluate: bool = setting(
        False, "Ask for each choice in both orders; a row counts as right only if both are.", verbs=EVALUATIONS
    )
    swap_consistency: bool = setting(
        False, "Also train on each row in reverse order, as a second group.", verbs=ROLLOUTS
    )
    min_pass_rate: float = operational(
        0.0,
        "Drop groups whose share (0 to 1) of right answers is below this: they are too hard to learn from.",
        verbs=ROLLOUTS,
        ge=0,
        le=1,
    )
    max_pass_rate: float = operational(
        1.0,
        "Drop groups whose share (0 to 1) of right answers is above this: they are too easy to learn from.",
        verbs=ROLLOUTS,
        ge=0,
        le=1,
    )
    judge_rating_prompt: TextOrFile | None = setting(
        None,
        "Use this text instead of the built-in instructions of a rating; @file reads it from a file, byte for byte.",
        group="judge",
    )
    eval_dataset: str = setting(
        "allenai/reward-bench-2",
        "Evaluate on this dataset: hub name or file.",
        verbs=EVALUATIONS,
        group="data",
        common=True,
    )
    eval_split: str = setting("test", "Evaluate on this split of a hub dataset.", verbs=EVALUATIONS, group="data")
    train_dataset: str | None = setting(
        None, "Train on this dataset of preferences: hub name or file.", verbs=ROLLOUTS, group="data", common=True
    )
    train_split: str = setting("train", "Train on this split of a hub dataset.", verbs=ROLLOUTS, group="data")

    @property
    def policy_is_judge(self) -> bool:
        """Always true: the policy judges, and no other judge is called."""
        return True

    def prompt_digests(self) -> dict[str, str]:
        """The digests of the prompts of choices and of ratings."""
        rating = prompts.load("rating") if self.judge_rating_prompt is None else self.judge_rating_prompt
        return {**super().prompt_digests(), "judge_rating_prompt": prompt_digest(rating)}
