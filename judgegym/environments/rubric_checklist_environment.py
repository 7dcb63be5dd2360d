"""Rubric checklist: each row has criteria with points; an answer scores by the criteria it meets.

Sources: HealthBench (openai/simple-evals) for rows, the score of a row and of the benchmark;
    Rubrics as Rewards (2025).
"""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgegym.data.checklist_rows import (
    ChecklistTask,
    drop_criteria,
    read_checklists,
    read_gold_checklists,
)
from judgegym.data.rows import Split, load_rows
from judgegym.engine.completions import Completion, Conversation, system_text
from judgegym.engine.metrics import GoldLabel, MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES
from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.answer_judge import EnvironmentJurySettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.roles import ComparedVerdict, RoleConfig, record_verdict_agreement
from judgegym.environments.spec import EnvSpec
from judgegym.judges.checklists.formulas import GradedCriterion, tag_scores
from judgegym.judges.checklists.judge import ChecklistDetail, clip_score, decide, verdict_value
from judgegym.judges.checklists.prompt import (
    ChecklistJudgeSettings,
    ChecklistPrompt,
    checklist_prompt,
)
from judgegym.judges.config.fields import setting
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import MetricNames
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.criteria import MET, UNMET
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.llm.errors import DataError
from judgegym.llm.wire import Message
from judgegym.statistics.agreement import clipped_mean, clipped_mean_std

logger = logging.getLogger(__name__)

MOST_NAMED = 20
"""Maximum number of criterion names in a data set for metrics by criterion; beyond it, metrics by
tag."""
_GENERATED = re.compile(r"criterion_[0-9]+")
_WORDS = {True: MET, False: UNMET}


