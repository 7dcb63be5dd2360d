"""Rubric-absolute: a response on a scale of whole numbers, by a rubric. The policy responds, or it is the judge.

Source: Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models (2023).
"""

from __future__ import annotations

import logging
import signal
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

if __name__ == "__main__":  # run as a script, from whichever folder: the packages stand beside this one
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while the libraries load just ends; the command takes it over

from pydantic import model_validator
from typing_extensions import Self

from environments.base import JudgedEnv
from environments.completions import (
    Completion,
    Conversation,
    system_text,
)
from environments.data.rows import Split, load_rows
from environments.data.rubric_rows import RubricTask, read_rubric_rows
from environments.metrics import MetricAggregator, slug
from environments.records import Sample
from environments.roles import RoleConfig
from environments.settings import SAMPLES
from environments.settings.verbs import EVALUATE, EVALUATIONS, ROLLOUTS
from judges.config.fields import setting
from judges.config.text import TextOrFile
from judges.core.judgment import Judgment, Status
from judges.core.scale import Scale
from judges.llm.errors import DataError, SettingsError
from judges.llm.wire import Message
from judges.parsing.verdicts import is_strict_feedback
from judges.rubrics.judge import RubricCase, RubricDetail, RubricScore, pool, rubric_judge
from judges.rubrics.prompt import read_score, rubric_messages
from judges.rubrics.settings import RubricJudgeSettings
from judges.statistics.agreement import score_agreement

logger = logging.getLogger(__name__)

_LISTED_LEVELS = 11
"""Scales of more levels than this have no table of each level against each."""

Comparison = Literal["exact", "distance", "squared"]


class RubricAbsoluteConfig(RoleConfig, RubricJudgeSettings):
    """Rubric-absolute's own settings."""

    score_responses: bool = setting(
        False,
        "Score the responses in the rows instead of a policy's, and compare the judge's scores with the gold scores.",
        verbs=EVALUATE,
        common=True,
    )
    reward: Comparison = setting(
        "distance",
        "With role=judge: choose the reward of a score that differs by Δ from the gold score. exact: 1 if Δ is 0, "
        "else 0. distance: 1 − |Δ| / (scale_max − scale_min). squared: 1 − (Δ / (scale_max − scale_min))².",
    )
    default_rubric: TextOrFile | None = setting(
        None, "Use this rubric for rows without one; @file reads it from a file."
    )
    train_dataset: str = setting(
        "prometheus-eval/Feedback-Collection",
        "Train on this dataset: hub name or file.",
        verbs=ROLLOUTS,
        group="data",
        common=True,
    )
    train_split: str = setting("train", "Train on this split of a hub dataset.", verbs=ROLLOUTS, group="data")
    eval_dataset: str = setting(
        "prometheus-eval/Feedback-Bench",
        "Evaluate on this dataset: hub name or file.",
        verbs=EVALUATIONS,
        group="data",
        common=True,
    )
    eval_split: str = setting("train", "Evaluate on this split of a hub dataset.", verbs=EVALUATIONS, group="data")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.score_responses and self.model_answers is not None:
            raise ValueError("score_responses and model_answers are two sources of responses; expected one")
        if self.role == "judge" and self.score_responses:
            raise ValueError("score_responses: with role=judge the policy scores the rows' own responses already")
        return self


