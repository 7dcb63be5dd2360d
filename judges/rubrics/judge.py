"""The rubric judge: how good a response is by a rubric, in one or several independent judgments."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.core.calls import NoVerdict, ask_choice
from judges.core.critique import CritiqueRequest, Revision, critique_messages
from judges.core.judgment import JudgeCall, Judgment, Status
from judges.core.scale import Scale
from judges.core.voting import check_temperature, collect_votes, vote
from judges.llm.client import ChatClient
from judges.llm.wire import JSON, Choice, Message
from judges.parsing.thinking import after_thinking
from judges.parsing.verdicts import RubricFormat, before_feedback, feedback_text, is_strict_feedback
from judges.rubrics.expected_score import REQUEST, check_scale, expected_score
from judges.rubrics.prompt import TAGS, Rubric, read_score, rubric_messages

Weighting = Literal["none", "logprobs"]
Pooling = Literal["mean", "median"]

_REDRAWS = 2


@dataclass(frozen=True, slots=True)
class RubricScore:
    """One judgment of several.

    Attributes:
        score: the whole number that was read, `None` if none was.
        expected: the expectation over the scale's tokens, where that is what counts.
        text: the judge's whole text.
        strict: the judge kept to its format to the letter.
        error: why there is no score.
    """

    score: int | None
    expected: float | None
    text: str
    strict: bool
    error: str | None = None

    @property
    def value(self) -> float | None:
        """What counts: the expectation where there is one, else the score."""
        return self.score if self.expected is None else self.expected


@dataclass(frozen=True, slots=True)
class RubricDetail:
    """How a score came about.

    Attributes:
        judgments: every call, in the order of its number; those without a score were drawn again.
        spread: the standard deviation over the judgments with a score (n − 1 in the denominator); `None` for fewer
            than two.
        gold: the score that people gave, where the judge is compared with them.
    """

    judgments: tuple[RubricScore, ...]
    spread: float | None = None
    gold: float | None = None


@dataclass(frozen=True, slots=True)
class RubricSettings:
    """How a score is taken.

    Attributes:
        output_format: what the judge is asked to write.
        samples: independent judgments of each response.
        pooling: what their scores become.
        weighting: `logprobs` counts the expectation over the scale's tokens in place of the number that was sampled.
        temperature: of each judgment; if `None`, the judge's own for a single one and 0.7 for several.
        seed: of the first judgment, and one more for each further one; not sent with a single one.
        system_prompt: instead of the built-in one.
    """

    output_format: RubricFormat = "feedback_score"
    samples: int = 1
    pooling: Pooling = "mean"
    weighting: Weighting = "none"
    temperature: float | None = None
    seed: int = 0
    system_prompt: str | None = None


class RubricJudge:
    """Judges responses by rubrics."""

    def __init__(self, client: ChatClient, settings: RubricSettings = RubricSettings()) -> None:
        """Judge through `client`.

        Raises:
            ValueError: there is to be less than one judgment.
        """
        if settings.samples < 1:
            raise ValueError(f"samples is {settings.samples}; expected at least one judgment")
        check_temperature(settings.samples, settings.temperature)
        self.client = client
        self.settings = settings

    async def judge(
        self, *, instruction: str, response: str, rubric: Rubric, reference: str | None = None
    ) -> Judgment[RubricDetail]:
        """Take the judgments, all at once; one without a score is drawn again, twice at the most.

        Args:
            instruction: what the response answers.
            response: what is judged.
            rubric: by what.
            reference: a response that gets the highest score.

        Returns:
            A score on the rubric's scale (a whole number unless several judgments or probabilities went into it); or no
            score and the reason. Never raises on what a judge answers.

        Raises:
            SettingsError: probabilities are to count, and the endpoint returns none or the scale has longer numbers.
        """
        settings = self.settings
        if settings.weighting == "logprobs":
            check_scale(rubric.scale)
        messages = self._messages(instruction, response, rubric, reference)

        async def one(number: int) -> JudgeCall:
            which = vote(number, count=settings.samples, temperature=settings.temperature, seed=settings.seed)
            return await ask_choice(
                self.client,
                messages,
                lambda choice: self._read(choice, rubric.scale),
                name=f"judgment_{number + 1}",
                vote=which,
                extra=self._extra,
            )

        calls = await collect_votes(
            one, lambda usable: settings.samples - len(usable), at_most=settings.samples + _REDRAWS
        )
        scored = tuple(self._scored(call, rubric.scale) for call in calls)
        return self._judgment(scored, tuple(calls))

    def critique_requests(
        self,
        judgment: Judgment[RubricDetail],
        *,
        instruction: str,
        response: str,
        rubric: Rubric,
        reference: str | None = None,
    ) -> list[CritiqueRequest]:
        """Each of the judgments, to be reconsidered by itself."""
        assert judgment.detail is not None
        shown = self._messages(instruction, response, rubric, reference)

        def revision(call: JudgeCall) -> Revision:
            assert call.value is not None  # only calls with a score get here
            return Revision(_shown(call.value), feedback_text(call.text) or "", before_feedback(call.text))

        return [
            CritiqueRequest(
                component=f"judgment_{number}",
                verdict=_shown(each.value),
                reasoning=feedback_text(each.text) or each.text,
                messages=critique_messages(shown, after_thinking(each.text)),
                read=lambda choice: self._read(choice, rubric.scale),
                revision=revision,
                extra=self._extra,
            )
            for number, each in enumerate(judgment.detail.judgments, start=1)
            if each.value is not None
        ]

    def apply_revisions(
        self,
        judgment: Judgment[RubricDetail],
        revisions: Mapping[str, JudgeCall],
        *,
        instruction: str,
        response: str,
        rubric: Rubric,
        reference: str | None = None,
    ) -> Judgment[RubricDetail]:
        """The judgments with revised scores in place of earlier ones, pooled anew."""
        assert judgment.detail is not None
        scored = tuple(
            self._scored(revisions[part], rubric.scale) if (part := f"judgment_{number}") in revisions else each
            for number, each in enumerate(judgment.detail.judgments, start=1)
        )
        return self._judgment(scored, judgment.calls)

    def _messages(self, instruction: str, response: str, rubric: Rubric, reference: str | None) -> list[Message]:
        return rubric_messages(
            instruction,
            response,
            rubric,
            reference,
            output_format=self.settings.output_format,
            system_prompt=self.settings.system_prompt,
        )

    @property
    def _extra(self) -> Mapping[str, JSON]:
        return REQUEST if self.settings.weighting == "logprobs" else {}

    def _read(self, choice: Choice, scale: Scale) -> float | NoVerdict | None:
        score = read_score(choice.text, self.settings.output_format, scale)
        if score is None or self.settings.weighting == "none":
            return score
        return expected_score(choice, scale, tag=TAGS[self.settings.output_format][1])

    def _judgment(self, scored: tuple[RubricScore, ...], calls: tuple[JudgeCall, ...]) -> Judgment[RubricDetail]:
        settings = self.settings
        values = [each.value for each in scored if each.value is not None]
        detail = RubricDetail(scored, statistics.stdev(values) if len(values) > 1 else None)
        if len(values) < settings.samples:
            failed = any(call.failed for call in calls)
            reasons = "; ".join(dict.fromkeys(call.error for call in calls if call.error is not None))
            return Judgment(
                score=None,
                status=Status.JUDGE_FAILED if failed else Status.UNPARSABLE,
                explanation=f"{len(values)} of {settings.samples} judgments have a score: {reasons}",
                calls=calls,
                detail=detail,
            )
        score = pool(values, settings.pooling)
        words = [feedback_text(each.text) or each.text for each in scored if each.value is not None]
        return Judgment(score, Status.OK, f"{score:g}", "\n\n".join(words), calls, detail)

    def _scored(self, call: JudgeCall, scale: Scale) -> RubricScore:
        output_format = self.settings.output_format
        value, weighted = call.value, self.settings.weighting == "logprobs"
        return RubricScore(
            score=None if value is None else read_score(call.text, output_format, scale),
            expected=float(value) if value is not None and weighted else None,
            text=call.text,
            strict=is_strict_feedback(call.text, output_format, scale),
            error=call.error,
        )


def _shown(value: str | int | float) -> str | int | float:
    """A score as critique compares it: no two answers have the same probabilities to the last digit."""
    return round(value, 1) if isinstance(value, float) else value


def pool(values: Sequence[float], pooling: Pooling) -> float:
    """Several scores as one; that of a single judgment is itself."""
    return float(statistics.fmean(values) if pooling == "mean" else statistics.median(values))
