"""What is scored and what comes of it: the two types that every protocol speaks to the core in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from judges.aspects.judge import Aspect
from judges.core.judgment import Judgment, Status
from judges.llm.usage import Usage


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt with the responses to it.

    Attributes:
        prompt: what was asked; empty if there is nothing to say of it.
        responses: one, or several that a group-relative judge compares.
        reference: a response that gets the highest score.
        rubric: by what to judge, as text.
        levels: what each score of the rubric means.
        aspects: yes/no questions, in place of the judge's own.
        baseline: the response to compare with.
        context: what the response was to use.
    """

    prompt: str
    responses: tuple[str, ...]
    reference: str | None = None
    rubric: str | None = None
    levels: tuple[tuple[int, str], ...] = ()
    aspects: tuple[Aspect, ...] | None = None
    baseline: str | None = None
    context: str | None = None

    def key(self, mount: str) -> str:
        """A digest: equal items at the same judge have the same."""
        aspects = None if self.aspects is None else [aspect.model_dump() for aspect in self.aspects]
        parts = [mount, self.prompt, self.responses, self.reference, self.rubric, self.levels, aspects]
        shape = orjson.dumps([*parts, self.baseline, self.context])
        return hashlib.sha256(shape).hexdigest()


@dataclass(frozen=True, slots=True)
class ResponseScore:
    """What became of one response.

    Attributes:
        score: the reward from 0 to 1; `None` exactly when `status` is not `ok`.
        status: as of a judgment.
        label: the verdict in the judge's own terms.
        explanation: the judge's reasons; for a failure, what went wrong.
        components: numbers that the score is made of, such as `raw` (in the judge's own unit) or an aspect's verdict.
        usage: tokens and cost of this request; zero for what the cache answered.
        judge_calls: calls to the judge.
        cached: every call was answered from the cache.
    """

    score: float | None
    status: str
    label: str | None = None
    explanation: str = ""
    components: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    judge_calls: int = 0
    cached: bool = False

    @property
    def failed(self) -> bool:
        """Whether there is no score."""
        return self.score is None


def failure(explanation: str, status: str = Status.JUDGE_FAILED.value) -> ResponseScore:
    """A response without a score."""
    return ResponseScore(None, status, explanation=explanation)


def response_score(
    judgments: Sequence[Judgment[object]], score: float | None, components: Mapping[str, float]
) -> ResponseScore:
    """One response's result from the judgments that it rests on; the first one speaks for it.

    Args:
        judgments: at least one.
        score: from 0 to 1; `None` if a judgment failed.
        components: what the score is made of.
    """
    calls = [call for judgment in judgments for call in judgment.calls]
    failed = next((judgment for judgment in judgments if judgment.score is None), None)
    speaker = failed or judgments[0]
    return ResponseScore(
        score=score if failed is None else None,
        status=speaker.status.value,
        label=speaker.label if len(judgments) == 1 else None,
        explanation="\n\n".join(dict.fromkeys(each.explanation for each in judgments if each.explanation))
        if failed is None
        else failed.explanation,
        components=components if failed is None else {},
        usage=sum((call.run.usage for call in calls), Usage()),
        judge_calls=len(calls),
        cached=bool(calls) and all(call.run.cached for call in calls),
    )
