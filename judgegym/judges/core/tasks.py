"""Tasks of judges and their results: prompts with responses, and the judgment of each response.

Guarantees: empty responses are not sent to the judge; equal responses are judged once; a judge that
    sees each response by itself gets each as a separate task, so that equal responses of several
    tasks and requests can share one judgment, too; a judge's error fails only the responses it was
    asked about.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import orjson

from judgegym.judges.conversations.shortening import shorten
from judgegym.judges.conversations.tools import Tool
from judgegym.judges.conversations.turns import (
    IMAGE_MARK,
    Turn,
    list_images,
    renumber_images,
    replace_text,
    replace_turns,
    split_turns,
)
from judgegym.judges.core.judgment import CallRun, Judgment, NamedVerdict, Status
from judgegym.llm.at_once import gather_results
from judgegym.llm.cache import independent
from judgegym.llm.errors import BudgetError, EndpointOutage, UserError
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Image, is_blank

if TYPE_CHECKING:
    from judgegym.judges.aspects.prompt import Aspect
    from judgegym.judges.checklists.criteria import Criterion
    from judgegym.judges.config.thinking import ThinkingSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """One prompt with the responses to it.

    Attributes:
        prompt: the prompt; empty if unknown.
        responses: one response, or several that a group judge compares; none if they are still to
            come.
        reference: a response that deserves the highest score.
        rubric: the criteria, as text.
        levels: the description of each score of the rubric.
        aspects: yes/no questions that replace the judge's own.
        criteria: criteria with points that replace the judge's own.
        baseline: the response to compare with.
        context: the text that the response should be based on.
        places: the responses' indices in the request, from 0, if empty ones were left out.
        fault: the reason why there is nothing to judge; no judge is called, and the responses fail
            with this text.
        written: for each response all that the policy wrote, if thinking was removed from one
            (`remove_task_thinking`).
        traces: the turns of each response that came as a conversation, with the tool calls that led
            to it even if the prompt shows these; empty for a text.
        tools: the tools offered to the policy, which the prompt also defines.
        images: the prompt's images, in the order of their marks.
        repeat: which of several independent judgments of an equal task this is, from 0; they share
            no call.
        group: the protocol's id of the response's group.
        member: the protocol's id of the response in its group; it names the sample, not one attempt
            to send it.
        awaits_others: whether a response with a fault waits for the scores of the others of its
            group.
        client: the name of the token of a gathered response: clients share no groups.

    Tasks that differ only in `group`, `member` or `client` are equal: most judges need none of
    these.
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
    criteria: tuple[Criterion, ...] | None = None
    written: tuple[str, ...] = ()
    traces: tuple[tuple[Turn, ...], ...] = ()
    tools: tuple[Tool, ...] = ()
    images: tuple[Image, ...] = ()
    repeat: int = 0
    group: str | None = field(default=None, compare=False)
    member: str | None = field(default=None, compare=False)
    client: str | None = field(default=None, compare=False)
    awaits_others: bool = field(default=False, compare=False)

    @property
    def response(self) -> str:
        """The response of a task that has exactly one."""
        (response,) = self.responses
        return response

    @property
    def trace(self) -> tuple[Turn, ...]:
        """The turns of the only response; empty if it came as a text."""
        if self.traces:
            return self.traces[0]
        return ()

    @property
    def firsts(self) -> list[int]:
        """For each response the index of the first one with the same text and trace.

        Only the first of several equal responses is judged.
        """
        return index_first_duplicates([*zip_longest(self.responses, self.traces, self.written)])

    @property
    def _texts(self) -> list[tuple[str, tuple[Image, ...]]]:
        """The prompt and each response, with the images whose marks they have."""
        response_images = [list_images(trace) for trace in self.traces] or [()] * len(
            self.responses
        )
        return list(
            zip((self.prompt, *self.responses), (self.images, *response_images), strict=True)
        )

    @property
    def all_images(self) -> tuple[Image, ...]:
        """The images of the prompt and of the responses, each with its mark."""
        images: list[Image] = []
        marks: list[str] = []
        for text, text_images in self._texts:
            if text_images:
                images += text_images
                marks += IMAGE_MARK.findall(text)
        return tuple(replace(image, mark=mark) for image, mark in zip(images, marks, strict=True))

    def number_images(self) -> JudgeTask:
        """Number the images through prompt and responses, and escape texts that look like marks."""
        numbers = count(1)
        prompt, *responses = (
            renumber_images(text, images, numbers) for text, images in self._texts
        )
        has_images = any(images for _, images in self._texts)
        if has_images:
            return replace(self, prompt=prompt, responses=tuple(responses))
        return self

    def select_responses(
        self, numbers: Sequence[int], places: tuple[int, ...] | None = None
    ) -> JudgeTask:
        """Return the task with some of its responses, by index from 0, and with `places`."""
        return replace(
            self,
            responses=tuple(self.responses[number] for number in numbers),
            traces=tuple(self.traces[number] for number in numbers) if self.traces else (),
            written=tuple(self.written[number] for number in numbers) if self.written else (),
            places=places,
        )

    def replace_responses(
        self, responses: Sequence[str], places: tuple[int, ...] | None = None
    ) -> JudgeTask:
        """Return the task with other responses, which are texts, and with `places`."""
        return replace(
            self, responses=tuple(responses), traces=(), written=(), places=places
        ).number_images()

    def shorten_to(self, limit: int | None) -> tuple[JudgeTask, int]:
        """Return the task shortened to `limit` characters, and the number left out."""
        if limit is None:
            return self, 0
        prompt, responses, left_out = shorten(self.prompt, self.responses, limit)
        return replace(self, prompt=prompt, responses=responses), left_out

    def key(self, judge: str) -> str:
        """Return a digest that is the same for equal tasks of the same judge."""
        aspects = None
        if self.aspects is not None:
            aspects = [aspect.model_dump() for aspect in self.aspects]
        parts = [
            judge,
            self.prompt,
            self.responses,
            self.reference,
            self.rubric,
            self.levels,
            aspects,
        ]
        places: list[object] = [] if self.places is None else [self.places]
        if self.criteria is not None:
            places.append([criterion.model_dump() for criterion in self.criteria])
        if self.repeat:
            places.append({"repeat": self.repeat})
        if any(self.traces) or self.images:
            places.append(repr((self.traces, self.images)))
        if self.written:
            places.append({"written": self.written})
        return hashlib.sha256(
            orjson.dumps([*parts, self.baseline, self.context, *places])
        ).hexdigest()


