"""Rubric judge: scores a response on a scale by a rubric, in one or several judgments."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from judgegym.judges.core.calls import NoVerdict, failed_judgment, join_errors
from judgegym.judges.core.decisions import DecisionForm
from judgegym.judges.core.judge import CritiqueRequest, JudgeDefinition, Revision, critique_messages
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question, agreement
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.decisions import MOST_LEVELS, Decision, DecisionQuestion
from judgegym.judges.parsing.rubric_scores import (
    SCORE_FIELD,
    cut_feedback,
    feedback_text,
    is_strict_feedback,
    is_strict_object,
    rubric_form,
)
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.judges.rubrics.prompt import (
    REQUEST,
    RUBRIC_PROMPT,
    SCORE_PARSERS,
    TAGS,
    Pooling,
    Rubric,
    RubricJudgeSettings,
    mean_score,
    rubric_prompt,
    score_probabilities,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Choice


class RubricVerdict(NamedTuple):
    """The score that a judge wrote.

    With `weighting=logprobs` it also has the expected score and the written score's probability.
    """

    score: int
    expected: float | None = None
    probability: float | None = None

    @property
    def comparable_value(self) -> int | float:
        """Verdict as critiques compare it.

        It is rounded, because probabilities always differ in the last digits.
        """
        if self.expected is None:
            return self.score
        return round(self.expected, 1)


@dataclass(frozen=True, slots=True)
class RubricScore:
    """One of a response's judgments.

    Attributes:
        score: the score in the judge's text; `None` if none could be read.
        expected: the expected score, with `weighting=logprobs`.
        text: the judge's whole text.
        strict: the text follows the format exactly.
        error: why there is no score.
    """

    score: int | None
    expected: float | None
    text: str
    strict: bool
    error: str | None = None

    @property
    def value(self) -> float | None:
        """The score that counts: the expected one, or else the one in the text."""
        if self.expected is None:
            return self.score
        return self.expected


@dataclass(frozen=True, slots=True)
class RubricDetail:
    """The judgments that a score is pooled from.

    Attributes:
        judgments: every call, in the order of its number; a call without a score was repeated.
        spread: the standard deviation of the scores (n − 1 in the denominator); `None` for fewer
            than two.
        gold: the gold score, if the judge is compared with gold.
    """

    judgments: tuple[RubricScore, ...]
    spread: float | None = None
    gold: float | None = None


class RubricTaskJudge(ModelJudge[RubricJudgeSettings, RubricDetail, RubricVerdict]):
    """Judge of responses by rubrics: a score on the settings' scale.

    It is a whole number unless it is pooled or expected. A decision model's is expected.
    """

    unread_with_decisions = frozenset({"output_format", "samples_pooling", "weighting"})

    def __init__(
        self, settings: RubricJudgeSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Judge as the settings say through `client`.

        Raises:
            SettingsError: a decision model is asked for more levels than it takes.
        """
        super().__init__(settings, client, rubric)
        count = len(settings.scale.levels)
        if self.decides and count > MOST_LEVELS:
            raise SettingsError(
                f"scale_max: the scale from {settings.scale_min} to {settings.scale_max} has "
                f"{count} levels; a decision model takes {MOST_LEVELS} or fewer"
            )

    def check(self, task: JudgeTask) -> None:
        """Check that the rubric describes only scores of the scale."""
        super().check(task)
        scale = self.settings.scale
        beyond = next((level for level, _ in task.levels if level not in scale.levels), None)
        if beyond is not None:
            raise TaskError(
                f"rubric: a description of score {beyond}, which is outside of {scale.low} to "
                f"{scale.high}"
            )

    def questions(self, task: JudgeTask) -> Sequence[Question[RubricVerdict]]:
        """Ask for the score, in as many independent judgments as the settings say."""
        settings = self.settings
        question = Question(
            "judgment",
            rubric_prompt(self._task_rubric(task), task, settings),
            self._parse_choice,
            rubric_form(settings.scale),
            votes=settings.samples_per_item,
            extra=REQUEST if settings.weighting == "logprobs" else {},
            decision=self._make_form(task) if self.decides else None,
        )
        return [question]

    def combine(
        self, task: JudgeTask, answers: Sequence[Answers[RubricVerdict]]
    ) -> Judgment[RubricDetail]:
        """Pool the scores."""
        (replies,) = answers
        settings, scale = self.settings, self.settings.scale
        scores = tuple(
            self._score_call(replies.latest_revision(call.name, call)) for call in replies.calls
        )
        values = [score.value for score in scores if score.value is not None]
        deviation = None
        if len(values) > 1:
            deviation = statistics.stdev(values)
        detail = RubricDetail(scores, deviation)
        confidences = self._confidences(scores, replies)
        if len(values) < settings.samples_per_item:
            errors = join_errors(replies.calls)
            count = len(values)
            explanation = f"{count} of {settings.samples_per_item} judgments have a score: {errors}"
            failed = failed_judgment(replies.calls, explanation=explanation, detail=detail)
            return replace(failed, confidences=confidences)
        pooled = pool(values, settings.samples_pooling)
        reasons = [
            feedback_text(score.text) or score.text for score in scores if score.value is not None
        ]
        return Judgment(
            pooled,
            Status.OK,
            f"{pooled:g}",
            "\n\n".join(reasons),
            detail=detail,
            unit=scale.unit(pooled),
            components={"raw": pooled},
            confidences=confidences,
        )

    def critique_requests(
        self, task: JudgeTask, answers: Answers[RubricVerdict]
    ) -> list[CritiqueRequest]:
        """Return one request for each judgment with a score; each is reconsidered separately."""
        messages = answers.question.prompt.messages
        calls = [(call.name, answers.latest_revision(call.name, call)) for call in answers.calls]
        return [
            CritiqueRequest(
                name,
                call.value.comparable_value,
                feedback_text(call.text) or call.text,
                critique_messages(messages, cut_thinking(call.text)),
            )
            for name, call in calls
            if call.value is not None
        ]

    def revision(self, call: JudgeCall[RubricVerdict], verdict: RubricVerdict) -> Revision:
        """Return the revised score and its feedback."""
        return Revision(
            verdict.comparable_value, feedback_text(call.text) or "", cut_feedback(call.text)
        )

    def _make_form(self, task: JudgeTask) -> DecisionForm[RubricVerdict]:
        """Return the rubric as a decision model's question with its levels, lowest first."""
        rubric = self._task_rubric(task)
        levels = []
        for level in rubric.scale.levels:
            description = rubric.levels.get(level)
            levels.append(f"{level}" if description is None else f"{level}: {description}")
        typed = DecisionQuestion("score", rubric.criteria, levels=tuple(levels))
        return DecisionForm(self.state_texts(task), [typed], self._read_decision)

    def _read_decision(self, decisions: Sequence[Decision]) -> RubricVerdict:
        (decision,) = decisions
        low = self.settings.scale.low
        level = low + int(decision.label)
        return RubricVerdict(level, low + decision.expected, decision.probability)

    def _task_rubric(self, task: JudgeTask) -> Rubric:
        """Return the rubric of the task or the general one."""
        return Rubric(
            task.rubric or self.rubric or GENERAL_RUBRIC, dict(task.levels), self.settings.scale
        )

    def _parse_choice(self, choice: Choice) -> ParsedVerdict[RubricVerdict] | NoVerdict | None:
        """Read the score, and the probabilities of all scores if they count.

        Raises:
            SettingsError: with `weighting=logprobs` the endpoint returns no probabilities.
        """
        output_format, scale = self.settings.output_format, self.settings.scale
        score = SCORE_PARSERS[output_format].find(choice.text, scale)
        if score is None:
            return None
        if self.settings.weighting != "logprobs":
            return score.replace_value(RubricVerdict(score.value))
        # An object begins with a brace, and a tag with a bracket.
        is_object = score.at is not None and choice.text.startswith("{", score.at[0])
        tag = SCORE_FIELD if is_object else TAGS[output_format][1]
        probabilities = score_probabilities(choice, scale, tag=tag)
        if isinstance(probabilities, NoVerdict):
            return probabilities
        verdict = RubricVerdict(
            score.value, mean_score(probabilities), probabilities.get(score.value, 0.0)
        )
        return ParsedVerdict(verdict)  # made from all probabilities, not from one place in the text

    def _score_call(self, call: JudgeCall[RubricVerdict]) -> RubricScore:
        score, expected, _ = call.value or (None, None, None)
        settings = self.settings
        # If the endpoint refuses `response_format`, the judge is asked for the text format.
        is_object = settings.judge_output == "json_schema" and is_strict_object(
            call.text, settings.scale
        )
        strict = (
            self.decides
            or is_object
            or is_strict_feedback(call.text, settings.output_format, settings.scale)
        )
        return RubricScore(score, expected, call.text, strict, call.error)

    @staticmethod
    def _confidences(
        scores: Sequence[RubricScore], replies: Answers[RubricVerdict]
    ) -> dict[str, float]:
        """Return the confidences: `votes` of several judgments, and `probability`.

        `probability` needs `weighting=logprobs` and is the minimum over all calls.
        """
        levels = [score.score for score in scores if score.score is not None]
        confidences = dict[str, float]()
        if len(levels) > 1:
            confidences["votes"] = agreement(levels)
        calls = chain(replies.calls, *replies.revisions.values())
        verdicts = [call.value for call in calls if call.value is not None]
        probabilities = [
            verdict.probability for verdict in verdicts if verdict.probability is not None
        ]
        if probabilities:
            confidences["probability"] = min(probabilities)
        return confidences


def pool(values: Sequence[float], pooling: Pooling) -> float:
    """Return the mean or the median of several scores.

    >>> pool([2, 5, 5], "mean"), pool([2, 5, 5], "median")
    (4.0, 5.0)
    """
    if pooling == "mean":
        return float(statistics.fmean(values))
    return float(statistics.median(values))


GENERAL_RUBRIC = "Does the response answer what was asked correctly, completely and clearly?"
"""The rubric judge's rubric if neither the request nor the settings have one."""


JUDGE = JudgeDefinition(
    RubricJudgeSettings,
    "score on a scale by a rubric",
    RubricTaskJudge,
    (RUBRIC_PROMPT,),
    frozenset(("reference", "rubric")),
    reads_rubric=True,
    confidences=frozenset(("votes", "probability")),
)
