"""The rubric judge: scores a response on a scale by a rubric, in one or several independent judgments."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from judgegym.judges.core.calls import NoVerdict, collect_votes, errors_of, failed_judgment
from judgegym.judges.core.judge import CritiqueRequest, JudgeDefinition, Revision, VerdictJudge, critique_messages
from judgegym.judges.core.judgment import JudgeCall, Judgment, Scale, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.rubric_scores import (
    SCORE_FIELD,
    before_feedback,
    feedback_text,
    is_strict_feedback,
    is_strict_object,
    rubric_form,
)
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm
from judgegym.judges.rubrics.prompt import (
    REQUEST,
    RUBRIC_PROMPT,
    SCORE_PARSERS,
    TAGS,
    Pooling,
    Rubric,
    RubricCase,
    RubricJudgeSettings,
    check_scale,
    mean_score,
    rubric_prompt,
    score_probabilities,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Choice


class RubricVerdict(NamedTuple):
    """The score that a judge wrote; with `weighting=logprobs` the expected score, and the written one's probability."""

    score: int
    expected: float | None = None
    probability: float | None = None

    @property
    def shown(self) -> int | float:
        """The verdict as critiques compare it; rounded, because probabilities always differ in the last digits."""
        return self.score if self.expected is None else round(self.expected, 1)


