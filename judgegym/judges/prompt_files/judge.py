"""The judge of a prompt file: the scores of labels in its replies, pooled over several votes."""

from __future__ import annotations

import logging
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from judgegym.judges.core.calls import NoVerdict, failed_judgment, join_errors
from judgegym.judges.core.judge import (
    CritiqueRequest,
    JudgeDefinition,
    Revision,
    ShownVerdict,
    critique_messages,
)
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status, margin
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question, agreement
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.json_objects import extract_critique, split_explanation
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm, text_field
from judgegym.judges.prompt_files.lines import PLACEHOLDERS, unescape
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.prompt_files.verdicts import EXPLANATION, reply_parser
from judgegym.judges.rubrics.prompt import REQUEST, Rubric, mean_score, score_probabilities
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Choice

logger = logging.getLogger(__name__)


class PromptVerdict(NamedTuple):
    """The label of a reply.

    With `weighting=logprobs` also the expected score of the scale and the label's probability.
    """

    label: str
    expected: float | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class PromptVote:
    """One of several judgments of a response.

    Attributes:
        label: the label of the reply; `None` if none could be parsed.
        score: its score on the judge's own scale.
        text: the judge's whole text.
        error: the reason why there is no label.
    """

    label: str | None
    score: float | None
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PromptDetail:
    """The votes that a score is pooled from: all calls, in the order of their numbers."""

    votes: tuple[PromptVote, ...]


