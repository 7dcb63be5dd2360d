"""Pairwise judgement: the policy is the judge. RewardBench-2 in evaluation, any preference data in training.

Source: allenai/reward-bench; Malik et al., RewardBench 2: Advancing Reward Model Evaluation (2025).
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

if __name__ == "__main__":  # run as a script, from whichever folder: the packages stand beside this one
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while the libraries load just ends; the command takes it over

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from environments.base import JudgedEnv
from environments.completions import Completion, Conversation, system_text
from environments.data.pairs import PairTask, Shuffle, check_choices, choice_task, is_ties, ties_task
from environments.data.preferences import Preference, read_preferences
from environments.data.rows import Split, load_rows
from environments.metrics import MetricAggregator, slug
from environments.records import Sample
from environments.settings import SAMPLES, EnvConfig, comma_separated
from environments.settings.verbs import EVALUATIONS, ROLLOUTS
from eval_environments.pairwise_metrics import (
    PairwiseDetail,
    SwapVotes,
    official_scores,
    record_choice,
    record_ties,
)
from judges import prompts
from judges.config.fields import operational, setting
from judges.config.text import TextOrFile, prompt_digest
from judges.core.judgment import Judgment, Status
from judges.llm.errors import DataError, SettingsError
from judges.pairwise.prompt import MOST_CHOICES, choice_messages, rating_messages
from judges.pairwise.rewardbench import ties_row_score
from judges.pairwise.settings import ChoiceJudgeSettings
from judges.parsing.verdicts import choice_letter, choice_letter_official, rating, rating_official

logger = logging.getLogger(__name__)


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
    min_response_length: int = setting(0, "Retry a judgement with fewer characters.", group="policy", ge=0)
    num_choices: Annotated[int, Field(ge=2, le=MOST_CHOICES)] | Literal["auto"] = setting(
        4, "Show this many answers (2 to 26), each under a letter; auto: as many as the row has.", common=True
    )
    eval_categories: Annotated[list[str] | None, NoDecode, BeforeValidator(comma_separated)] = setting(
        None,
        'Evaluate only these subsets, such as Math,Safety or ["MATH", "SAFETY"]; all if unset.',
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
    parse_mode: Literal["last", "official"] = setting(
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
        """Always."""
        return True

    def prompt_digests(self) -> dict[str, str]:
        """Those of choices and of ratings."""
        rating = prompts.load("rating") if self.judge_rating_prompt is None else self.judge_rating_prompt
        return {**super().prompt_digests(), "judge_rating_prompt": prompt_digest(rating)}


class PairwiseJudgementEnv(JudgedEnv[PairwiseConfig, PairTask, PairwiseDetail]):
    """The policy judges: the best of N answers by letter, tied ones by ratings."""

    name = "pairwise_judgement"
    headline = ("percent_correct", "correct")
    offline_samples = {
        "eval_dataset": str(SAMPLES / "pairwise.jsonl"),
        "train_dataset": str(SAMPLES / "preferences_train.jsonl"),
    }

    def tasks(self, split: Split) -> Sequence[PairTask]:
        """RewardBench-2's rows, or preference data: choices, and ratings for rows of the Ties subset."""
        return self._train_tasks() if split == "train" else self._eval_tasks()

    def _eval_tasks(self) -> list[PairTask]:
        config = self.config
        rows = self._of_categories(self._preferences(config.eval_dataset, config.eval_split, all_rows=True))
        if config.num_choices != "auto":
            check_choices(rows, config.num_choices, config.eval_dataset)
        return [ties_task(row, most=config.max_ties_responses) if is_ties(row) else self._choice(row) for row in rows]

    def _train_tasks(self) -> list[PairTask]:
        if self.config.train_dataset is None:
            raise SettingsError("--env.train_dataset: training needs preference data: a hub name or a file")
        rows = self._preferences(self.config.train_dataset, self.config.train_split, all_rows=False)
        tasks = [self._choice(row) for row in rows]
        return [*tasks, *(task.swapped() for task in tasks)] if self.config.swap_consistency else tasks

    def _preferences(self, source: str, split: str, *, all_rows: bool) -> list[Preference]:
        preferences = read_preferences(load_rows(source, split=split), all_rows=all_rows)
        if preferences.dropped:
            said = ", ".join(f"{count} for {reason}" for reason, count in preferences.dropped.items())
            logger.warning("%s: rows that are no preference are left out: %s", source, said)
        return preferences.rows

    def _of_categories(self, rows: list[Preference]) -> list[Preference]:
        if self.config.eval_categories is None:
            return rows
        wanted = {slug(name) for name in self.config.eval_categories}
        there = {slug(row.category or "") for row in rows}
        if not wanted <= there:
            raise DataError(
                f"--env.eval_categories: {', '.join(sorted(wanted - there))} not in {self.config.eval_dataset}; "
                f"it has {', '.join(sorted(there))}"
            )
        return [row for row in rows if slug(row.category or "") in wanted]

    def _choice(self, row: Preference) -> PairTask:
        config = self.config
        count = None if config.num_choices == "auto" else config.num_choices
        return choice_task(row, num_choices=count, seed=config.seed, shuffle=config.shuffle)

    def conversations(self, task: PairTask) -> list[Conversation]:
        """A choice is one question, or two in both orders; a Ties row has one for each answer."""
        config = self.config
        system = system_text(config, "thinking_judge")
        if task.mode == "ties":
            instructions = config.judge_rating_prompt
            return [
                rating_messages(task.question, answer, system=system, instructions=instructions)
                for answer in task.answers
            ]
        orders = [task, task.swapped()] if config.swap_evaluate else [task]
        return [
            choice_messages(task.question, order.answers, system=system, system_prompt=config.judge_system_prompt)
            for order in orders
        ]

    async def judge(self, task: PairTask, completions: Sequence[Completion]) -> Judgment[PairwiseDetail]:
        """Read the verdicts and compare them with the right answers: no calls."""
        detail = self._read(task, completions)
        if task.mode == "ties":
            readable = any(value is not None for value in detail.ratings)
            score, label = ties_row_score(detail.ratings, detail.num_correct), None
        else:
            readable = all(letter is not None for letter in detail.letters)
            score, label = float(detail.letters == detail.gold), "".join(letter or "-" for letter in detail.letters)
        if not readable:
            return Judgment(None, Status.INVALID_COMPLETION, explanation="no readable verdict", detail=detail)
        return Judgment(score, Status.OK, label=label, detail=detail)

    def _read(self, task: PairTask, completions: Sequence[Completion]) -> PairwiseDetail:
        texts = [completion.answer for completion in completions]
        official = self.config.parse_mode == "official"
        if task.mode == "ties":
            by_them = tuple(rating_official(text) for text in texts)
            ratings = by_them if official else tuple(rating(text) for text in texts)
            return PairwiseDetail(
                "ties",
                ratings=ratings,
                official_ratings=by_them,
                num_correct=len(task.correct),
                truncated=task.truncated,
            )
        by_them_letters = tuple(choice_letter_official(text) for text in texts)
        shown = tuple(letter if letter is not None and letter in task.letters else None for letter in by_them_letters)
        letters = shown if official else tuple(choice_letter(text, task.letters) for text in texts)
        orders = [task, task.swapped()][: len(completions)]
        return PairwiseDetail(
            "choice", gold=tuple(each.gold for each in orders), letters=letters, official_letters=by_them_letters
        )

    def drop_reason(self, judgments: Sequence[Judgment[PairwiseDetail]]) -> str | None:
        """Rows that are too hard or too easy, by the share of the group that was right."""
        right = [judgment.score == 1.0 for judgment in judgments]  # not the rewards: bad thinking may cost more
        share = sum(right) / len(right)
        return None if self.config.min_pass_rate <= share <= self.config.max_pass_rate else "pass_rate"

    def record_metrics(self, metrics: MetricAggregator, task: PairTask, sample: Sample[PairwiseDetail]) -> None:
        """Accuracy overall and by category; formats, letters and ratings. A policy that failed was wrong."""
        score = sample.score or 0.0
        metrics.mean("percent_correct", score, interval=True)
        detail = sample.judgment.detail if sample.judgment is not None else None
        if detail is not None and detail.mode == "choice":
            record_choice(metrics, detail, task.letters)
            if metrics.prefix == "train" and self.config.swap_consistency:
                share = self._swaps.add(task, detail.letters[0])
                if share is not None:
                    metrics.mean("swap_consistency_rate", share)
        elif detail is not None:
            record_ties(metrics, detail)
        if task.category is not None:
            metrics.mean(f"percent_correct_{slug(task.category)}", score)

    @cached_property
    def _swaps(self) -> SwapVotes:
        return SwapVotes(self.config.group_size)

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[PairTask, Sample[PairwiseDetail]]]) -> None:
        """RewardBench-2's own scores, if this was the whole benchmark."""
        config = self.config
        reasons = {
            "env.eval_categories leaves subsets out": config.eval_categories is not None,
            "--limit leaves rows out": self.settings.limit is not None,
            "env.num_choices is not 4": config.num_choices != 4,
            "env.swap_evaluate asks in two orders": config.swap_evaluate,
        }
        official_scores(metrics, rows, incomplete=next((why for why, is_so in reasons.items() if is_so), None))


if __name__ == "__main__":
    PairwiseJudgementEnv.cli()