@dataclass(frozen=True, slots=True)
class ResponseJudgment:
    """The result for one response.

    Attributes:
        score: the reward from 0 to 1; `None` exactly when `status` is not `ok`.
        status: the judgment's status.
        label: the verdict in the judge's terms.
        explanation: the judge's reasons; for a failure, the error.
        components: numbers behind the score: `raw` (in the judge's unit), an aspect's verdict, ….
        verdicts: the verdict on each aspect or criterion, also if others have none and there is no
            score.
        tags: a checklist's score of each tag.
        usage: tokens and cost; zero for cached calls. A call made for several responses counts for
            the first of them.
        judge_calls: number of judge calls, counted in the same way.
        runs: timings, attempts and usage of each of these calls, by name.
        cached: whether the cache answered all calls.
        injection_suspects: role tokens, and lookalikes of the prompt's markers, in the texts that
            the judge was shown.
        shared: whether the judgment is that of an equal response, for which its calls count.
        others: for a failed response whose group is known, the others' scores; `None` for an empty
            one.
        cause: if unparsable, `refused` or `cut_off` where the judge's last text has no verdict for
            that reason; if failed, how the last request failed (`EndpointError.cause`).
        is_final: whether a failed response would fail again: its group is complete, with too few
            responses to compare.
    """

    score: float | None
    status: str
    label: str | None = None
    explanation: str = ""
    components: Mapping[str, float] = field(default_factory=dict)
    verdicts: tuple[NamedVerdict, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    judge_calls: int = 0
    runs: Mapping[str, CallRun] = field(default_factory=dict, compare=False)
    cached: bool = False
    injection_suspects: int = 0
    shared: bool = False
    others: tuple[float | None, ...] = ()
    cause: str = field(default="", compare=False)
    is_final: bool = False

    @property
    def raw(self) -> float | None:
        """The score in the judge's own unit, else from 0 to 1; `None` without a score."""
        if self.score is None:
            return None
        return self.components.get("raw", self.score)

    @property
    def is_invalid(self) -> bool:
        """Whether the response is at fault, and not the judge, which was not called."""
        return self.status == Status.INVALID_COMPLETION.value

    @property
    def is_failed(self) -> bool:
        """Whether the judge gave no score for a response that could be judged."""
        return self.score is None and not self.is_invalid


def make_failure(
    explanation: str, status: str = Status.JUDGE_FAILED.value, *, is_final: bool = False
) -> ResponseJudgment:
    """Make the result of a response without a score."""
    return ResponseJudgment(None, status, explanation=explanation, is_final=is_final)


BUDGET_SPENT = "budget_spent"
"""The status of a response that was not judged because its caller's budget is spent."""


def fail_responses(error: Exception, count: int) -> list[ResponseJudgment]:
    """Return failed results for `count` responses whose judge has raised an error."""
    if isinstance(error, BudgetError):
        return [make_failure(str(error), BUDGET_SPENT, is_final=True)] * count
    cause = "rejected" if isinstance(error, EndpointOutage) else ""
    error_type = type(error).__name__
    return [replace(make_failure(f"{error_type}: {error}"), cause=cause)] * count


def share_judgment(result: ResponseJudgment) -> ResponseJudgment:
    """Return the result for a response equal to that of `result`, which counts the calls."""
    return replace(result, usage=Usage(), judge_calls=0, runs={}, shared=True)


def set_other_scores(results: Sequence[ResponseJudgment], empty: int) -> list[ResponseJudgment]:
    """Give the failed results of a group the scores of the others.

    `empty` further responses of the group are empty.
    """
    others = (*(result.score for result in results if result.score is not None), *[None] * empty)
    return [replace(result, others=others) if result.is_failed else result for result in results]


def make_response_judgment(
    judgment: Judgment[object],
    score: float | None,
    components: Mapping[str, float],
    *,
    is_paid: bool = True,
) -> ResponseJudgment:
    """Make the result of one response from its judgment.

    Args:
        judgment: the judgment.
        score: from 0 to 1; `None` if the judgment failed.
        components: numbers behind the score.
        is_paid: whether the judgment's calls count for this response.
    """
    calls = judgment.calls
    paid = calls if is_paid else ()
    runs: dict[str, CallRun] = {}
    for call in paid:  # a repeated name gets a number
        runs[call.name if call.name not in runs else f"{call.name}#{len(runs) + 1}"] = call.run
    left_out = {"left_out": float(judgment.left_out)} if judgment.left_out else {}
    if judgment.status is Status.UNPARSABLE:
        states = [call.state for call in calls if call.value is None]
    else:
        states = []
    if judgment.status is Status.JUDGE_FAILED:
        failures = [call.cause for call in calls if call.cause]
    else:
        failures = []
    if len(paid) == 1:
        usage = paid[0].run.usage
    else:
        usage = sum((call.run.usage for call in paid), Usage())
    if states and states[-1] != "whole":
        cause: str = states[-1]
    else:
        cause = failures[-1] if failures else ""
    return ResponseJudgment(
        score=score,
        status=judgment.status.value,
        label=judgment.label,
        explanation=judgment.explanation,
        components={} if score is None else {**components, **left_out},
        usage=usage,
        judge_calls=len(paid),
        runs=runs,
        cached=bool(calls) and all(call.run.cached for call in calls),
        injection_suspects=judgment.suspects,
        cause=cause,
    )


class TaskError(ValueError):
    """A task lacks something that its judge needs; the message says what."""


def explain_single_response(task: JudgeTask, how_to_gather: str) -> str:
    """Return the end of a message about a single response: how several can be gathered."""
    is_alone = len(task.responses) == 1 and task.places is None
    if is_alone and how_to_gather:
        return f"; {how_to_gather}"
    return ""


class TaskJudge(Protocol):
    """A judge of any kind, as tasks are given to it."""

    @property
    def settings(self) -> ThinkingSettings:
        """Its settings, which say whether judges see the thinking of a completion."""

    def check(self, task: JudgeTask) -> None:
        """Check that the task can be judged.

        Raises:
            TaskError: it lacks something.
        """

    def compares(self, task: JudgeTask) -> bool:
        """Return whether the responses are judged together.

        Otherwise `score` gets each of them in a separate task.
        """

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Return a result for each response of a checked task."""


class ScoresInProgress(Protocol):
    """The judgment of responses to one prompt that arrive one by one."""

    def add(self, response: str) -> None:
        """Add a response; what can be judged already may be judged at once."""

    async def close(self) -> list[ResponseJudgment]:
        """Return a result for each response, in the order in which they came."""

    def cancel(self) -> None:
        """Cancel: nobody waits for the results any more."""


@runtime_checkable
class ComparingJudge(TaskJudge, Protocol):
    """A judge that compares responses, which may arrive one by one."""

    def min_responses(self, task: JudgeTask) -> int:
        """Return the minimum number of responses to a task."""

    def begin(self, task: JudgeTask, size: int) -> ScoresInProgress:
        """Begin to judge at most `size` further responses to a task."""


ResultIndex: TypeAlias = "tuple[int, int]"
"""The position of a response's result: the index of its case, and its index among the case's
responses."""


class TaskParts(NamedTuple):
    """A task split into the parts that are judged.

    Attributes:
        cases: the tasks for the judge: the whole task without its empty responses, or one task for
            each distinct response.
        results: for each response its result if no judge is needed, else the position of the
            judge's result.
    """

    cases: tuple[JudgeTask, ...]
    results: tuple[ResponseJudgment | ResultIndex, ...]


def remove_task_thinking(task: JudgeTask, settings: ThinkingSettings) -> JudgeTask:
    """Return the task as judges, rules and reward models see it: by default without thinking.

    Every judged text passes here. If neither a response nor an earlier answer in the prompt begins
    with thinking, the task stays as it is, and so do the keys of its requests.
    """
    if settings.judges_whole_text:
        return task
    prompt = render_prompt_text(task.prompt, settings)
    if prompt != task.prompt:
        task = replace(task, prompt=prompt)
    if task.written:
        return task
    all_traces = task.traces or ((),) * len(task.responses)
    stripped = [
        _remove_response_thinking(text, trace, settings)
        for text, trace in zip(task.responses, all_traces, strict=True)
    ]
    if all(text == original for (text, _), original in zip(stripped, task.responses, strict=True)):
        return task
    responses = tuple(text for text, _ in stripped)
    traces = tuple(trace for _, trace in stripped)
    return replace(
        task, responses=responses, traces=traces if task.traces else (), written=task.responses
    )


def render_prompt_text(prompt: str, settings: ThinkingSettings) -> str:
    """Render a conversation prompt with the assistant's turns as judges see them.

    A turn of nothing but thinking is left out.

    A turn with images stays as it is: their marks belong to its text.
    """
    turns = split_turns(prompt)
    shown_turns: list[str] = []
    is_changed = False
    for heading, content in turns:
        text = content
        if heading.startswith("assistant") and not IMAGE_MARK.search(content):
            text = settings.hide_thinking(content).text
        is_changed |= text != content
        if text or not content:
            shown_turns.append(f"{heading}: {text}")
    if not is_changed:
        return prompt
    return "\n\n".join(shown_turns)


def count_with_thinking(task: JudgeTask, settings: ThinkingSettings) -> int:
    """Count the responses of a task that lose their thinking in `remove_task_thinking`."""
    task = remove_task_thinking(task, settings)
    return sum(text != written for text, written in zip(task.responses, task.written, strict=False))


def _remove_response_thinking(
    text: str, trace: tuple[Turn, ...], settings: ThinkingSettings
) -> tuple[str, tuple[Turn, ...]]:
    """Return a response without thinking, and its turns without theirs."""
    if not trace:
        return settings.hide_thinking(text).text, trace
    # Image marks belong to a turn's text.
    turns = [
        (
            turn,
            settings.hide_thinking(turn.text) if turn.is_policy_turn and not turn.images else None,
        )
        for turn in trace
    ]
    if not any(part is not None and part.written for _, part in turns):
        return text, trace
    new_turns = tuple(
        turn if part is None or not part.written else replace_text(turn, part.text, part.thinking)
        for turn, part in turns
    )
    return replace_turns(text, trace, new_turns), new_turns


def result_without_judge(task: JudgeTask) -> ResponseJudgment | None:
    """Return the result of a task's only response if no judge is needed."""
    if task.fault is not None:
        return make_failure(task.fault)
    if is_blank(task.response):
        return _empty_result(task, 0)
    return None


def _empty_result(task: JudgeTask, number: int) -> ResponseJudgment:
    """Return the result of an empty response."""
    is_thinking = task.written and not is_blank(task.written[number])
    return make_failure(
        ONLY_THINKING if is_thinking else _EMPTY_RESPONSE, Status.INVALID_COMPLETION.value
    )


def split_task(judge: TaskJudge, task: JudgeTask) -> TaskParts:
    """Split a checked task into the parts that are judged."""
    task = remove_task_thinking(task, judge.settings)
    responses, count = task.responses, len(task.responses)
    if task.fault is not None:
        return TaskParts((), (make_failure(task.fault),) * count)
    non_empty = tuple(number for number, response in enumerate(responses) if not is_blank(response))
    if len(non_empty) == count == 1:
        return TaskParts((task,), ((0, 0),))
    if not non_empty or not judge.compares(task):
        firsts = task.firsts
        cases = [number for number in non_empty if firsts[number] == number]
        places = {number: (case, 0) for case, number in enumerate(cases)}
        results = tuple(places.get(first) or _empty_result(task, first) for first in firsts)
        return TaskParts(tuple(task.select_responses((number,)) for number in cases), results)
    if len(non_empty) == count:
        return TaskParts((task,), tuple((0, number) for number in range(count)))
    filled_task = task.select_responses(non_empty, non_empty)
    try:
        judge.check(filled_task)
    except TaskError as error:
        empty_count = count - len(non_empty)
        reason = f"{empty_count} of {count} responses are empty or invalid; of the others: {error}"
        failed = make_failure(reason, is_final=True)
        return TaskParts(
            (),
            tuple(
                failed if number in non_empty else _empty_result(task, number)
                for number in range(count)
            ),
        )
    places = {number: (0, index) for index, number in enumerate(non_empty)}
    return TaskParts(
        (filled_task,),
        tuple(places.get(number) or _empty_result(task, number) for number in range(count)),
    )


def index_first_duplicates(values: Sequence[Hashable]) -> list[int]:
    """Return for each value the index of the first equal one, or its own."""
    firsts: dict[Hashable, int] = {}
    return [firsts.setdefault(value, number) for number, value in enumerate(values)]


async def judge_responses(judge: TaskJudge, task: JudgeTask) -> list[ResponseJudgment]:
    """Judge each response of a checked task; single judgments run at the same time.

    Equal responses are judged once; empty ones are not sent to the judge and have no score.
    """
    cases, placements = split_task(judge, task)
    with independent(task.repeat):
        judgments = await gather_results(map(judge.score, cases))
    taken: set[ResultIndex] = set()
    results: list[ResponseJudgment] = []
    for placement in placements:
        if isinstance(placement, ResponseJudgment):
            results.append(placement)
            continue
        result = judgments[placement[0]][placement[1]]
        results.append(share_judgment(result) if placement in taken else result)
        taken.add(placement)
    return results


TaskScorer: TypeAlias = Callable[[JudgeTask], Awaitable[list[ResponseJudgment]]]
"""Scores the responses of a task, as `judge_responses` does."""


async def score_or_fail(score: TaskScorer, task: JudgeTask, name: str) -> list[ResponseJudgment]:
    """Score a task's responses; if the judge raises an error, return a failure for each.

    Args:
        score: judges.
        task: what is judged.
        name: the task's name in the log.

    Raises:
        UserError: an error that no further call can fix, such as a full disk.
    """
    try:
        return await score(task)
    except UserError:
        raise  # the error is not specific to this task: retrying cannot help
    except Exception as error:  # a judge's error fails only this task
        logger.exception("%s: the judge failed", name)
        return fail_responses(error, len(task.responses))


_EMPTY_RESPONSE = "the response is empty: there is nothing to judge"
ONLY_THINKING = (
    "there is nothing but thinking, which never ends or has no answer behind it: nothing to judge"
)
"""The reason why a text of nothing but thinking cannot be judged."""