class PromptTaskJudge(ModelJudge[PromptJudgeSettings, PromptDetail, PromptVerdict]):
    """Judges responses by a prompt file."""

    def __init__(
        self, settings: PromptJudgeSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Set settings and client; `rubric` is for tasks without one.

        The log notes changes of the prompt.
        """
        super().__init__(settings, client, rubric)
        self.file = settings.prompt_file
        self._labels, self._template = self.file.labels, self.file.template
        for note in self._template.notes:
            logger.info("prompt of the judge, %s", note)
        self._parser = reply_parser(self.file.verdict, self._labels, self._template.titles)
        self._form = VerdictForm(
            "verdict",
            {
                EXPLANATION: text_field("your reasons"),
                self.file.verdict.field_name: self._labels.form,
            },
        )

    def check(self, task: JudgeTask) -> None:
        """Check that the task has the prompt's fields, and no levels beyond the scale."""
        super().check(task)
        problem = self._find_missing_field(task)
        if problem is not None:
            raise TaskError(problem)
        levels = () if self._labels.scale is None else self._labels.scale.levels
        unknown_level = next((level for level, _ in task.levels if level not in levels), None)
        if unknown_level is not None and "rubric" in self._template.names:
            raise TaskError(
                f"rubric: a description of score {unknown_level}, which the prompt's scale does not "
                "have"
            )

    async def judge(self, task: JudgeTask) -> Judgment[PromptDetail]:
        """Judge a task; an unchecked one that lacks a field of the prompt has no score."""
        problem = self._find_missing_field(task)
        if problem is None:
            return await super().judge(task)
        return Judgment(None, Status.JUDGE_FAILED, explanation=problem)

    def _find_missing_field(self, task: JudgeTask) -> str | None:
        """Return an error if the task lacks a field that the prompt shows; else `None`."""
        texts = self._texts(task)
        optional = {"response", *self.file.optional}
        required = [name for name in self._template.names if name not in optional]
        missing = next((name for name in required if name not in texts), None)
        if missing is None:
            return None
        return (
            f"{missing}: the prompt shows it, and there is none; if rows may lack it, name it "
            "under optional"
        )

    def questions(self, task: JudgeTask) -> Sequence[Question[PromptVerdict]]:
        """Return the question, with as many votes as the settings say."""
        settings = self.settings
        file_system = unescape(self.file.system) if self.file.system else None
        if settings.judge_system_prompt is None:
            system = file_system
        else:
            system = settings.judge_system_prompt
        question = Question(
            "verdict",
            self._template.fill(self._texts(task), system=system),
            self._read,
            self._form,
            votes=settings.samples_per_item,
            extra=REQUEST if settings.weighting == "logprobs" else {},
        )
        return [question]

    def combine(
        self, task: JudgeTask, answers: Sequence[Answers[PromptVerdict]]
    ) -> Judgment[PromptDetail]:
        """Pool the scores of the labels."""
        (replies,) = answers
        settings, scale = self.settings, self._labels.scale
        calls = [replies.latest_revision(call.name, call) for call in replies.calls]
        votes = tuple(self._make_vote(call) for call in calls)
        labels = [vote.label for vote in votes if vote.label is not None]
        scores = [vote.score for vote in votes if vote.score is not None]
        confidences = self._confidences(labels, replies)
        if len(scores) < settings.samples_per_item:
            errors = join_errors(replies.calls)
            score_count = len(scores)
            explanation = (
                f"{score_count} of {settings.samples_per_item} judgments have a verdict: {errors}"
            )
            failed = failed_judgment(
                replies.calls, explanation=explanation, detail=PromptDetail(votes)
            )
            return replace(failed, confidences=confidences)
        if settings.samples_pooling == "mean":
            pooled = statistics.fmean(scores)
        else:
            pooled = float(statistics.median(scores))
        unit = pooled if scale is None else scale.unit(pooled)
        return Judgment(
            pooled,
            Status.OK,
            max(labels, key=labels.count) if scale is None else f"{pooled:g}",
            "\n\n".join(self._reasons(call.text) for call in calls if call.value is not None),
            detail=PromptDetail(votes),
            unit=unit,
            components={} if scale is None else {"raw": pooled},
            confidences={"margin": margin(unit), **confidences},
        )

    def critique_requests(
        self, task: JudgeTask, answers: Answers[PromptVerdict]
    ) -> list[CritiqueRequest]:
        """Return one request for each vote with a verdict; each is reconsidered separately."""
        messages = answers.question.prompt.messages
        calls = [(call.name, answers.latest_revision(call.name, call)) for call in answers.calls]
        return [
            CritiqueRequest(
                name,
                self._show_verdict(call.value),
                self._reasons(call.text),
                critique_messages(messages, cut_thinking(call.text)),
            )
            for name, call in calls
            if call.value is not None
        ]

    def revision(self, call: JudgeCall[PromptVerdict], verdict: PromptVerdict) -> Revision:
        """Return the revised verdict, its reasons, and the critique before it."""
        critique = extract_critique(cut_thinking(call.text), self.file.verdict.field_name.lower())
        return Revision(self._show_verdict(verdict), self._reasons(call.text), critique)

    def _texts(self, task: JudgeTask) -> Mapping[str, str]:
        """Return the task's text for each placeholder."""
        fields = [name for name in PLACEHOLDERS if name not in ("rubric", "response")]
        texts: dict[str, str | None] = {name: getattr(task, name) for name in fields}
        if task.responses:  # a row is checked before it has responses
            texts["response"] = task.responses[0]
        criteria = task.rubric or self.rubric
        if criteria is not None:
            scale = self._labels.scale
            texts["rubric"] = (
                criteria if scale is None else Rubric(criteria, dict(task.levels), scale).text
            )
        return {name: text for name, text in texts.items() if text}

    def _read(self, choice: Choice) -> ParsedVerdict[PromptVerdict] | NoVerdict | None:
        """Parse the label, and the probabilities of all scores with `weighting=logprobs`."""
        label = self._parser.find(choice.text)
        scale = self._labels.scale
        if label is None:
            return None
        if self.settings.weighting != "logprobs" or scale is None:
            return label.replace_value(PromptVerdict(label.value))
        rule = self.file.verdict
        is_object = label.at is not None and choice.text.startswith("{", label.at[0])
        tag = rule.after if rule.after is not None else "[["
        field_pattern = re.escape(rule.field_name)
        field = re.compile(rf'"{field_pattern}"\s*:', re.IGNORECASE)
        probabilities = score_probabilities(choice, scale, tag=field if is_object else tag)
        if isinstance(probabilities, NoVerdict):
            return probabilities
        probability = probabilities.get(int(label.value), 0.0)
        return ParsedVerdict(PromptVerdict(label.value, mean_score(probabilities), probability))

    def _make_vote(self, call: JudgeCall[PromptVerdict]) -> PromptVote:
        if call.value is None:
            return PromptVote(None, None, call.text, call.error)
        label, expected, _ = call.value
        if expected is None:
            if self._labels.scale is not None:
                expected = float(label)
            else:
                expected = self._labels.scores[label]
        return PromptVote(label, expected, call.text)

    def _show_verdict(self, verdict: PromptVerdict) -> ShownVerdict:
        """Return the verdict as critiques compare it.

        Expected scores are rounded, because probabilities always differ in the last digits.
        """
        if self._labels.scale is None:
            return verdict.label
        if verdict.expected is None:
            return int(verdict.label)
        return round(verdict.expected, 1)

    def _reasons(self, text: str) -> str:
        """Return the reasons of a verdict: the explanation of an object, or the whole text."""
        return split_explanation(cut_thinking(text).strip(), self.file.verdict.field_name.lower())[
            1
        ]

    @staticmethod
    def _confidences(labels: Sequence[str], replies: Answers[PromptVerdict]) -> dict[str, float]:
        """Return the confidences.

        They are `votes` of several judgments, and with `weighting=logprobs` `probability`, the
        least of all calls.
        """
        confidences = {"votes": agreement(labels)} if len(labels) > 1 else {}
        verdicts = [
            call.value
            for call in chain(replies.calls, *replies.revisions.values())
            if call.value is not None
        ]
        probabilities = [
            verdict.probability for verdict in verdicts if verdict.probability is not None
        ]
        if probabilities:
            return {**confidences, "probability": min(probabilities)}
        return confidences


JUDGE = JudgeDefinition(
    PromptJudgeSettings,
    "by a prompt file, also as --judge=FILE.yaml",
    PromptTaskJudge,
    (),
    frozenset(("reference", "rubric", "context", "baseline")),
    reads_rubric=True,
    confidences=frozenset(("votes", "probability")),
)
