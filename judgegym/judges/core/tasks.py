"""What a judge of any kind is asked, and what it says: a task to score, and the score of a response."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson

from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.llm.usage import Usage

if TYPE_CHECKING:
    from judgegym.judges.aspects.prompt import Aspect


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """One prompt with the responses to it.

    Attributes:
        prompt: the prompt; empty if unknown.
        responses: one response, or several that a group-relative judge compares.
        reference: a response that deserves the highest score.
        rubric: the criteria, as text.
        levels: the description of each score of the rubric.
        aspects: yes/no questions that replace the judge's own.
        baseline: the response to compare with.
        context: the text that the response should be based on.
        places: where the responses are in the request, from 0, if empty ones were left out.
        fault: why there is nothing to judge; no judge is called, and the responses fail with these words.
        group: the protocol's own id of the group to which the response belongs.
        member: the protocol's own id of the response in its group: its sample, and not one try of sending it.
        client: the name of the token with which a response came that is gathered: clients share no groups.

    Items that differ in `group`, `member` or `client` alone are equal: most judges need none of them.
    """

    prompt: str
    responses: tuple[str, ...]
    reference: str | None = None
    rubric: str | None = None
    levels: tuple[tuple[int, str], ...] = ()
    aspects: tuple[Aspect, ...] | None = None
    baseline: str | None = None
    context: str | None = None
    places: tuple[int, ...] | None = None
    fault: str | None = None
    group: str | None = field(default=None, compare=False)
    member: str | None = field(default=None, compare=False)
    client: str | None = field(default=None, compare=False)

    @property
    def response(self) -> str:
        """The response of a task that has one."""
        (response,) = self.responses
        return response

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the responses in the request, from 1, if empty ones were left out."""
        return tuple(place + 1 for place in self.places or ())

    def key(self, judge: str) -> str:
        """A digest, the same for equal tasks at the same judge."""
        aspects = None if self.aspects is None else [aspect.model_dump() for aspect in self.aspects]
        parts = [judge, self.prompt, self.responses, self.reference, self.rubric, self.levels, aspects]
        places = [] if self.places is None else [self.places]
        shape = orjson.dumps([*parts, self.baseline, self.context, *places])
        return hashlib.sha256(shape).hexdigest()


@dataclass(frozen=True, slots=True)
class ResponseJudgment:
    """The result for one response.

    Attributes:
        score: the reward from 0 to 1; `None` exactly when `status` is not `ok`.
        status: status of the judgment.
        label: the verdict in the judge's terms.
        explanation: the judge's reasons; for a failure, the error.
        components: numbers from which the score is computed: `raw` (in the judge's unit), an aspect's verdict, ….
        usage: tokens and cost; zero for calls answered by the cache. A call that was made for several responses counts
            for the first of them.
        judge_calls: calls to the judge, counted in the same way.
        runs: timings, attempts and usage of each of these calls, by name.
        cached: the cache answered all calls.
        injection_suspects: role tokens, and lookalikes of the prompt's markers, in the texts that the judge was shown.
        shared: the judgment is that of an equal response, for which its calls count.
        others: of a failed response whose group is known, the scores of the others; `None` for an empty one.
        is_final: of a failed response, that the request would fail again: its group is there, with too few to compare.
    """

    score: float | None
    status: str
    label: str | None = None
    explanation: str = ""
    components: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    judge_calls: int = 0
    runs: Mapping[str, CallRun] = field(default_factory=dict, compare=False)
    cached: bool = False
    injection_suspects: int = 0
    shared: bool = False
    others: tuple[float | None, ...] = ()
    is_final: bool = False

    @property
    def is_invalid(self) -> bool:
        """Whether the response is at fault, and not the judge, which was not asked."""
        return self.status == Status.INVALID_COMPLETION.value

    @property
    def is_failed(self) -> bool:
        """Whether the judge gave no score for a response that could be judged."""
        return self.score is None and not self.is_invalid


def failure(explanation: str, status: str = Status.JUDGE_FAILED.value, *, is_final: bool = False) -> ResponseJudgment:
    """The result of a response without a score."""
    return ResponseJudgment(None, status, explanation=explanation, is_final=is_final)


def failed_by(error: Exception, count: int) -> list[ResponseJudgment]:
    """The results of so many responses whose judge has raised an error."""
    return [failure(f"{type(error).__name__}: {error}")] * count


def shared_judgment(result: ResponseJudgment) -> ResponseJudgment:
    """The result of a response that is equal to the one of `result`, whose calls count there."""
    return replace(result, usage=Usage(), judge_calls=0, runs={}, shared=True)


def with_others(results: Sequence[ResponseJudgment], empty: int) -> list[ResponseJudgment]:
    """The results of a group, of which so many further responses are empty: failed ones know the others' scores."""
    others = (*(result.score for result in results if result.score is not None), *[None] * empty)
    return [replace(result, others=others) if result.is_failed else result for result in results]


def response_judgment(
    judgments: Sequence[Judgment[object]],
    score: float | None,
    components: Mapping[str, float],
    *,
    paid: Sequence[Judgment[object]] | None = None,
) -> ResponseJudgment:
    """The result of one response from its judgments.

    Status and explanation are those of the first judgment that failed; if none did, of the first.

    Args:
        judgments: at least one.
        score: from 0 to 1; `None` if a judgment failed.
        components: numbers from which the score is computed.
        paid: the judgments whose calls count for this response; by default all.
    """
    calls = [call for judgment in judgments for call in judgment.calls]
    paid_calls = calls if paid is None else [call for judgment in paid for call in judgment.calls]
    failed = next((judgment for judgment in judgments if judgment.score is None), None)
    leading = failed or judgments[0]
    return ResponseJudgment(
        score=score if failed is None else None,
        status=leading.status.value,
        label=leading.label if len(judgments) == 1 else None,
        explanation="\n\n".join(dict.fromkeys(judgment.explanation for judgment in judgments if judgment.explanation))
        if failed is None
        else failed.explanation,
        components=components if failed is None else {},
        usage=_usage(paid_calls),
        judge_calls=len(paid_calls),
        runs=_runs(paid_calls),
        cached=bool(calls) and all(call.run.cached for call in calls),
        injection_suspects=sum(judgment.suspects for judgment in judgments),
    )


def _usage(calls: Sequence[JudgeCall[object]]) -> Usage:
    """What the calls cost together; of most responses there is one."""
    return calls[0].run.usage if len(calls) == 1 else sum((call.run.usage for call in calls), Usage())


def _runs(calls: Sequence[JudgeCall[object]]) -> Mapping[str, CallRun]:
    """The calls by name; one whose name another has is numbered."""
    found: dict[str, CallRun] = {}
    for call in calls:
        found[call.name if call.name not in found else f"{call.name}#{len(found) + 1}"] = call.run
    return found
