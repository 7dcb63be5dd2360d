"""Settings, parsing and metrics of pairwise judgement.

Letters and ratings are parsed from the answers and compared with the right ones. The metrics are
the specification's, and RewardBench-2's own.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from judgegym.data.pairs import SWAPPED, Mode, PairTask, Shuffle
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.engine.settings import EnvConfig, split_commas
from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.eval_environments.rewardbench import (
    SUBSETS,
    TIES,
    UNREADABLE_CHOICE,
    TiesRow,
    leaderboard_score,
    ties_row_score,
    ties_score,
)
from judgegym.judges import prompts
from judgegym.judges.config.explaining import TextOrFile, prompt_digest
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.pairwise import MOST_CHOICES, ChoiceJudgeSettings
from judgegym.judges.parsing.labels import choice_letter, choice_letter_official
from judgegym.judges.parsing.scores import rating, rating_official

ParseMode = Literal["last", "official"]


@dataclass(frozen=True, slots=True)
class PairwiseDetail:
    """Verdicts of a policy on one row.

    Attributes:
        mode: a choice of one answer, or a rating of each.
        gold: the right letter of each conversation (two with both orders); empty for ties.
        letters: the letter parsed from each conversation; `None` without one.
        official_letters: the letters that RewardBench-2's own code would parse.
        ratings: the rating of each answer, correct ones first; `None` without one;
            empty for choices.
        official_ratings: the ratings that RewardBench-2's own code would parse.
        ambiguous: whether RewardBench-2's own code would parse a different rating.
        num_correct: number of ratings of correct answers.
        truncated: whether answers were left out.
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
    """Judge choices: 1.0 if the letter is right in each order, else 0.0.

    Invalid without a letter.
    """
    official = tuple(choice_letter_official(text) for text in texts)
    letters: tuple[str | None, ...]
    if mode == "official":
        letters = tuple(
            letter if letter is not None and letter in task.letters else None for letter in official
        )
    else:
        letters = tuple(choice_letter(text, task.letters) for text in texts)
    orders = [task, task.swap()][: len(texts)]
    gold = tuple(order.gold for order in orders)
    detail = PairwiseDetail("choice", gold=gold, letters=letters, official_letters=official)
    if None in letters:
        return _unreadable(detail)
    return Judgment(
        float(letters == gold),
        Status.OK,
        label="".join(letter or "-" for letter in letters),
        detail=detail,
    )


def read_ratings(task: PairTask, texts: Sequence[str], mode: ParseMode) -> Judgment[PairwiseDetail]:
    """Judge the ratings of a Ties row by the specification's rule; invalid without any rating."""
    official = tuple(rating_official(text) for text in texts)
    ours = tuple(rating(text) for text in texts)
    ratings = official if mode == "official" else ours
    detail = PairwiseDetail(
        "ties",
        ratings=ratings,
        official_ratings=official,
        ambiguous=tuple(
            official_rating is not None and official_rating != our_rating
            for official_rating, our_rating in zip(official, ours, strict=True)
        ),
        num_correct=len(task.correct),
        truncated=task.truncated,
    )
    if all(value is None for value in ratings):
        return _unreadable(detail)
    return Judgment(ties_row_score(ratings, detail.num_correct), Status.OK, detail=detail)


def _unreadable(detail: PairwiseDetail) -> Judgment[PairwiseDetail]:
    return Judgment(
        None, Status.INVALID_COMPLETION, explanation="no readable verdict", detail=detail
    )


