"""Aspect critique: yes/no questions about an answer, decided by majorities of votes.

A judge answers them or, with role=judge, the policy.

Source: the ragas project's aspect critique.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgegym.data.rows import Split, load_rows
from judgegym.data.rubric_rows import AspectTask, read_answers, read_gold
from judgegym.data.task_list import TaskList
from judgegym.engine.completions import Completion, Conversation, system_text
from judgegym.engine.metrics import GoldLabel, MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES
from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.answer_judge import EnvironmentJurySettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.roles import (
    ComparedVerdict,
    RoleConfig,
    compare_verdicts,
    judge_votes,
    record_verdict_agreement,
    record_votes,
)
from judgegym.environments.spec import EnvSpec
from judgegym.judges.aspects.judge import PanelDetail, find_verdict
from judgegym.judges.aspects.prompt import (
    Aspect,
    AspectJudgeSettings,
    aspect_prompt,
    format_criteria,
)
from judgegym.judges.config.fields import setting
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.llm.errors import DataError
from judgegym.llm.wire import Message

logger = logging.getLogger(__name__)


class AspectCritiqueConfig(RoleConfig, AspectJudgeSettings, EnvironmentJurySettings):
    """Settings of aspect critique."""

    answer_judge = AspectJudgeSettings
    for_criteria = ("aspects",)
    vote_settings = ("strictness",)

    train_dataset: str = setting("NousResearch/arena-hard-v1-prompts", group="data", common=True)
    """Read rows from this dataset, hub name or file; for evaluations only if eval_dataset is
    unset."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of a hub dataset."""
    eval_dataset: str | None = setting(
        None, verbs=EVALUATIONS, group="data", common=True, fallback="train_dataset"
    )
    """Evaluate on the rows of this dataset: hub name or file. If unset, on those of
    train_dataset."""
    eval_split: str = setting("train", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of a hub dataset."""


class AspectCritiqueEnv(JudgedEnv[AspectCritiqueConfig, AspectTask, PanelDetail]):
    """Yes/no questions about an answer, answered by a judge or, with role=judge, by the policy."""

    spec = EnvSpec(
        name="aspect_critique",
        headline=("mean_reward", "reward"),
        judge="aspect",
        offline_samples={"train_dataset": str(SAMPLES / "aspect_critique.jsonl")},
    )

    def tasks(self, split: Split) -> Sequence[AspectTask]:
        """Load rows with a question or an answer.

        With role=judge, one task per gold verdict on an aspect.
        """
        config = self.config
        source, hub_split = config.train_dataset, config.train_split
        if split == "eval":
            source, hub_split = config.eval_dataset or source, config.eval_split
        rows = load_rows(source, split=hub_split)
        if config.role == "policy":
            tasks = read_answers(rows, config.aspects)
            if split == "train" or self.verb == "serve":
                return self._select_answerable(tasks, source)
            return tasks
        tasks = read_gold(rows, config.aspects)
        if not tasks:
            names = ", ".join(aspect.name for aspect in config.aspects)
            raise DataError(
                f"{source}: role=judge needs rows with an answer and gold verdicts on {names} (a "
                "column `verdicts` of names and 1 or 0, or `verdict` where there is one aspect), "
                "and there are none"
            )
        return tasks

    def _select_answerable(self, tasks: TaskList[AspectTask], source: str) -> TaskList[AspectTask]:
        """Return the rows that a policy can answer."""
        usable = tasks.where(lambda task: task.asked is not None)
        if not usable:
            raise DataError(f"{source}: no row has a question that the policy could answer")
        count = len(tasks)
        missing = count - len(usable)
        if missing:
            self.warn_once(logger, f"{missing} of {count} rows have no question for the policy")
        return usable

    def conversations(self, task: AspectTask) -> list[Conversation]:
        """Ask the question with its context.

        With role=judge, send the judge's prompt once per vote.
        """
        if task.aspect is None:
            content = task.question
            if task.context is not None:
                content += f"\n\nContext:\n{task.context}"
            return [[*self.system_messages, Message(role="user", content=content)]]
        return [self._prompt(task, task.aspect).messages] * self.config.votes_on(task.aspect)

    def _prompt(self, task: AspectTask, aspect: Aspect) -> Prompt:
        """Make the judge's prompt for a policy that judges."""
        assert task.answer is not None  # a row without an answer has no gold verdict
        system = system_text(self.config, "thinking_judge")
        return aspect_prompt(judge_task(task, task.answer), aspect, self.config, system=system)

    async def judge(
        self, task: AspectTask, completions: Sequence[Completion]
    ) -> Judgment[PanelDetail]:
        """Judge all aspects at once.

        With role=judge, compare the majority of the policy's verdicts with gold.
        """
        if task.aspect is not None:
            gold = task.golds[task.aspect.name]
            strictness = self.config.resolve_strictness(task.aspect)
            judgment = judge_votes(task.aspect, completions, strictness=strictness, gold=gold)
            return replace(judgment, suspects=self._prompt(task, task.aspect).suspects)
        (completion,) = completions
        return await self.answer_judge.judge(judge_task(task, completion.answer))

    def group_case(self, task: AspectTask) -> JudgeTask:
        """Return the task that compares answers to the question by all aspects.

        The reference is one more answer.
        """
        assert task.asked is not None  # tasks() left the others out
        criteria = format_criteria(self.config.aspects)
        return JudgeTask(
            task.asked, (), rubric=criteria, context=task.context, baseline=task.reference
        )

    def record_metrics(
        self, metrics: MetricAggregator, task: AspectTask, sample: Sample[PanelDetail]
    ) -> None:
        """Record rewards, and by aspect pass rate, score before polarity, agreement and votes."""
        metrics.mean("mean_reward", sample.score or 0.0, interval=True)
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.mean(f"mean_reward_{category}", sample.score or 0.0)
        detail = sample.detail
        details = () if detail is None else detail.aspects
        if task.aspect is not None:
            record_votes(metrics, details)
            return
        metrics.rate("veto_rate", detail is not None and detail.vetoed_by is not None)
        verdicts = {verdict.aspect: verdict for verdict in details}
        for aspect in self.config.aspects:
            name = slug(aspect.name)
            verdict = verdicts.get(aspect.name)
            # A completion in the wrong format was not judged; it counts as a wrong answer, and
            # fails every aspect.
            yes = aspect.polarity == -1 if verdict is None else bool(verdict.yes)
            metrics.rate(f"pass_rate_{name}", aspect.passes(yes), interval=True)
            if verdict is not None:
                metrics.rate(f"score_{name}", yes)
        record_votes(metrics, tuple(verdicts.values()))

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[AspectTask, Sample[PanelDetail]]]
    ) -> None:
        """Record how well the judge's (or judging policy's) verdicts agree with gold."""
        compared: list[ComparedVerdict] = []
        for task, sample in rows:
            compared += self._compare_with_gold(task, sample)
        if compared or metrics.has_number("n_failed"):
            with_critique = self.config.judge_critique_rounds > 0 and not self.config.judges
            names = [aspect.name for aspect in self.config.aspects]
            record_verdict_agreement(metrics, compared, names, with_critique=with_critique)

    def _compare_with_gold(
        self, task: AspectTask, sample: Sample[PanelDetail]
    ) -> list[ComparedVerdict]:
        """Return the verdicts of a row that have a gold verdict.

        Empty if a policy's answer was judged.
        """
        answers = [completion.answer for completion in sample.completions]
        if task.aspect is None and answers != [self.dataset_answer(task)]:
            return []
        return compare_verdicts(task, sample.judgment)

    def texts(self, task: AspectTask) -> Mapping[str, str]:
        """Return contexts and reference.

        With role=judge, also the aspect's definition and the answer.
        """
        texts = {"contexts": task.context, "reference": task.reference}
        if task.aspect is not None:
            texts |= {"aspect": task.aspect.definition, "answer": task.answer}
        return {title: text for title, text in texts.items() if text is not None}

    @classmethod
    def spec_for(cls, config: AspectCritiqueConfig) -> EnvSpec:
        """Show the agreement with gold verdicts, and each aspect's pass rate."""
        no_answer, names = "no answer was judged", [aspect.name for aspect in config.aspects]
        has_judge = config.role == "policy"
        documented: list[tuple[str, ...]] = [
            ("no row of this category has a score", "mean_reward_{category}")
        ]
        for name in map(slug, names):
            documented.append(("no verdict has a majority", f"agreement_{name}"))
            documented += [(no_answer, f"pass_rate_{name}", f"score_{name}")] * has_judge
        documented.append(
            (no_answer, "votes_per_verdict", "redraw_rate", *(["veto_rate"] * has_judge))
        )
        outcomes = [
            Outcome("agreement with gold", {"accuracy": "accuracy", "kappa": "κ"}, unit="number")
        ]
        if has_judge:
            for name in names:
                metric = slug(name)
                outcomes.append(Outcome.from_metric(f"passes {name}", f"pass_rate_{metric}"))
            outcomes.append(Outcome.from_metric("vetoed", "veto_rate"))
        outcomes.append(Outcome.from_metric("verdicts drawn again", "redraw_rate", is_fault=True))
        return replace(cls.spec, outcomes=tuple(outcomes), documented=documented)

    def dataset_answer(self, task: AspectTask) -> str | None:
        """Return the row's own answer; `None` if the policy judges it or is being trained."""
        if self.verb == "serve" or task.aspect is not None:
            return None
        return task.answer

    def verdict_at(self, task: AspectTask, answer: str) -> Place | None:
        """Return the position of the verdict object in a judging policy's completion."""
        verdict = find_verdict(answer)
        if verdict is None:
            return None
        return verdict.at

    def gold(self, task: AspectTask, sample: Sample[PanelDetail]) -> Sequence[GoldLabel]:
        """Return pairs of gold verdict and the judge's verdict on the judged answer."""
        words = {True: "yes", False: "no"}
        return [
            GoldLabel.from_labels(
                words[verdict.gold],
                None if verdict.yes is None else words[verdict.yes],
                verdict.aspect,
            )
            for verdict in self._compare_with_gold(task, sample)
        ]

    def record_failure(
        self, metrics: MetricAggregator, task: AspectTask, sample: Sample[PanelDetail]
    ) -> None:
        """Count the missing verdicts that would be compared with gold."""
        missing = len(self._compare_with_gold(task, sample))
        if missing:
            metrics.count("n_failed", missing)


def judge_task(task: AspectTask, answer: str) -> JudgeTask:
    """Make the judge's task from a row and an answer."""
    return JudgeTask(task.asked or "", (answer,), task.reference, context=task.context)


if __name__ == "__main__":
    AspectCritiqueEnv.cli()
