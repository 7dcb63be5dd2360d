"""Rubric-absolute: score a response by a rubric, on a scale of whole numbers.

The policy responds, or it is the judge.

Source: Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models
    (2023).
"""

from __future__ import annotations

import logging
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from pydantic import model_validator
from typing_extensions import Self

from judgegym.data.rows import Split, load_rows
from judgegym.data.rubric_rows import RubricTask, read_rubric_rows
from judgegym.engine.completions import Completion, Conversation, system_text
from judgegym.engine.metrics import GoldLabel, MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES
from judgegym.engine.settings.verbs import EVALUATE, EVALUATIONS, ROLLOUTS
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.answer_judge import EnvironmentJurySettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.roles import (
    LISTED_LEVELS,
    Comparison,
    RoleConfig,
    compare_score,
    judge_scores,
    pool_score,
    record_score_agreement,
)
from judgegym.environments.spec import EnvSpec
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.fields import setting
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.judges.rubrics.judge import RubricDetail
from judgegym.judges.rubrics.prompt import SCORE_PARSERS, RubricJudgeSettings, rubric_prompt
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import Message

logger = logging.getLogger(__name__)


class RubricAbsoluteConfig(RoleConfig, RubricJudgeSettings, EnvironmentJurySettings):
    """Settings of rubric-absolute."""

    answer_judge = RubricJudgeSettings
    for_criteria = ("scale_min", "scale_max")
    vote_settings = ("samples_per_item",)

    score_responses: bool = setting(False, verbs=EVALUATE, common=True)
    """Score the responses in the rows instead of a policy's, and compare the judge's scores with
    the gold scores."""
    reward: Comparison = setting("distance")
    """With role=judge: choose the reward of a score that differs by Δ from the gold score. exact: 1
    if Δ is 0, else 0. distance: 1 − |Δ| / (scale_max − scale_min). squared: 1 − (Δ / (scale_max −
    scale_min))²."""
    default_rubric: TextOrFile | None = setting(None)
    """Use this rubric for rows without one; @file reads it from a file."""
    train_dataset: str = setting(
        "prometheus-eval/Feedback-Collection", verbs=ROLLOUTS, group="data", common=True
    )
    """Train on this dataset: hub name or file."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of a hub dataset."""
    eval_dataset: str = setting(
        "prometheus-eval/Feedback-Bench", verbs=EVALUATIONS, group="data", common=True
    )
    """Evaluate on this dataset: hub name or file."""
    eval_split: str = setting("train", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of a hub dataset."""

    @model_validator(mode="after")
    def _check_response_sources(self) -> Self:
        if self.score_responses and self.model_answers is not None:
            raise ValueError(
                "score_responses and model_answers are two sources of responses; expected one"
            )
        if self.role == "judge" and self.score_responses:
            raise ValueError(
                "score_responses: with role=judge the policy scores the rows' own responses already"
            )
        return self


def pool_details(judgments: Sequence[Judgment[RubricDetail]]) -> RubricDetail:
    """Merge the details of a jury's members: their judgments, and the spread of their scores."""
    details = [judgment.detail for judgment in judgments if judgment.detail is not None]
    rubric_scores = chain.from_iterable(detail.judgments for detail in details)
    scores = [judgment.score for judgment in judgments if judgment.score is not None]
    spread = None
    if len(scores) > 1:
        spread = statistics.stdev(scores)
    return RubricDetail(tuple(rubric_scores), spread)


class RubricAbsoluteEnv(JudgedEnv[RubricAbsoluteConfig, RubricTask, RubricDetail]):
    """A policy's response scored by a judge, or a row's response scored by the policy."""

    spec = EnvSpec(
        name="rubric_absolute",
        headline=("mean_reward", "reward"),
        judge="rubric",
        jury_detail=pool_details,
        offline_samples=dict.fromkeys(
            ("train_dataset", "eval_dataset"), str(SAMPLES / "rubric_absolute.jsonl")
        ),
    )

    def tasks(self, split: Split) -> Sequence[RubricTask]:
        """Load rows with their rubrics; with role=judge, those with a response and a gold score."""
        config = self.config
        source, hub_split = config.train_dataset, config.train_split
        if split == "eval":
            source, hub_split = config.eval_dataset, config.eval_split
        if config.weighting == "logprobs" and config.role == "judge":
            raise SettingsError(
                "--env.weighting: logprobs is for role=policy; a policy's verdict is its text"
            )
        rows = load_rows(source, split=hub_split)
        tasks = read_rubric_rows(rows, config.scale, default_rubric=config.default_rubric)
        if config.role == "policy" and not (self._scores_responses and split == "eval"):
            return tasks
        usable = tasks.where(lambda task: task.response is not None and task.gold is not None)
        if not usable:
            needed_by = "role=judge" if config.role == "judge" else "score_responses"
            raise DataError(
                f"{source}: {needed_by} needs rows with a response and a gold score, and there are "
                "none"
            )
        count = len(tasks)
        missing = count - len(usable)
        if missing:
            self.warn_once(logger, f"{missing} of {count} rows have no response or no gold score")
        return usable

    @property
    def _scores_responses(self) -> bool:
        return self.config.score_responses and self.verb != "serve"

    def conversations(self, task: RubricTask) -> list[Conversation]:
        """Ask the instruction.

        With role=judge, send the judge's prompt once per judgment of a row.
        """
        config = self.config
        if config.role == "policy":
            return [[*self.system_messages, Message(role="user", content=task.question)]]
        return [self._prompt(task).messages] * config.samples_per_item

    def _prompt(self, task: RubricTask) -> Prompt:
        """Make the judge's prompt for a policy that judges."""
        assert task.response is not None  # tasks() left the others out
        system = system_text(self.config, "thinking_judge")
        return rubric_prompt(
            task.rubric, judge_task(task, task.response), self.config, system=system
        )

    async def judge(
        self, task: RubricTask, completions: Sequence[Completion]
    ) -> Judgment[RubricDetail]:
        """Score the response; with role=judge, compare the policy's score with the gold score."""
        if self.config.role == "judge":
            assert task.gold is not None  # tasks() left the others out
            judgment = judge_scores(completions, self.config, self.config.reward, gold=task.gold)
            return replace(judgment, suspects=self._prompt(task).suspects)
        (completion,) = completions
        return await self.answer_judge.judge(judge_task(task, completion.answer))

    def reward(self, judgment: Judgment[RubricDetail]) -> float:
        """Return (score − lowest) / (highest − lowest).

        With role=judge, the closeness to gold: 0 to 1.
        """
        score = super().reward(judgment)
        if self.config.role == "judge":
            return score
        return self.config.scale.unit(score)

    def group_case(self, task: RubricTask) -> JudgeTask:
        """Return the task that compares responses by the rubric.

        The reference is one more response.
        """
        return JudgeTask(
            task.question, (), rubric=task.rubric.text_with_scale, baseline=task.reference
        )

    def record_metrics(
        self, metrics: MetricAggregator, task: RubricTask, sample: Sample[RubricDetail]
    ) -> None:
        """Record rewards overall and by category, and distribution, format and spread of scores."""
        config, detail = self.config, sample.detail
        score = self.spec.invalid_score if sample.score is None else sample.score
        reward = score if config.role == "judge" else config.scale.unit(score)
        metrics.mean("mean_reward", reward, interval=True)
        if config.role == "policy":
            metrics.mean(
                "mean_score", score, interval=True, ends=(config.scale.low, config.scale.high)
            )
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.mean(f"mean_reward_{category}", reward)
        if detail is None:
            return
        for judgment in detail.judgments:
            metrics.rate("strict_format_rate", judgment.strict)
        if detail.spread is not None:
            metrics.mean("spread_of_judgments", detail.spread)
        pooled = pool_score(sample.judgment, config.samples_pooling)
        if pooled is not None and len(config.scale.levels) <= LISTED_LEVELS:
            for level in config.scale.levels:
                metrics.rate(f"score_freq_{level}", config.scale.nearest(pooled) == level)

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[RubricTask, Sample[RubricDetail]]]
    ) -> None:
        """Record how well the judge's (or judging policy's) scores agree with gold."""
        config = self.config
        if config.role != "judge" and not self._scores_responses:
            return
        compared = [
            compare_score(sample.judgment, config.samples_pooling, task.gold)
            for task, sample in rows
        ]
        scored_pairs = [pair for pair in compared if pair is not None]
        with_critique = config.judge_critique_rounds > 0 and not config.judges
        record_score_agreement(
            metrics, scored_pairs, config.scale, rows=len(rows), with_critique=with_critique
        )

    def texts(self, task: RubricTask) -> Mapping[str, str]:
        """Return the rubric and the reference.

        With role=judge, also the response that the policy scores.
        """
        texts = {"rubric": task.rubric.text, "reference": task.reference}
        if self.config.role == "judge":
            texts["response"] = task.response
        return {title: text for title, text in texts.items() if text is not None}

    @classmethod
    def spec_for(cls, config: RubricAbsoluteConfig) -> EnvSpec:
        """Show how often each score was given.

        Malformed responses get the lowest, or 0 with role=judge.
        """
        levels = config.scale.levels
        frequencies = {f"score_freq_{level}": f"{level}:" for level in levels}
        documented: list[tuple[str, ...]] = [
            ("no row of this category has a score", "mean_reward_{category}"),
            ("no response was judged", "strict_format_rate"),
        ]
        if config.samples_per_item > 1:
            documented.append(("no response has two scores", "spread_of_judgments"))
        outcomes = [Outcome.from_metric("mean score", "mean_score", unit="number")]
        count = len(levels)
        if count <= LISTED_LEVELS:
            documented.append(("no score could be read", *frequencies))
            outcomes.append(Outcome("scores", frequencies))
        else:
            documented.append((f"a scale of {count} levels makes too long a list", "score_freq"))
        agreement = {"quadratic_kappa": "κ", "spearman": "ρ", "mae": "error"}
        outcomes.append(Outcome("agreement with gold", agreement, unit="number"))
        outcomes.append(Outcome.from_metric("strict format", "strict_format_rate"))
        invalid_score = 0.0
        if config.role != "judge":
            invalid_score = float(config.scale_min)
        return replace(
            cls.spec, invalid_score=invalid_score, outcomes=outcomes, documented=documented
        )

    def dataset_answer(self, task: RubricTask) -> str | None:
        """Return the row's own response, if `score_responses` is on."""
        if self._scores_responses:
            return task.response
        return None

    def verdict_at(self, task: RubricTask, answer: str) -> Place | None:
        """Return the position of the score in a judging policy's completion."""
        match = SCORE_PARSERS[self.config.output_format].find(answer, self.config.scale)
        if match is None:
            return None
        return match.at

    def gold(self, task: RubricTask, sample: Sample[RubricDetail]) -> Sequence[GoldLabel]:
        """Return the gold score of the judged response with the judge's score."""
        if task.gold is None or (self.config.role != "judge" and not self._scores_responses):
            return ()
        score, scale = pool_score(sample.judgment, self.config.samples_pooling), self.config.scale
        agrees = None
        if score is not None:
            agrees = scale.nearest(score) == scale.nearest(task.gold)
        return (GoldLabel("", task.gold, score, agrees),)

    def record_failure(
        self, metrics: MetricAggregator, task: RubricTask, sample: Sample[RubricDetail]
    ) -> None:
        """Count a missing score that has a gold score, and the formats of the judge's texts."""
        if self._scores_responses:
            metrics.count("n_failed")
        if sample.detail is not None:
            for judgment in sample.detail.judgments:
                if judgment.text:  # the judge answered, though without a score
                    metrics.rate("strict_format_rate", judgment.strict)


def judge_task(task: RubricTask, response: str) -> JudgeTask:
    """Make the judge's task from a row and a response."""
    levels = tuple(task.rubric.levels.items())
    return JudgeTask(task.question, (response,), task.reference, task.rubric.criteria, levels)


if __name__ == "__main__":
    RubricAbsoluteEnv.cli()