class PairwiseConfig(EnvConfig, ChoiceJudgeSettings):
    """Settings of pairwise judgement."""

    thinking_mode: bool = setting(True, group="policy", common=True)
    """Ask the policy to think between <think> and </think>; an answer in any other format counts as
    wrong."""
    eval_max_tokens: int = setting(16384, verbs=EVALUATIONS, group="policy", ge=0)
    """Limit a judgement in evaluations to this many tokens; 0 sends no limit."""
    min_response_length: int = setting(0, verbs=EVALUATIONS, group="policy", ge=0)
    """Retry a judgement of an evaluation with fewer characters."""
    num_choices: Annotated[int, Field(ge=2, le=MOST_CHOICES)] | Literal["auto"] = setting(
        4, common=True
    )
    """Show this many answers (2 to 26), each under a letter; auto: as many as the row has."""
    eval_categories: Annotated[list[str] | None, NoDecode, BeforeValidator(split_commas)] = setting(
        None, verbs=EVALUATIONS, common=True, min_length=1
    )
    """Evaluate only these subsets, such as Math,Safety or ["MATH", "SAFETY"], in upper or lower
    case; all if unset."""
    max_ties_responses: int = setting(100, verbs=EVALUATIONS, ge=2)
    """Rate at most this many answers of a row of the Ties subset, one call each."""
    shuffle: Shuffle = setting("permutation")
    """Choose the order of the answers. permutation: shuffle all. official_swap: put the correct one
    into a random place, as RewardBench-2's code does."""
    parse_mode: ParseMode = setting("last")
    """Choose how a judgement is read. last: its last [[X]] or rating. official: as RewardBench-2's
    code reads it."""
    swap_evaluate: bool = setting(False, verbs=EVALUATIONS)
    """Ask for each choice in both orders; a row counts as right only if both are."""
    swap_consistency: bool = setting(False, verbs=ROLLOUTS)
    """Also train on each row in reverse order, as a second group."""
    min_pass_rate: float = operational(0.0, verbs=ROLLOUTS, ge=0, le=1)
    """Drop groups whose share (0 to 1) of right answers is below this: they are too hard to learn
    from."""
    max_pass_rate: float = operational(1.0, verbs=ROLLOUTS, ge=0, le=1)
    """Drop groups whose share (0 to 1) of right answers is above this: they are too easy to learn
    from."""
    judge_rating_prompt: TextOrFile | None = setting(None, group="judge")
    """Use this text instead of the built-in instructions of a rating; @file reads it from a file,
    byte for byte."""
    eval_dataset: str = setting(
        "allenai/reward-bench-2", verbs=EVALUATIONS, group="data", common=True
    )
    """Evaluate on this dataset: hub name or file."""
    eval_split: str = setting("test", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of a hub dataset."""
    train_dataset: str | None = setting(None, verbs=ROLLOUTS, group="data", common=True)
    """Train on this dataset of preferences: hub name or file."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of a hub dataset."""

    @property
    def policy_is_judge(self) -> bool:
        """Always true: the policy judges, and no other judge is called."""
        return True

    def prompt_digests(self) -> dict[str, str]:
        """Return the digests of the prompts of choices and of ratings."""
        text = self.judge_rating_prompt
        if text is None:
            text = prompts.load("rating")
        return {**super().prompt_digests(), "judge_rating_prompt": prompt_digest(text)}


_RATINGS = range(1, 11)


def expect_pair_metrics(
    metrics: MetricAggregator, tasks: Sequence[PairTask], *, swaps: bool
) -> None:
    """Declare the documented metrics of these rows, with the reason why one may have no value."""
    categories: dict[str, None] = {}
    letters: dict[str, None] = {}
    choices = 0
    for task in tasks:  # computed once: the properties build new sets
        if task.category is not None:
            categories[task.category] = None
        if task.mode == "choice":
            choices += 1
            letters.update(dict.fromkeys(task.letters))
    for category in categories:
        name = metrics.names(category)
        metrics.expect("no row of this category was judged", f"percent_correct_{name}")
    gold_frequencies = (f"gold_letter_freq_{letter}" for letter in letters)
    frequencies = (f"predicted_letter_freq_{letter}" for letter in letters)
    reason = unread = none_wrong = "there is no row with a choice"
    if choices:
        reason = "no choice was answered"
        unread, none_wrong = "no letter could be read", "no readable choice was wrong"
    metrics.expect(reason, "choice_format_compliance_rate", *gold_frequencies)
    metrics.expect(unread, *frequencies)
    metrics.expect(none_wrong, "wrong_answer_a_bias_rate")
    if swaps:
        metrics.expect(reason, "position_consistency_rate")
    reason = unread = "there is no row of the Ties subset"
    if choices < len(tasks):
        reason, unread = "no rating was answered", "no rating could be read"
    rates = ("format_compliance_rate", "error_rate", "ambiguous_rating_rate", "truncated_rate")
    metrics.expect(reason, *(f"ties_{name}" for name in rates))
    frequencies = (f"ties_rating_freq_{rating}" for rating in _RATINGS)
    metrics.expect(unread, "avg_ties_rating", *frequencies)


def record_choice(metrics: MetricAggregator, detail: PairwiseDetail, letters: str) -> None:
    """Record format, letters and A-bias of a choice; with both orders, also their agreement."""
    for gold, letter in zip(detail.gold, detail.letters, strict=True):
        metrics.rate("choice_format_compliance_rate", letter is not None)
        for shown in letters:
            metrics.rate(f"gold_letter_freq_{shown}", gold == shown)
        if letter is not None:
            for shown in letters:
                metrics.rate(f"predicted_letter_freq_{shown}", letter == shown)
            if letter != gold:
                metrics.rate("wrong_answer_a_bias_rate", letter == "A")
    if len(detail.letters) == 2:
        first, second = (
            None if letter is None else letters.index(letter) for letter in detail.letters
        )
        agree = first is not None and second is not None and first == len(letters) - 1 - second
        metrics.rate("position_consistency_rate", agree)


def record_ties(metrics: MetricAggregator, detail: PairwiseDetail) -> None:
    """Record format and distribution of the ratings of a row."""
    for value, is_ambiguous in zip(detail.ratings, detail.ambiguous, strict=True):
        metrics.rate("ties_format_compliance_rate", value is not None)
        metrics.rate("ties_error_rate", value is None)
        metrics.rate("ties_ambiguous_rating_rate", is_ambiguous)
        if value is not None:
            metrics.mean("avg_ties_rating", value)
            for rating in _RATINGS:
                metrics.rate(f"ties_rating_freq_{rating}", value == rating)
    metrics.rate("ties_truncated_rate", detail.truncated)


def record_official_scores(
    metrics: MetricAggregator,
    rows: Sequence[tuple[PairTask, Sample[PairwiseDetail]]],
    *,
    incomplete: str | None,
) -> None:
    """Record RewardBench-2's own scores by subset and overall, or why they are left out.

    Args:
        metrics: the aggregator; scores are recorded under `rewardbench2/`.
        rows: all selected rows.
        incomplete: why the run is not the whole benchmark; `None` if it is.
    """
    scores = {slug(subset): array("d") for subset in SUBSETS}
    ties: list[TiesRow] = []
    for task, sample in rows if incomplete is None else ():
        detail = sample.judgment.detail if sample.judgment is not None else None
        if detail is None:
            incomplete = "the policy failed on some rows"
            break
        if detail.truncated:
            incomplete = "answers of the Ties subset were left out (env.max_ties_responses)"
        subset = slug(task.category or "")
        if subset == slug(TIES):
            ties.append(
                TiesRow(
                    id=task.uid, num_correct=detail.num_correct, ratings=detail.official_ratings
                )
            )
        elif subset in scores:
            pairs = zip(detail.official_letters, detail.gold, strict=True)
            scores[subset].extend(
                UNREADABLE_CHOICE if letter is None else letter == gold for letter, gold in pairs
            )
    if incomplete is not None:
        for name in ("score", *map(slug, SUBSETS)):
            metrics.leave_out(f"rewardbench2/{name}", incomplete)
        return
    subset_scores: dict[str, float] = {}
    for subset in SUBSETS:
        name = slug(subset)
        values = scores[name]
        if subset == TIES:
            score = ties_score(ties)
        elif values:
            score = sum(values) / len(values)
        else:
            score = None
        if score is None:
            reason = "no rows"
            if subset == TIES and ties:
                reason = "no question is there both as ref and as tied"
            metrics.leave_out(f"rewardbench2/{name}", reason)
        else:
            subset_scores[subset] = score
            metrics.number(f"rewardbench2/{name}", score)
    if len(subset_scores) == len(SUBSETS):
        metrics.number("rewardbench2/score", leaderboard_score(subset_scores))
    else:
        metrics.leave_out("rewardbench2/score", "a subset has no score")


@dataclass(slots=True)
class SwapVotes:
    """A policy's choices in a row and in its reversed twin, collected until both are complete."""

    group_size: int
    _chosen: dict[str, tuple[list[int | None], list[int | None]]] = field(default_factory=dict)

    def add(self, task: PairTask, letter: str | None) -> float | None:
        """Add one rollout's choice.

        Returns:
            The share of rollouts, pair by pair, that chose the same answer in both orders; `None`
            until both groups are complete.
        """
        is_swapped = task.uid.endswith(SWAPPED)
        choices = self._chosen.setdefault(task.uid.removesuffix(SWAPPED), ([], []))
        position: int | None = None
        if letter is not None:
            position = task.letters.index(letter)
            if is_swapped:
                position = len(task.answers) - 1 - position
        choices[is_swapped].append(position)
        if min(map(len, choices)) < self.group_size:
            return None
        del self._chosen[task.uid.removesuffix(SWAPPED)]
        pairs = list(zip(choices[0], choices[1], strict=False))
        return sum(first == second is not None for first, second in pairs) / len(pairs)
