"""Prompts: the policy answers the prompts of any data set, and any judge of single responses scores the answers.

The judge is one of `judgegym.judges.scorers.registry`: a further one is here with its line there. Rows are read as
`judgegym score` reads them: a prompt in one of the usual columns, and beside it what the judge is shown (`reference`,
`rubric`, `aspects`, `context`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # until the command handles it, Ctrl-C ends the process without a traceback

from judgegym.data.answers import PromptTask, prompt_tasks
from judgegym.data.rows import Split
from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.metrics import MetricAggregator, record_parts, slug
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES, EnvConfig
from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.base import JudgedEnv
from judgegym.judges.config.fields import setting
from judgegym.judges.conversations.turns import images_of
from judgegym.judges.core.judge import SingleJudge
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.cascade import ESCALATED, CascadeJudge
from judgegym.judges.scorers.fields import CRITERIA_COLUMNS, criteria_column, judge_task_of
from judgegym.judges.scorers.registry import (
    SINGLE,
    ScorerSettings,
    SingleKind,
    about,
    kinds_that_read,
    open_judge,
    shown_fields,
)
from judgegym.llm.errors import DataError


class PromptsConfig(ScorerSettings, EnvConfig):
    """The judge, and the prompts."""

    unread = frozenset(name for name in ScorerSettings.model_fields if kinds_that_read(name).isdisjoint(SINGLE))

    judge: SingleKind = setting("rubric", about(SINGLE), common=True)
    train_dataset: str = setting("prompts.jsonl", verbs=ROLLOUTS, group="data", common=True)
    """Train on this dataset: hub name or file."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of a hub dataset."""
    eval_dataset: str = setting("prompts.jsonl", verbs=EVALUATIONS, group="data", common=True)
    """Evaluate on this dataset: hub name or file."""
    eval_split: str = setting("train", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of a hub dataset."""

    @property
    def without_effect(self) -> Mapping[str, Sequence[str]]:
        """The settings of other judges than the chosen one."""
        readers = {name: kinds_that_read(name) for name in ScorerSettings.model_fields}
        return {
            name: [f"judge={kind}" for kind in SINGLE if kind in kinds]
            for name, kinds in readers.items()
            if self.judge not in kinds
        }


class PromptsEnv(JudgedEnv[PromptsConfig, PromptTask, ScoreParts]):
    """A policy's answer, scored from 0 to 1."""

    name = "prompts"
    headline = ("mean_score", "score")
    offline_samples = {name: str(SAMPLES / "rubric_absolute.jsonl") for name in ("train_dataset", "eval_dataset")}

    def open_judges(self) -> None:
        """Open the judge."""
        judge = open_judge(self.config, self.clients.judge)
        assert isinstance(judge, SingleJudge)  # the settings allow no other kind
        self.single_judge: SingleJudge[Any, Any, Any] = judge
        self._reads_criteria = "criteria" in shown_fields(self.config)

    def tasks(self, split: Split) -> Sequence[PromptTask]:
        """Load the prompts; each row is one that the judge can judge."""
        config = self.config
        train = split == "train"
        source = config.train_dataset if train else config.eval_dataset
        shown = {*shown_fields(config)}
        shown |= {*CRITERIA_COLUMNS} if "criteria" in shown else set()
        part = config.train_split if train else config.eval_split
        tasks = prompt_tasks(source, part, also=sorted(shown), shows_images=True)
        for task in tasks:
            try:
                self.single_judge.check(self._task(task, ""))
            except ValueError as error:
                raise DataError(f"{source}: the row {task.uid}: {error}") from error
        return tasks

    def _task(self, task: PromptTask, answer: str) -> JudgeTask:
        column = criteria_column(task.fields) if self._reads_criteria else None
        fields = {name: value for name, value in task.fields.items() if name != column}
        given = fields if column is None else {**fields, "criteria": task.fields[column]}
        return judge_task_of(task.question, (answer,), given, images=images_of(task.turns))

    def conversations(self, task: PromptTask) -> list[Conversation]:
        """Ask the prompt."""
        return [[*self.system_messages, *task.messages]]

    def texts(self, task: PromptTask) -> Mapping[str, str]:
        """Return what the judge is shown of the row, where it is a text."""
        return {name: value for name, value in task.fields.items() if isinstance(value, str)}

    async def judge(self, task: PromptTask, completions: Sequence[Completion]) -> Judgment[ScoreParts]:
        """Score the answer."""
        judgment = await self.single_judge.judge_task(self._task(task, completions[0].answer))
        if judgment.score is None:
            return replace(judgment, detail=None)
        judge = self.single_judge
        parts = ScoreParts(dict(judge.components(judgment)), dict(judge.contributions(judgment)))
        return replace(judgment, score=self.single_judge.unit(judgment.score), detail=parts)

    async def level(
        self, task: PromptTask, completions: Sequence[Completion], judgments: Sequence[Judgment[ScoreParts]]
    ) -> Sequence[Judgment[ScoreParts]]:
        """Let the strong judge of a cascade decide all completions of a group if it decides one."""
        if not isinstance(self.single_judge, CascadeJudge):
            return judgments
        tasks = [self._task(task, completion.answer) for completion in completions]
        found = [(judgment, {} if judgment.detail is None else judgment.detail.parts) for judgment in judgments]
        levelled = await self.single_judge.level(tasks, found)
        name = self.single_judge.strong.name
        return [
            judgment
            if judgment is before or judgment.score is None
            else replace(judgment, detail=ScoreParts(dict(parts), {name: judgment.score}))
            for before, (judgment, parts) in zip(judgments, levelled, strict=True)
        ]

    def record_metrics(self, metrics: MetricAggregator, task: PromptTask, sample: Sample[ScoreParts]) -> None:
        """Record the score overall and by category, and that of each part of a reward."""
        score = self.invalid_completion_score if sample.score is None else sample.score
        metrics.mean("mean_score", score, interval=True)
        if task.category is not None:
            metrics.mean(f"mean_score_category_{metrics.names(task.category)}", score)
        detail = sample.judgment.detail if sample.judgment is not None else None
        if detail is not None:
            record_parts(metrics, self.config.part_names, detail.parts)
            self._record_cascade(metrics, detail.parts)

    def _record_cascade(self, metrics: MetricAggregator, parts: Mapping[str, float]) -> None:
        """Record how often the strong judge of a cascade decides, and how often rows shown to both differ."""
        if ESCALATED not in parts:
            return
        metrics.rate("escalated_rate", parts[ESCALATED] == 1.0)
        scores = [round(parts[name], 9) for name in self.config.part_names if name in parts]
        if parts[ESCALATED] == 0.0 and len(scores) == 2:
            first, second = ((score > 0.5) - (score < 0.5) for score in scores)
            metrics.rate("rechecked_differ_rate", first != second)

    def outcomes(self) -> Sequence[Outcome]:
        """Show the mean score of each part of a reward."""
        return [Outcome.of(f"part {name}", f"part_{slug(name)}", unit="number") for name in self.config.part_names]

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[PromptTask]) -> None:
        """Name the means of categories and of parts."""
        for name in self.config.part_names:
            metrics.expect("no completion has a score of this part", f"part_{slug(name)}")
            metrics.expect("no completion has a score", f"part_{slug(name)}_missing_rate")
        if self.config.judge == "cascade":
            metrics.expect("no completion has a score", "escalated_rate")
            metrics.expect("no row that the cheap judge decides was shown to both", "rechecked_differ_rate")
        for category in {task.category: None for task in tasks if task.category is not None}:
            metrics.expect("no row of this category has a score", f"mean_score_category_{metrics.names(category)}")


if __name__ == "__main__":
    PromptsEnv.cli()