class RubricAbsoluteEnv(JudgedEnv[RubricAbsoluteConfig, RubricTask, RubricDetail]):
    """A response by a rubric: the policy's, scored by a judge, or the row's, scored by the policy."""

    name = "rubric_absolute"
    headline = ("mean_reward", "reward")
    offline_samples = {
        "train_dataset": str(SAMPLES / "rubric_absolute.jsonl"),
        "eval_dataset": str(SAMPLES / "rubric_absolute.jsonl"),
    }

    @property
    def invalid_completion_score(self) -> float:
        """The lowest score; as judge, no agreement at all."""
        return 0.0 if self.config.role == "judge" else float(self.config.scale_min)

    def open_judges(self) -> None:
        """The judge of responses, with its self-critique."""
        self.rubric_judge = rubric_judge(self.config, self.clients.judge)

    def tasks(self, split: Split) -> Sequence[RubricTask]:
        """Rows with their rubrics; as judge, those that have a response and a gold score."""
        config = self.config
        source = config.train_dataset if split == "train" else config.eval_dataset
        if config.weighting == "logprobs" and config.role == "judge":
            raise SettingsError("--env.weighting: logprobs is for role=respondent; a policy's verdict is its text")
        rows = load_rows(source, split=config.train_split if split == "train" else config.eval_split)
        tasks = read_rubric_rows(rows, config.scale, default_rubric=config.default_rubric)
        if config.role == "respondent" and not (self._scores_responses and split == "eval"):
            return tasks
        usable = [task for task in tasks if task.response is not None and task.gold is not None]
        if not usable:
            said = "role=judge" if config.role == "judge" else "score_responses"
            raise DataError(f"{source}: {said} needs rows with a response and a gold score, and there are none")
        if len(usable) < len(tasks):
            logger.warning("%d of %d rows have no response or no gold score", len(tasks) - len(usable), len(tasks))
        return usable

    def dataset_answer(self, task: RubricTask) -> str | None:
        """The row's own response, if that is to be scored."""
        return task.response if self._scores_responses else None

    @property
    def _scores_responses(self) -> bool:
        return self.config.score_responses and self.verb != "serve"

    def conversations(self, task: RubricTask) -> list[Conversation]:
        """The instruction as it is; as judge, the judge's prompt, as often as there are judgments of an item."""
        config = self.config
        if config.role == "respondent":
            return [[*self.system_messages, Message(role="user", content=task.question)]]
        assert task.response is not None  # tasks() left the others out
        messages = rubric_messages(
            task.question,
            task.response,
            task.rubric,
            task.reference,
            output_format=config.output_format,
            system_prompt=config.judge_system_prompt,
            system=system_text(config, "thinking_judge"),
        )
        return [messages] * config.samples_per_item

    async def judge(self, task: RubricTask, completions: Sequence[Completion]) -> Judgment[RubricDetail]:
        """The judge's score of the response; as judge, the policy's score against the gold score."""
        if self.config.role == "judge":
            return self._compared(task, completions)
        (completion,) = completions
        return await self.rubric_judge.judge(RubricCase(task.question, completion.answer, task.rubric, task.reference))

    def _compared(self, task: RubricTask, completions: Sequence[Completion]) -> Judgment[RubricDetail]:
        config = self.config
        assert task.gold is not None  # tasks() left the others out
        scored = tuple(self._own_score(completion) for completion in completions)
        scores = [each.score for each in scored if each.score is not None]
        spread = statistics.stdev(scores) if len(scores) > 1 else None
        detail = RubricDetail(scored, spread, task.gold)
        if len(scores) < len(completions):
            return Judgment(None, Status.INVALID_COMPLETION, explanation="no readable score", detail=detail)
        given = pool(scores, config.samples_pooling)
        right = closeness(given, task.gold, config.scale, config.reward)
        return Judgment(right, Status.OK, f"{given:g}", detail=detail)

    def _own_score(self, completion: Completion) -> RubricScore:
        config, text = self.config, completion.answer
        score = read_score(text, config.output_format, config.scale)
        # The text stands in the sample already, as the policy's answer.
        return RubricScore(score, None, "", is_strict_feedback(text, config.output_format, config.scale))

    def reward(self, judgment: Judgment[RubricDetail]) -> float:
        """(score − lowest) / (highest − lowest); as judge, the agreement with gold. From 0 to 1."""
        assert judgment.score is not None  # only judgments with a score get here
        return judgment.score if self.config.role == "judge" else self.config.scale.unit(judgment.score)

    def record_metrics(self, metrics: MetricAggregator, task: RubricTask, sample: Sample[RubricDetail]) -> None:
        """Rewards overall and by category, the distribution of the scores, formats and spread."""
        config, detail = self.config, sample.judgment.detail if sample.judgment is not None else None
        worth = self.invalid_completion_score if sample.score is None else sample.score
        reward = worth if config.role == "judge" else config.scale.unit(worth)
        metrics.mean("mean_reward", reward, interval=True)
        if config.role == "respondent":
            metrics.mean("mean_score", worth, interval=True)
        if task.category is not None:
            metrics.mean(f"mean_reward_{slug(task.category)}", reward)
        if detail is None:
            return
        for each in detail.judgments:
            metrics.rate("strict_format_rate", each.strict)
        if detail.spread is not None:
            metrics.mean("spread_of_judgments", detail.spread)
        given = self._given(sample)
        if given is not None and len(config.scale.levels) <= _LISTED_LEVELS:
            for level in config.scale.levels:
                metrics.rate(f"score_freq_{level}", config.scale.nearest(given) == level)

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[RubricTask, Sample[RubricDetail]]]) -> None:
        """How far the judge (which may be the policy) agrees with gold, over the rows that it scored."""
        config, scale = self.config, self.config.scale
        if config.role != "judge" and not self._scores_responses:
            return
        scored = [
            (given, gold, sample)
            for task, sample in rows
            if (given := self._given(sample)) is not None and (gold := gold_of(task, sample)) is not None
        ]
        pairs = [(given, gold) for given, gold, _ in scored]
        metrics.count("n_used", len(pairs))
        metrics.count("n_failed", len(rows) - len(pairs))
        golds = [gold for _, gold in pairs]
        metrics.take(score_agreement([given for given, _ in pairs], golds, scale))
        if config.judge_critique_rounds:
            before = [score_before_critique(sample) for _, _, sample in scored]
            metrics.take(score_agreement(before, golds, scale), "_before_critique")
        if len(scale.levels) > _LISTED_LEVELS:
            metrics.leave_out("confusion", f"a scale of {len(scale.levels)} levels makes too long a table")
            return
        for gold_level in scale.levels:
            for level in scale.levels:
                hits = sum((scale.nearest(given), scale.nearest(gold)) == (level, gold_level) for given, gold in pairs)
                metrics.count(f"confusion_gold_{gold_level}_judge_{level}", hits)

    def record_failure(self, metrics: MetricAggregator, task: RubricTask, sample: Sample[RubricDetail]) -> None:
        """A score that is not there, where there is one to compare it with."""
        if self._scores_responses:
            metrics.count("n_failed")

    def _given(self, sample: Sample[RubricDetail]) -> float | None:
        """The score that a judge gave, on the scale; `None` if it gave none."""
        if sample.judgment is None or sample.judgment.status is not Status.OK or sample.judgment.detail is None:
            return None
        values = [each.value for each in sample.judgment.detail.judgments if each.value is not None]
        return pool(values, self.config.samples_pooling)


def gold_of(task: RubricTask, sample: Sample[RubricDetail]) -> float | None:
    """The gold score that the reward is of, whatever the dataset says by now."""
    detail = sample.judgment.detail if sample.judgment is not None else None
    return task.gold if detail is None or detail.gold is None else detail.gold


def score_before_critique(sample: Sample[RubricDetail]) -> float:
    """The score that the judge's own critique began with."""
    assert sample.judgment is not None and sample.judgment.score is not None  # only samples with a score get here
    return sample.judgment.score if sample.judgment.critique is None else sample.judgment.critique.before_score


def closeness(given: float, gold: float, scale: Scale, comparison: Comparison) -> float:
    """How near a score is to the gold score, from 0 to 1.

    With δ = |given − gold| / (highest − lowest): `distance` is 1 − δ, `squared` is 1 − δ², and `exact` is 1 if both are
    nearest to the same level of the scale and otherwise 0.
    """
    if comparison == "exact":
        return float(scale.nearest(given) == scale.nearest(gold))
    fraction = abs(given - gold) / scale.span
    return 1.0 - (fraction if comparison == "distance" else fraction**2)


if __name__ == "__main__":
    RubricAbsoluteEnv.cli()
