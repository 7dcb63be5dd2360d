"""The rubric judge: scores a response on a scale by a rubric, in one or several independent judgments."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judgegym.judges.core.calls import NoVerdict, ask_choice, collect_votes, failed_judgment, vote
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judge import CritiqueRequest, Judge, Revision, critique_messages, with_self_critique
from judgegym.judges.core.judgment import JudgeCall, Judgment, Scale, Status
from judgegym.judges.core.scorer import JudgeDefinition, Scorer, SingleScorer, TaskError
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.rubric_scores import (
    SCORE_FIELD,
    before_feedback,
    feedback_text,
    is_strict_feedback,
    is_strict_object,
    rubric_form,
)
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.judges.rubrics.prompt import (
    REQUEST,
    RUBRIC_PROMPT,
    TAGS,
    Pooling,
    Rubric,
    RubricJudgeSettings,
    check_scale,
    expected_score,
    find_score,
    rubric_prompt,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import JSON, Choice

_REDRAWS = 2


@dataclass(frozen=True, slots=True)
class RubricCase:
    """A response and what it is judged by.

    Attributes:
        instruction: the instruction that the response answers.
        response: the text under judgment.
        rubric: the rubric with its scale.
        reference: a response that gets the highest score.
    """

    instruction: str
    response: str
    rubric: Rubric
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class RubricVerdict:
    """The score that a judge wrote, and with `weighting=logprobs` the expected score."""

    score: int
    expected: float | None = None

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


class RubricCaseJudge:
    """Judges responses by rubrics.

    >>> settings = RubricJudgeSettings(judge_base_url="http://127.0.0.1:8000/v1", samples_per_item=3)
    >>> judge = RubricCaseJudge(ChatClient(settings.chat_settings()), settings)
    >>> case = RubricCase("Why is the sky blue?", "It mirrors the sea.", Rubric("Is the answer correct?"))
    """

    def __init__(self, client: ChatClient, settings: RubricJudgeSettings | None = None) -> None:
        """Judge through `client`, with the default settings if none are given."""
        self.client = client
        self.settings = settings or RubricJudgeSettings()

    async def judge(self, case: RubricCase) -> Judgment[RubricDetail]:
        """Request all judgments at once; one without a score is requested again, at most twice for the response.

        Returns:
            A score on the rubric's scale (a whole number unless it is pooled or expected); or no score and the reason.
            Never raises because of a judge's answer.

        Raises:
            SettingsError: with `weighting=logprobs` the endpoint returns no probabilities, or the scale has scores of
                more than one digit.
        """
        count, scale = self.settings.samples_per_item, case.rubric.scale
        if self._is_weighted:
            check_scale(scale)
        prompt = self._prompt(case)

        async def ask_judgment(number: int) -> JudgeCall[RubricVerdict]:
            return await ask_choice(
                self.client,
                prompt.messages,
                lambda choice: self._read(choice, scale),
                name=f"judgment_{number + 1}",
                vote=vote(number, count=count, seed=self.settings.seed),
                extra=self._extra,
                form=self.settings.form(rubric_form(scale)),
            )

        calls = await collect_votes(ask_judgment, lambda usable: count - len(usable), at_most=count + _REDRAWS)
        return self._judgment(tuple(self._score(call, scale) for call in calls), tuple(calls), prompt.suspects)

    def critique_requests(
        self, case: RubricCase, judgment: Judgment[RubricDetail]
    ) -> list[CritiqueRequest[RubricVerdict]]:
        """One request for each judgment with a score; each is reconsidered separately."""
        assert judgment.detail is not None
        prompt = self._prompt(case)
        return [
            CritiqueRequest(
                component=f"judgment_{number}",
                verdict=RubricVerdict(earlier.score, earlier.expected).shown,
                reasoning=feedback_text(earlier.text) or earlier.text,
                messages=critique_messages(prompt.messages, after_thinking(earlier.text)),
                read=lambda choice: self._read(choice, case.rubric.scale),
                revision=_revision,
                extra=self._extra,
            ).held_to(self.settings.form(rubric_form(case.rubric.scale)))
            for number, earlier in enumerate(judgment.detail.judgments, start=1)
            if earlier.score is not None
        ]

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

    def _prompt(self, case: RubricCase) -> Prompt:
        return rubric_prompt(
            case.instruction,
            case.response,
            case.rubric,
            case.reference,
            output_format=self.settings.output_format,
            layout=self.settings.judge_prompt_layout,
            system_prompt=self.settings.judge_system_prompt,
        )

    @property
    def _is_weighted(self) -> bool:
        return self.settings.weighting == "logprobs"

    @property
    def _extra(self) -> Mapping[str, JSON]:
        return REQUEST if self._is_weighted else {}

    def _read(self, choice: Choice, scale: Scale) -> ParsedVerdict[RubricVerdict] | NoVerdict | None:
        score = find_score(choice.text, self.settings.output_format, scale)
        if score is None:
            return None
        if not self._is_weighted:
            return score.but(RubricVerdict(score.value))
        # An object begins with a brace, and a tag with a bracket.
        is_object = score.at is not None and choice.text.startswith("{", score.at[0])
        tag = SCORE_FIELD if is_object else TAGS[self.settings.output_format][1]
        expected = expected_score(choice, scale, tag=tag)
        if isinstance(expected, NoVerdict):
            return expected
        return ParsedVerdict(RubricVerdict(score.value, expected))  # of all probabilities, not of a place in the text

    def _score(self, call: JudgeCall[RubricVerdict], scale: Scale) -> RubricScore:
        verdict = call.value
        return RubricScore(
            score=None if verdict is None else verdict.score,
            expected=None if verdict is None else verdict.expected,
            text=call.text,
            strict=self._is_strict(call.text, scale),
            error=call.error,
        )

    def _is_strict(self, text: str, scale: Scale) -> bool:
        # An endpoint that refuses the object is asked for the other format.
        is_object = self.settings.judge_output == "json_schema" and is_strict_object(text, scale)
        return is_object or is_strict_feedback(text, self.settings.output_format, scale)

    def _judgment(
        self, scores: tuple[RubricScore, ...], calls: tuple[JudgeCall[object], ...], suspects: int
    ) -> Judgment[RubricDetail]:
        wanted = self.settings.samples_per_item
        values = [score.value for score in scores if score.value is not None]
        detail = RubricDetail(scores, statistics.stdev(values) if len(values) > 1 else None)
        if len(values) < wanted:
            reasons = "; ".join(dict.fromkeys(call.error for call in calls if call.error is not None))
            explanation = f"{len(values)} of {wanted} judgments have a score: {reasons}"
            return replace(failed_judgment(calls, explanation=explanation, detail=detail), suspects=suspects)
        pooled = pool(values, self.settings.samples_pooling)
        words = [feedback_text(score.text) or score.text for score in scores if score.value is not None]
        return Judgment(pooled, Status.OK, f"{pooled:g}", "\n\n".join(words), calls, detail, suspects=suspects)


def rubric_judge(settings: RubricJudgeSettings, client: ChatClient) -> Judge[RubricCase, RubricDetail]:
    """The judge that the settings ask for, with its self-critique."""
    return with_self_critique(RubricCaseJudge(client, settings), settings.judge_critique_rounds)


def _revision(call: JudgeCall[RubricVerdict]) -> Revision:
    assert call.value is not None  # only calls with a score get here
    return Revision(call.value.shown, feedback_text(call.text) or "", before_feedback(call.text))


def pool(values: Sequence[float], pooling: Pooling) -> float:
    """The mean or the median of several scores.

    >>> pool([2, 5, 5], "mean"), pool([2, 5, 5], "median")
    (4.0, 5.0)
    """
    return float(statistics.fmean(values) if pooling == "mean" else statistics.median(values))


GENERAL_RUBRIC = "Does the response answer what was asked correctly, completely and clearly?"
"""The rubric judge's rubric if neither the request nor the settings have one."""


def rubric_scorer(client: ChatClient, settings: RubricJudgeSettings, rubric: str | None) -> Scorer:
    """(score − lowest) / (highest − lowest) of the rubric judge."""
    judge, scale, general = rubric_judge(settings, client), settings.scale, rubric or GENERAL_RUBRIC

    def check(task: JudgeTask) -> None:
        beyond = next((level for level, _ in task.levels if level not in scale.levels), None)
        if beyond is not None:
            raise TaskError(f"rubric: a description of score {beyond}, beyond {scale.low} to {scale.high}")

    def case(task: JudgeTask) -> RubricCase:
        rubric = Rubric(task.rubric or general, dict(task.levels), scale)
        return RubricCase(task.prompt, task.response, rubric, task.reference)

    return SingleScorer(lambda task: judge, case, unit=scale.unit, check=check)


JUDGE = JudgeDefinition(
    RubricJudgeSettings,
    "score on a scale by a rubric",
    rubric_scorer,
    (RUBRIC_PROMPT,),
    frozenset(("reference", "rubric")),
    reads_rubric=True,
)
