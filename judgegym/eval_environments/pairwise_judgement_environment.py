"""Pairwise judgement: the policy is the judge.

It evaluates on RewardBench-2 and trains on any preference data.

Source: allenai/reward-bench; Malik et al., RewardBench 2: Advancing Reward Model Evaluation (2025).
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgegym.data.pairs import (
    PairTask,
    Preference,
    add_swapped,
    check_choices,
    choice_task,
    is_ties,
    read_preferences,
    ties_task,
)
from judgegym.data.rows import Split, load_rows
from judgegym.data.task_list import TaskList
from judgegym.engine.completions import Completion, Conversation, system_text
from judgegym.engine.metrics import GoldLabel, MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.base import JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.eval_environments.pairwise import (
    PairwiseConfig,
    PairwiseDetail,
    SwapVotes,
    expect_pair_metrics,
    read_choices,
    read_ratings,
    record_choice,
    record_official_scores,
    record_ties,
)
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.naming import suggest_similar
from judgegym.judges.pairwise import choice_prompt, rating_prompt
from judgegym.judges.parsing.labels import choice_letter
from judgegym.judges.parsing.scores import rating
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.llm.errors import DataError, SettingsError

logger = logging.getLogger(__name__)

_MAX_CATEGORIES = 50
"""Maximum number of categories in a message."""
ORDERS = ("as_shown", "reversed")
"""Orders of the answers with `swap_evaluate`."""


class PairwiseJudgementEnv(JudgedEnv[PairwiseConfig, PairTask, PairwiseDetail]):
    """The policy chooses the best of N answers by letter, and rates the answers of Ties rows."""

    spec = EnvSpec(
        name="pairwise_judgement",
        headline=("percent_correct", "correct"),
        outcomes=(
            Outcome.from_metric("RewardBench-2 score", "rewardbench2/score", unit="number"),
            Outcome.from_metric("readable choices", "choice_format_compliance_rate"),
            Outcome.from_metric("both orders agree", "position_consistency_rate"),
            Outcome.from_metric("A among wrong choices", "wrong_answer_a_bias_rate"),
            Outcome.from_metric("readable ratings", "ties_format_compliance_rate"),
            Outcome.from_metric("truncated Ties rows", "ties_truncated_rate", is_fault=True),
        ),
        offline_samples={
            "eval_dataset": str(SAMPLES / "pairwise.jsonl"),
            "train_dataset": str(SAMPLES / "preferences_train.jsonl"),
        },
    )

    def tasks(self, split: Split) -> Sequence[PairTask]:
        """Load RewardBench-2 (choices, and ratings for Ties) or, in training, preferences."""
        if split == "train":
            return self._train_tasks()
        return self._eval_tasks()

    def _eval_tasks(self) -> TaskList[PairTask]:
        config = self.config
        rows = self._select_categories(
            self._preferences(config.eval_dataset, config.eval_split, all_rows=True)
        )
        if config.num_choices != "auto":
            check_choices(rows, config.num_choices, config.eval_dataset)

        def make_task(row: Preference) -> PairTask:
            if is_ties(row):
                return ties_task(row, max_answers=config.max_ties_responses)
            return self._make_choice_task(row)

        return rows.map(make_task)

    def _preferences(self, source: str, split: str, *, all_rows: bool) -> TaskList[Preference]:
        preferences = read_preferences(load_rows(source, split=split), all_rows=all_rows)
        if preferences.dropped:
            counts = ", ".join(
                f"{count} for {reason}" for reason, count in preferences.dropped.items()
            )
            self.warn_once(logger, f"{source}: rows without a preference are left out: {counts}")
        return preferences.rows

    def _select_categories(self, rows: TaskList[Preference]) -> TaskList[Preference]:
        if self.config.eval_categories is None:
            return rows
        categories = sorted(rows.group_names)
        matches = {
            name: _match_category(name, categories)
            for name in sorted(set(self.config.eval_categories))
        }
        problems = ""
        for name, match in matches.items():
            if match is None:
                hint = suggest_similar(name, categories)
                problems += f"no row of {self.config.eval_dataset} has the category {name!r}{hint} "
        if problems:
            listing = ", ".join(map(repr, categories[:_MAX_CATEGORIES])) or "none"
            more = len(categories) - _MAX_CATEGORIES
            if more > 0:
                listing = f"{listing} and {more} more"
            raise DataError(f"--env.eval_categories: {problems}Its categories are {listing}")
        wanted = set(matches.values())
        return rows.where(lambda row: row.category in wanted)

    def _make_choice_task(self, row: Preference) -> PairTask:
        config = self.config
        count = None if config.num_choices == "auto" else config.num_choices
        return choice_task(row, num_choices=count, seed=config.seed, shuffle=config.shuffle)

    def _train_tasks(self) -> TaskList[PairTask]:
        if self.config.train_dataset is None:
            raise SettingsError(
                "--env.train_dataset: training needs preference data: a hub name or a file"
            )
        rows = self._preferences(self.config.train_dataset, self.config.train_split, all_rows=False)
        tasks = rows.map(self._make_choice_task)
        if self.config.swap_consistency:
            return add_swapped(tasks)
        return tasks

    def conversations(self, task: PairTask) -> list[Conversation]:
        """Ask for the choice, with `swap_evaluate` in both orders.

        For a Ties row, rate each answer.
        """
        task_prompts = self._make_prompts(task)
        if self.config.swap_evaluate and task.mode == "choice":
            task_prompts += self._make_prompts(task.swap())
        return [prompt.messages for prompt in task_prompts]

    def _make_prompts(self, task: PairTask) -> list[Prompt]:
        """Make the prompt of a choice in one order, or of the rating of each answer."""
        config = self.config
        system = system_text(self.config, "thinking_judge")
        if task.mode == "choice":
            return [
                choice_prompt(
                    task.question,
                    task.answers,
                    system=system,
                    system_prompt=config.judge_system_prompt,
                )
            ]
        instructions = config.judge_rating_prompt
        return [
            rating_prompt(task.question, text, system=system, instructions=instructions)
            for text in task.answers
        ]

    async def judge(
        self, task: PairTask, completions: Sequence[Completion]
    ) -> Judgment[PairwiseDetail]:
        """Parse the verdicts and compare them with the right answers; no calls are made.

        Both orders show the same suspects.
        """
        texts = [completion.answer for completion in completions]
        read_verdicts = read_ratings if task.mode == "ties" else read_choices
        return replace(
            read_verdicts(task, texts, self.config.parse_mode),
            suspects=sum(prompt.suspects for prompt in self._make_prompts(task)),
        )

    def record_metrics(
        self, metrics: MetricAggregator, task: PairTask, sample: Sample[PairwiseDetail]
    ) -> None:
        """Record accuracy by category, formats, letters and ratings; a failed policy is wrong."""
        score = sample.score or 0.0
        metrics.mean("percent_correct", score, interval=True)
        detail = sample.detail
        if detail is not None and detail.mode == "choice":
            record_choice(metrics, detail, task.letters)
            if metrics.prefix == "train" and self.config.swap_consistency:
                share = self._swaps.add(task, detail.letters[0])
                if share is not None:
                    metrics.mean("swap_consistency_rate", share)
        elif detail is not None:
            record_ties(metrics, detail)
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.mean(f"percent_correct_{category}", score)

    @cached_property
    def _swaps(self) -> SwapVotes:
        return SwapVotes(self.config.group_size)

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[PairTask, Sample[PairwiseDetail]]]
    ) -> None:
        """Record RewardBench-2's own scores, if this was the whole benchmark."""
        config = self.config
        reasons = {
            "env.eval_categories leaves subsets out": config.eval_categories is not None,
            "--limit leaves rows out": self.settings.limit is not None,
            "env.num_choices is not 4": config.num_choices != 4,
            "env.swap_evaluate asks in two orders": config.swap_evaluate,
        }
        record_official_scores(
            metrics,
            rows,
            incomplete=next((reason for reason, applies in reasons.items() if applies), None),
        )

    def texts(self, task: PairTask) -> Mapping[str, str]:
        """Return the answers in the order in which the policy sees them.

        Titles mark the right ones.
        """
        marks: Iterable[object] = range(1, len(task.answers) + 1)
        if task.mode == "choice" and task.letters:
            marks = task.letters
        names = [f"answer {mark}" for mark in marks]
        return {
            f"{name} (right)" if index in task.correct else name: answer
            for index, (name, answer) in enumerate(zip(names, task.answers, strict=True))
        }

    def verdict_at(self, task: PairTask, answer: str) -> Place | None:
        """Return the position of the letter or rating; RewardBench-2's own parsing has none."""
        if self.config.parse_mode == "official":
            return None
        is_rating = task.mode == "ties"
        match = rating.find(answer) if is_rating else choice_letter.find(answer, task.letters)
        if match is None:
            return None
        return match.at

    def gold(self, task: PairTask, sample: Sample[PairwiseDetail]) -> Sequence[GoldLabel]:
        """Return pairs of right letter and the policy's, by order; empty for Ties rows."""
        if task.mode == "ties":
            return ()
        detail = sample.detail
        orders = [task, task.swap()] if self.config.swap_evaluate else [task]
        letters = detail.letters if detail is not None else (None,) * len(orders)
        names = ORDERS if len(orders) > 1 else ("",)
        labels = zip(names, orders, letters, strict=True)
        return [GoldLabel.from_labels(order.gold, letter, name) for name, order, letter in labels]

    def orders(self, judgment: Judgment[PairwiseDetail]) -> Mapping[str, float]:
        """Return by order whether the choice was right; empty unless both orders were asked."""
        detail = judgment.detail
        if detail is None or len(detail.letters) < len(ORDERS):
            return {}
        right = (letter == gold for letter, gold in zip(detail.letters, detail.gold, strict=True))
        return dict(zip(ORDERS, map(float, right), strict=True))

    def drop_reason(self, judgments: Sequence[Judgment[PairwiseDetail]]) -> str | None:
        """Return why a group is dropped: its share of right answers is too low or too high."""
        # Not by rewards: malformed thinking may lower them.
        right = [judgment.score == 1.0 for judgment in judgments]
        share = sum(right) / len(right)
        if self.config.min_pass_rate <= share <= self.config.max_pass_rate:
            return None
        return "pass_rate"

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[PairTask]) -> None:
        """Declare the metrics of choices and of ratings, also if the rows have only one kind."""
        expect_pair_metrics(metrics, tasks, swaps=self.config.swap_evaluate)


def _match_category(name: str, categories: Sequence[str]) -> str | None:
    """Return the category with this name, or else the only one that differs in case alone."""
    if name in categories:
        return name
    matches = [category for category in categories if category.casefold() == name.casefold()]
    if len(matches) == 1:
        return matches[0]
    return None


if __name__ == "__main__":
    PairwiseJudgementEnv.cli()
