"""A judge's judgment: a score, or the reason why there is none.

`Scale` is a scale of whole numbers, for prompts, parsers and rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, Literal, NamedTuple, TypeVar

from judgegym.llm.usage import Usage
from judgegym.llm.wire import ChoiceState

DetailT_co = TypeVar("DetailT_co", covariant=True)
ValueT_co = TypeVar("ValueT_co", covariant=True)


class Status(str, Enum):
    """The outcome of a judgment. Only `OK` has a score."""

    OK = "ok"
    JUDGE_FAILED = "judge_failed"
    """A judge call never succeeded."""
    UNPARSABLE = "unparsable"
    """The judge responded, but no verdict could be parsed."""
    INVALID_COMPLETION = "invalid_completion"
    """The completion has the wrong format; the environment decides its score
    (`EnvSpec.invalid_score`)."""

    @property
    def is_failure(self) -> bool:
        """Whether the score is missing because of the judge."""
        return self in (Status.JUDGE_FAILED, Status.UNPARSABLE)


@dataclass(frozen=True, slots=True)
class CallRun:
    """The part of a call that may differ between two runs.

    Attributes:
        latency_s: seconds from the first request to the response, retries and their pauses
            included.
        attempts: number of requests sent; 0 for a cached response.
        cached: whether the response came from the judgment cache.
        usage: tokens and cost; all zero for a cached response.
    """

    latency_s: float = 0.0
    attempts: int = 0
    cached: bool = False
    usage: Usage = Usage()


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class JudgeCall(Generic[ValueT_co]):
    """One judge call: a question with its response or its failure.

    Attributes:
        name: unique in its judgment, such as `game_1` or `game_2_reask`.
        text: the judge's text without its thinking; empty if the call never succeeded, or the
            thinking never ends.
        reasoning: its thinking, and reasoning that the endpoint returned in a separate field.
        value: the verdict, as the judge's parser returns it; `None` if there is none.
        error: the reason why there is no text or no verdict; `None` if there is a verdict.
        run: timings, attempts, usage.
        failed: whether the call never succeeded, as opposed to a response without a verdict.
        rejected: whether the endpoint refused the call and would refuse a retry too.
        state: whether the judge's text is whole, was cut off or was refused.
        cause: if it failed, how its last request failed (`EndpointError.cause`).
    """

    name: str
    text: str
    reasoning: str | None
    value: ValueT_co | None
    error: str | None
    run: CallRun
    failed: bool = False
    rejected: bool = False
    state: ChoiceState = "whole"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class CritiqueRound:
    """One round of self-critique over one verdict.

    Attributes:
        round: from 1.
        component: which verdict of the judgment, such as `game_1`; empty if there is only one.
        before: the verdict before the round.
        before_reasoning: its reasons.
        raw: the judge's text after its thinking: critique and revision; empty if the call never
            succeeded.
        critique: the part of the text before the revised verdict.
        after: the verdict after the round; a failed round keeps the one before.
        after_reasoning: its reasons.
        status: `revised`, `unchanged` (the same verdict, possibly with other reasons) or `failed`.
        error: why the round failed.
    """

    round: int
    component: str
    before: str | int | float
    before_reasoning: str
    raw: str
    critique: str
    after: str | int | float
    after_reasoning: str
    status: Literal["revised", "unchanged", "failed"]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Critique:
    """The history of self-critique: the score before its first round, and the rounds."""

    before_score: float
    rounds: tuple[CritiqueRound, ...]


@dataclass(frozen=True, slots=True)
class NamedVerdict:
    """The verdict on one aspect or criterion of a response.

    Attributes:
        name: of the aspect or criterion.
        points: how much it counts; negative if a yes is bad.
        value: 1 for yes or met, 0 for no or unmet, in between for an option; `None` without a
            verdict.
    """

    name: str
    points: float
    value: float | None

    @property
    def good(self) -> float | None:
        """The value as a number from 0 (bad) to 1 (good)."""
        if self.value is None or self.points >= 0:
            return self.value
        return 1.0 - self.value


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class Judgment(Generic[DetailT_co]):
    """A judge's finding about one completion.

    >>> Judgment(4.0, Status.OK, "4", "Correct, but long.").score
    4.0

    Attributes:
        score: a number in the judge's own range; `None` exactly if `status` is not `OK`.
        status: whether there is a score, and if not, why.
        label: the verdict in the judge's own terms, such as `win` or `[[A]]`; `None` without one.
        explanation: the judge's reasons; of a failure, what went wrong.
        calls: every call with its text, verdict, attempts, tokens, cost and latency, ordered by
            name.
        detail: more in the terms of this kind of judge, such as both games, each aspect's votes,
            each part; `None` if no judge was called.
        critique: the history of the self-critique; `None` without one.
        suspects: count of role tokens, template tokens and lookalikes of markers in the texts that
            the judge saw.
        left_out: characters of a long conversation that the judge did not see.
        members: the score from 0 to 1 of each member of an environment's jury that has one.
        unit: the score from 0 to 1 if the judge has another range; `None` if `score` is that.
        components: the numbers behind the score, such as `raw` on the judge's own scale.
        confidences: how sure the judge is, from 0 to 1, by each measure that it knows, such as
            `margin`.
        contributions: what each part adds to a score that is a sum of parts.
        verdicts: the verdict on each aspect or criterion.
        tags: the score of each tag of the criteria.
    """

    score: float | None
    status: Status
    label: str | None = None
    explanation: str = ""
    calls: tuple[JudgeCall[object], ...] = ()
    detail: DetailT_co | None = None
    critique: Critique | None = None
    suspects: int = 0
    left_out: int = 0
    members: Mapping[str, float] = field(default_factory=dict)
    unit: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    confidences: Mapping[str, float] = field(default_factory=dict)
    contributions: Mapping[str, float] = field(default_factory=dict)
    verdicts: tuple[NamedVerdict, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)

    @property
    def unit_score(self) -> float | None:
        """The score as a number from 0 to 1; `None` without a score."""
        if self.unit is None:
            return self.score
        return self.unit

    def scale_score(self, factor: float) -> Judgment[DetailT_co]:
        """Return the judgment with its score times `factor`.

        A rule beside a judge whose lowest score is 0 scales like this. Without a score the judgment
        stays as it is.

        One without a score stays as it is.
        """
        if self.unit_score is None:
            return self
        return replace(self, score=self.unit_score * factor, unit=None)

    def __post_init__(self) -> None:
        """Check that there is a score exactly when the status is `OK`; all callers rely on it.

        Raises:
            ValueError: there is a score without status `OK`, or the reverse.
        """
        if (self.score is None) is (self.status is Status.OK):
            raise ValueError(
                f"a judgment with status {self.status.value!r} cannot have the score {self.score!r}"
            )


def margin(unit: float) -> float:
    """Return how far a score from 0 to 1 is from the middle: 2·abs(score − ½)."""
    return round(abs(2.0 * unit - 1.0), 9)


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The numbers from which a score was computed.

    Attributes:
        parts: by name, such as `raw`, the score on the judge's own scale.
        contributions: what each part adds to a reward that is a sum of parts.
    """

    parts: Mapping[str, float]
    contributions: Mapping[str, float] = field(default_factory=dict)


class Scale(NamedTuple):
    """A scale from the lowest to the highest score, both included; the highest is the best.

    >>> Scale(1, 5).unit(4), Scale(1, 5).nearest(3.6)
    (0.75, 4)
    """

    low: int = 1
    high: int = 5

    @property
    def levels(self) -> range:
        """All scores of the scale, from lowest to highest."""
        return range(self.low, self.high + 1)

    @property
    def span(self) -> int:
        """The distance between the lowest and the highest score."""
        return self.high - self.low

    @property
    def sentence(self) -> str:
        """The scale as a prompt describes it."""
        return f"an integer between {self.low} and {self.high}"

    def unit(self, score: float) -> float:
        """Return a score as a number from 0 (the lowest) to 1 (the highest)."""
        return (score - self.low) / self.span

    def includes(self, score: object) -> bool:
        """Return whether this is a number within the scale, on a level or between two."""
        return isinstance(score, int | float) and self.low <= score <= self.high

    def nearest(self, score: float) -> int:
        """Return the level nearest to a score between levels; a score halfway is rounded up."""
        return max(self.low, min(self.high, int((score - self.low) + 0.5) + self.low))