class RubricChecklistConfig(RoleConfig, ChecklistJudgeSettings, EnvironmentJurySettings):
    """Settings of rubric checklist."""

    answer_judge = ChecklistJudgeSettings
    for_criteria = ("criteria", "formula")
    vote_settings = ("strictness",)
    unused_settings = frozenset({"judge_critique_rounds"})

    train_dataset: str = setting("ScaleAI/RaR-Medicine", group="data", common=True)
    """Read rows from this dataset, hub name or file; for evaluations only if eval_dataset is
    unset."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of a hub dataset."""
    eval_dataset: str | None = setting(
        None, verbs=EVALUATIONS, group="data", common=True, fallback="train_dataset"
    )
    """Evaluate on the rows of this dataset: hub name or file. If unset, on those of
    train_dataset."""
    eval_split: str = setting("test", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of a hub dataset."""
    criteria_column: str | None = setting(None, group="data")
    """Take the criteria of a row from this column. If unset, from criteria, rubrics, or a rubric
    that is a list."""
    rubric_dropout: float = setting(0.0, verbs=ROLLOUTS, ge=0, lt=1)
    """In training, leave out this share of a row's criteria, the same ones for all completions of a
    group, so that a policy cannot learn a rubric by heart. 0 uses all."""


class RubricChecklistEnv(JudgedEnv[RubricChecklistConfig, ChecklistTask, ChecklistDetail]):
    """Criteria with points for an answer, checked by a judge or, with role=judge, by the policy."""

    spec = EnvSpec(
        name="rubric_checklist",
        headline=("mean_score", "score"),
        training_headline="mean_reward",
        judge="checklist",
        outcomes=(
            Outcome(
                "HealthBench's score",
                {"clipped_score": "mean", "clipped_score_bootstrap_std": "± std"},
            ),
            Outcome("agreement with gold", {"accuracy": "accuracy", "kappa": "κ"}, unit="number"),
            Outcome.from_metric("rows with a verdict drawn again", "redraw_rate", is_fault=True),
        ),
        offline_samples={"train_dataset": str(SAMPLES / "rubric_checklist.jsonl")},
    )
    _named_criteria: frozenset[str] = frozenset()
    """Names of criteria that have metrics of their own."""
    _tags: frozenset[str] = frozenset()

    def tasks(self, split: Split) -> Sequence[ChecklistTask]:
        """Load rows with a prompt and criteria.

        With role=judge, those with an answer and gold verdicts.
        """
        config = self.config
        source, hub_split = config.train_dataset, config.train_split
        if split == "eval":
            source, hub_split = config.eval_dataset or source, config.eval_split
        rows = load_rows(source, split=hub_split)
        column = config.criteria_column
        if config.role == "judge":
            tasks = read_gold_checklists(
                rows, config.criteria, column=column, per_task=config.criteria_per_call
            )
            if not tasks:
                raise DataError(
                    f"{source}: role=judge needs rows with an answer and gold verdicts on its "
                    "criteria (a column `verdicts` of names and 1 or 0, or a list), and there are "
                    "none"
                )
        else:
            tasks = read_checklists(rows, config.criteria, column=column, formula=config.formula)
        names, tags = set[str](), set[str]()
        for task in tasks:
            tags.update(task.tags)
            for criterion in task.criteria:
                tags.update(criterion.tags)
                if not _GENERATED.fullmatch(criterion.name):
                    names.add(criterion.name)
        if len(names) <= MOST_NAMED:
            self._named_criteria |= names
        self._tags |= tags
        self.tag_names.add(sorted(tags))
        if split == "train" and config.rubric_dropout and config.role == "policy":
            return tasks.map(
                lambda task: drop_criteria(task, config.rubric_dropout, config.seed, config.formula)
            )
        return tasks

    @cached_property
    def tag_names(self) -> MetricNames:
        """Names of tags as parts of metric names; complete once a data set is loaded."""
        return MetricNames()

    def conversations(self, task: ChecklistTask) -> list[Conversation]:
        """Ask the prompt with its context.

        With role=judge, send the judge's prompt once per vote.
        """
        if task.is_judged:
            return [self._prompt(task).prompt.messages] * self.config.vote_count()
        *before, last = task.prompt.messages
        content = last["content"]
        if task.context is not None:
            content = f"{content}\n\nContext:\n{task.context}"
        message = Message(role=last["role"], content=content)
        return [[*self.system_messages, *before, message]]

    def _prompt(self, task: ChecklistTask) -> ChecklistPrompt:
        """Make the judge's prompt for a policy that judges."""
        system = system_text(self.config, "thinking_judge")
        return checklist_prompt(
            judge_task(task, task.answer or ""), task.criteria, self.config, system=system
        )

    async def judge(
        self, task: ChecklistTask, completions: Sequence[Completion]
    ) -> Judgment[ChecklistDetail]:
        """Judge by all criteria.

        With role=judge, compare the median of the policy's verdicts with gold.
        """
        if task.is_judged:
            return self._judge_votes(task, completions)
        judgment = await self.answer_judge.judge(judge_task(task, completions[0].answer))
        detail = judgment.detail and replace(judgment.detail, left_out=task.left_out)
        return replace(judgment, detail=detail)

    def _judge_votes(
        self, task: ChecklistTask, completions: Sequence[Completion]
    ) -> Judgment[ChecklistDetail]:
        """Judge a policy's verdicts: the share of criteria that match gold.

        Invalid without most votes.
        """
        prompt = self._prompt(task)
        verdicts = [prompt.find(completion.answer) for completion in completions]
        votes = [vote.value for vote in verdicts if vote is not None]
        suspects = prompt.prompt.suspects
        vote_count, text_count = len(votes), len(completions)
        if 2 * vote_count <= text_count:
            reason = f"{vote_count} of {text_count} texts have a whole verdict"
            return Judgment(None, Status.INVALID_COMPLETION, explanation=reason, suspects=suspects)
        criteria = tuple(decide(task.criteria, votes))
        right = sum(criterion.value == task.golds[criterion.name] for criterion in criteria)
        detail = ChecklistDetail(criteria, self.config.formula, redrawn=text_count - vote_count)
        count = len(criteria)
        label = f"{right} of {count} right"
        return Judgment(right / count, Status.OK, label, detail=detail, suspects=suspects)

    def reward(self, judgment: Judgment[ChecklistDetail]) -> float:
        """Return the score clipped to 0 to 1: no judged answer gets less than a malformed one."""
        assert judgment.score is not None
        return clip_score(judgment.score)

    def group_case(self, task: ChecklistTask) -> JudgeTask:
        """Return the task that compares answers by all criteria.

        The reference is one more answer.
        """
        lines: list[str] = []
        for criterion in task.criteria:
            required = ", required" if criterion.required else ""
            lines.append(f"- {criterion.text} ({criterion.points:g} points{required})")
        return JudgeTask(
            task.question,
            (),
            rubric="\n".join(lines),
            context=task.context,
            baseline=task.reference,
        )

    def record_metrics(
        self, metrics: MetricAggregator, task: ChecklistTask, sample: Sample[ChecklistDetail]
    ) -> None:
        """Record scores by category and tag, the criteria that are met, and how far votes agree."""
        score = sample.score or 0.0
        metrics.mean("mean_score", score, interval=True)
        if metrics.prefix == "train":
            metrics.mean("mean_reward", clip_score(score))
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.mean(f"mean_score_category_{category}", score)
        if sample.detail is None:
            return
        for detail in sample.detail.criteria:
            if detail.name in self._named_criteria and detail.value is not None:
                name = slug(detail.name)
                metrics.mean(f"met_rate_{name}", detail.value)
            metrics.mean("agreement", detail.agreement)
            metrics.rate("disagreement_rate", detail.agreement < 1.0)
            metrics.rate("cannot_assess_rate", detail.value is None)
        metrics.rate("redraw_rate", sample.detail.redrawn > 0)
        if task.is_judged:
            return
        scores = {**sample.detail.tags, **dict.fromkeys(task.tags, score)}
        for tag, tag_score in scores.items():
            name = self.tag_names(tag)
            metrics.mean(f"tag_score_{name}", tag_score)
        metrics.rate("requirement_unmet_rate", bool(sample.detail.unmet_requirements))
        if self.config.rubric_dropout and self.verb != "evaluate":
            metrics.mean("criteria_left_out", len(task.left_out))

    def summarise(
        self,
        metrics: MetricAggregator,
        rows: Sequence[tuple[ChecklistTask, Sample[ChecklistDetail]]],
    ) -> None:
        """Record HealthBench's numbers, criteria without a signal, and the agreement with gold."""
        scores: dict[str, list[float]] = {}
        values: dict[str, list[float]] = {}
        compared: list[ComparedVerdict] = []
        for task, sample in rows:
            compared += self._compare_with_gold(task, sample)
            score, detail = sample.score or 0.0, sample.detail
            # A malformed answer meets no criterion: it is in the mean of each tag that it could
            # have a score by.
            unmet = [GradedCriterion(criterion, 0.0) for criterion in task.criteria]
            tags = tag_scores(unmet, "healthbench") if detail is None else detail.tags
            tags = {"": score, **tags, **dict.fromkeys(task.tags, score)}
            for tag, tag_score in tags.items():
                scores.setdefault(tag, []).append(tag_score)
            if detail is None:
                continue
            for criterion in detail.criteria:
                if criterion.value is not None:
                    values.setdefault(criterion.text, []).append(criterion.value)
        if self.config.role == "policy":
            self._record_saturation(metrics, values)
            if self.config.formula == "healthbench":
                self._record_benchmark(metrics, scores)
        if compared or metrics.has_number("n_failed"):
            names = sorted(self._named_criteria)
            record_verdict_agreement(metrics, compared, names, with_critique=False)

    def _record_benchmark(
        self, metrics: MetricAggregator, scores: Mapping[str, Sequence[float]]
    ) -> None:
        """Record the clipped mean, its bootstrap deviation and the rows, overall and by tag."""
        for tag in sorted(scores):
            end = ""
            if tag:
                end = "_tag_" + self.tag_names(tag)
            metrics.number(f"clipped_score{end}", clipped_mean(scores[tag]))
            metrics.number(
                f"clipped_score_bootstrap_std{end}",
                clipped_mean_std(scores[tag], seed=self.config.seed),
            )
            metrics.count(f"clipped_score_n_samples{end}", len(scores[tag]))

    def _record_saturation(
        self, metrics: MetricAggregator, values: Mapping[str, Sequence[float]]
    ) -> None:
        """Count and log the criteria that all rows or no rows meet: they give no signal."""
        shared = {text: row_values for text, row_values in values.items() if len(row_values) > 1}
        for word, value in (("always", 1.0), ("never", 0.0)):
            flat_criteria = [
                text for text, row_values in shared.items() if set(row_values) == {value}
            ]
            metrics.count(f"criteria_{word}_met", len(flat_criteria))
            for text in flat_criteria[:MOST_NAMED]:
                count, excerpt = len(shared[text]), " ".join(text.split())[:100]
                logger.info("%s met, in %d rows: no signal: %s", word, count, excerpt)
        metrics.count("criteria_in_several_rows", len(shared))

    def _compare_with_gold(
        self, task: ChecklistTask, sample: Sample[ChecklistDetail]
    ) -> list[ComparedVerdict]:
        """Return the verdicts of a row that have a gold verdict.

        Empty if a policy's answer was judged.
        """
        answers = [completion.answer for completion in sample.completions]
        if not task.is_judged and answers != [self.dataset_answer(task)]:
            return []
        verdicts: dict[str, bool] = {}
        if sample.detail is not None:
            criteria = {criterion.name: criterion for criterion in task.criteria}
            for verdict in sample.detail.criteria:
                if verdict.value is not None:
                    value = verdict_value(criteria[verdict.name], verdict)
                    verdicts[verdict.name] = value == 1.0
        names = [criterion.name for criterion in task.criteria if criterion.name in task.golds]
        return [
            ComparedVerdict(name, verdicts.get(name), verdicts.get(name), task.golds[name])
            for name in names
        ]

    def texts(self, task: ChecklistTask) -> Mapping[str, str]:
        """Return context, reference, criteria and those left out.

        With role=judge, also the answer.
        """
        criteria = "\n".join(
            f"[{criterion.points:g}] {criterion.name}: {criterion.text}"
            for criterion in task.criteria
        )
        texts = {"context": task.context, "reference": task.reference, "criteria": criteria}
        if task.left_out:
            texts["criteria left out"] = ", ".join(task.left_out)
        if task.is_judged:
            texts["answer"] = task.answer
        return {title: text for title, text in texts.items() if text is not None}

    def dataset_answer(self, task: ChecklistTask) -> str | None:
        """Return the row's own answer; `None` if the policy judges it or is being trained."""
        if self.verb == "serve" or task.is_judged:
            return None
        return task.answer

    def verdict_at(self, task: ChecklistTask, answer: str) -> Place | None:
        """Return the position of the verdicts object in a judging policy's completion."""
        verdict = self._prompt(task).find(answer)
        if verdict is None:
            return None
        return verdict.at

    def gold(self, task: ChecklistTask, sample: Sample[ChecklistDetail]) -> Sequence[GoldLabel]:
        """Return pairs of gold verdict and the judge's verdict on the judged answer."""
        labels: list[GoldLabel] = []
        for verdict in self._compare_with_gold(task, sample):
            label = None if verdict.yes is None else _WORDS[verdict.yes]
            labels.append(GoldLabel.from_labels(_WORDS[verdict.gold], label, verdict.aspect))
        return labels

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[ChecklistTask]) -> None:
        """Declare the metrics of categories, tags, criteria and votes."""
        no_answer = "no answer was judged"
        for category in {task.category: None for task in tasks if task.category is not None}:
            name = metrics.names(category)
            metrics.expect("no row of this category has a score", f"mean_score_category_{name}")
        metrics.expect(
            no_answer, "agreement", "disagreement_rate", "cannot_assess_rate", "redraw_rate"
        )
        names = map(slug, sorted(self._named_criteria))
        metrics.expect("the criterion was not assessed", *(f"met_rate_{name}" for name in names))
        if self.config.role == "policy":
            metrics.expect(no_answer, "requirement_unmet_rate")
            for tag in sorted(self._tags):
                name = self.tag_names(tag)
                metrics.expect("no row has a score by the tag", f"tag_score_{name}")

    def record_failure(
        self, metrics: MetricAggregator, task: ChecklistTask, sample: Sample[ChecklistDetail]
    ) -> None:
        """Count the missing verdicts that have a gold verdict."""
        missing = len(self._compare_with_gold(task, sample))
        if missing:
            metrics.count("n_failed", missing)


def judge_task(task: ChecklistTask, answer: str) -> JudgeTask:
    """Make the judge's task from a row and an answer."""
    return JudgeTask(
        task.question, (answer,), task.reference, context=task.context, criteria=task.criteria
    )


if __name__ == "__main__":
    RubricChecklistEnv.cli()