@dataclass(frozen=True, slots=True)
class RubricScore:
    """One of the judgments of a response.

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
        """The score that counts: the expected one if there is one, else the one in the text."""
        return self.score if self.expected is None else self.expected


@dataclass(frozen=True, slots=True)
class RubricDetail:
    """The judgments of which a score is pooled.

    Attributes:
        judgments: every call, in the order of its number; a call without a score was repeated.
        spread: the standard deviation of the scores (n − 1 in the denominator); `None` for fewer than two.
        gold: the gold score, if the judge is compared with it.
    """

    judgments: tuple[RubricScore, ...]
    spread: float | None = None
    gold: float | None = None


class RubricCaseJudge(VerdictJudge[RubricJudgeSettings, RubricCase, RubricDetail, RubricVerdict]):
    """Judges responses by rubrics: a score on the rubric's scale, a whole number unless it is pooled or expected."""

    def __init__(self, settings: RubricJudgeSettings, client: ChatClient, rubric: str | None = None) -> None:
        """Judge as the settings say through `client`; `rubric` is for tasks that have none."""
        super().__init__(settings, client, rubric)
        self.is_weighted = settings.weighting == "logprobs"
        self.extra = REQUEST if self.is_weighted else {}

    async def first_judgment(self, case: RubricCase) -> Judgment[RubricDetail]:
        """Request all judgments at once; one without a score is requested again, at most twice for the response.

        Raises:
            SettingsError: with `weighting=logprobs` the endpoint returns no probabilities, or the scale has scores of
                more than one digit.
        """
        if self.is_weighted:
            check_scale(case.rubric.scale)
        prompt = rubric_prompt(case, self.settings)
        calls = await collect_votes(
            lambda vote: self.ask(case, prompt.messages, f"judgment_{vote.number + 1}", vote),
            count=self.settings.samples_per_item,
            seed=self.settings.seed,
        )
        scores = tuple(self._score(call, case.rubric.scale) for call in calls)
        return self._judgment(scores, tuple(calls), prompt.suspects)

    def case_of(self, task: JudgeTask) -> RubricCase:
        """The response, by the rubric of the task or the general one."""
        rubric = Rubric(task.rubric or self.rubric or GENERAL_RUBRIC, dict(task.levels), self.settings.scale)
        return RubricCase(task.prompt, task.response, rubric, task.reference)

    def check(self, task: JudgeTask) -> None:
        """Check that the rubric describes scores of the scale alone."""
        super().check(task)
        scale = self.settings.scale
        beyond = next((level for level, _ in task.levels if level not in scale.levels), None)
        if beyond is not None:
            raise TaskError(f"rubric: a description of score {beyond}, beyond {scale.low} to {scale.high}")

    def unit(self, score: float) -> float:
        """(score − lowest) / (highest − lowest)."""
        return self.settings.scale.unit(score)

    def confidences(self, judgment: Judgment[RubricDetail]) -> Mapping[str, float]:
        """Also `votes` of several judgments, and with `weighting=logprobs` `probability`, the least of all."""
        found = {**super().confidences(judgment)}
        judgments = () if judgment.detail is None else judgment.detail.judgments
        scores = [one.score for one in judgments if one.score is not None]
        if len(scores) > 1:
            found["votes"] = max(0.0, 2.0 * max(map(scores.count, scores)) / len(scores) - 1.0)
        verdicts = [call.value for call in judgment.calls if isinstance(call.value, RubricVerdict)]
        probabilities = [verdict.probability for verdict in verdicts if verdict.probability is not None]
        return {**found, "probability": min(probabilities)} if probabilities else found

    def form(self, case: RubricCase) -> VerdictForm:
        """The form of a score of the scale."""
        return rubric_form(case.rubric.scale)

    def read(self, case: RubricCase, choice: Choice) -> ParsedVerdict[RubricVerdict] | NoVerdict | None:
        """Read the score, and the probabilities of all scores if they count."""
        output_format = self.settings.output_format
        score = SCORE_PARSERS[output_format].find(choice.text, case.rubric.scale)
        if score is None:
            return None
        if not self.is_weighted:
            return score.but(RubricVerdict(score.value))
        # An object begins with a brace, and a tag with a bracket.
        is_object = score.at is not None and choice.text.startswith("{", score.at[0])
        tag = SCORE_FIELD if is_object else TAGS[output_format][1]
        found = score_probabilities(choice, case.rubric.scale, tag=tag)
        if isinstance(found, NoVerdict):
            return found
        # Of all probabilities, not of a place in the text.
        return ParsedVerdict(RubricVerdict(score.value, mean_score(found), found.get(score.value, 0.0)))

    def critique_requests(self, case: RubricCase, judgment: Judgment[RubricDetail]) -> list[CritiqueRequest]:
        """One request for each judgment with a score; each is reconsidered separately."""
        assert judgment.detail is not None
        messages = rubric_prompt(case, self.settings).messages
        return [
            CritiqueRequest(
                f"judgment_{number}",
                RubricVerdict(earlier.score, earlier.expected).shown,
                feedback_text(earlier.text) or earlier.text,
                critique_messages(messages, after_thinking(earlier.text)),
            )
            for number, earlier in enumerate(judgment.detail.judgments, start=1)
            if earlier.score is not None
        ]

    def revision(self, call: JudgeCall[Any], verdict: RubricVerdict) -> Revision:
        """The revised score and its feedback."""
        return Revision(verdict.shown, feedback_text(call.text) or "", before_feedback(call.text))

    def apply_revisions(
        self, case: RubricCase, judgment: Judgment[RubricDetail], revisions: Mapping[str, JudgeCall[RubricVerdict]]
    ) -> Judgment[RubricDetail]:
        """The judgment pooled again, with the revised scores in place of earlier ones."""
        assert judgment.detail is not None
        scores = tuple(
            self._score(revisions[name], case.rubric.scale) if (name := f"judgment_{number}") in revisions else earlier
            for number, earlier in enumerate(judgment.detail.judgments, start=1)
        )
        return self._judgment(scores, judgment.calls, judgment.suspects)

    def _score(self, call: JudgeCall[RubricVerdict], scale: Scale) -> RubricScore:
        score, expected, _ = call.value or (None, None, None)
        # An endpoint that refuses the object is asked for the other format.
        is_object = self.settings.judge_output == "json_schema" and is_strict_object(call.text, scale)
        strict = is_object or is_strict_feedback(call.text, self.settings.output_format, scale)
        return RubricScore(score, expected, call.text, strict, call.error)

    def _judgment(
        self, scores: tuple[RubricScore, ...], calls: tuple[JudgeCall[object], ...], suspects: int
    ) -> Judgment[RubricDetail]:
        wanted = self.settings.samples_per_item
        values = [score.value for score in scores if score.value is not None]
        detail = RubricDetail(scores, statistics.stdev(values) if len(values) > 1 else None)
        if len(values) < wanted:
            explanation = f"{len(values)} of {wanted} judgments have a score: {errors_of(calls)}"
            return replace(failed_judgment(calls, explanation=explanation, detail=detail), suspects=suspects)
        pooled = pool(values, self.settings.samples_pooling)
        words = [feedback_text(score.text) or score.text for score in scores if score.value is not None]
        return Judgment(pooled, Status.OK, f"{pooled:g}", "\n\n".join(words), calls, detail, suspects=suspects)


def pool(values: Sequence[float], pooling: Pooling) -> float:
    """The mean or the median of several scores.

    >>> pool([2, 5, 5], "mean"), pool([2, 5, 5], "median")
    (4.0, 5.0)
    """
    return float(statistics.fmean(values) if pooling == "mean" else statistics.median(values))


GENERAL_RUBRIC = "Does the response answer what was asked correctly, completely and clearly?"
"""The rubric judge's rubric if neither the request nor the settings have one."""


JUDGE = JudgeDefinition(
    RubricJudgeSettings,
    "score on a scale by a rubric",
    RubricCaseJudge,
    (RUBRIC_PROMPT,),
    frozenset(("reference", "rubric")),
    reads_rubric=True,
)
