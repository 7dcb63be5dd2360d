"""A judge of any kind behind one face, and what of a task it is asked about.

Guarantees: an empty response costs no call; equal responses are judged once; a judge that sees each response by itself
gets each as a task of its own, so that equal responses of several tasks and requests can share one judgment, too; an
error of a judge is a failed judgment of the responses that it was asked about, and of no others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    failed_by,
    failure,
    response_judgment,
    shared_judgment,
)
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import UserError
from judgegym.llm.wire import is_blank

if TYPE_CHECKING:
    from judgegym.judges.config.judge import JudgeSettings
    from judgegym.judges.core.prompt_format import PromptFormat
    from judgegym.llm.client import ChatClient

logger = logging.getLogger(__name__)

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")
_EMPTY = failure("the response is empty: there is nothing to judge", Status.INVALID_COMPLETION.value)


class TaskError(ValueError):
    """A task lacks something that its judge needs; the message says what."""


class Scorer(Protocol):
    """A judge of any kind."""

    def check(self, task: JudgeTask) -> None:
        """Whether the task can be judged.

        Raises:
            TaskError: it lacks something.
        """

    def compares(self, task: JudgeTask) -> bool:
        """Whether the responses are judged together; otherwise `score` gets each of them in a task of its own."""

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """A result for each response of a checked task."""


class ScoresInProgress(Protocol):
    """The judgment of responses to one prompt that arrive one by one."""

    def add(self, response: str) -> None:
        """Take one more response; what can be judged already may be judged at once."""

    async def close(self) -> list[ResponseJudgment]:
        """A result for each response, in the order in which they came."""

    def cancel(self) -> None:
        """Give up: nobody waits for the results any more."""


@runtime_checkable
class GroupScorer(Scorer, Protocol):
    """A judge that compares responses, which may arrive one by one."""

    def fewest(self, task: JudgeTask) -> int:
        """Minimum number of responses to a task."""

    def start(self, task: JudgeTask, size: int) -> ScoresInProgress:
        """Begin to judge responses to a task, of which at most `size` will come; those of the task do not count."""


def raw_score(judgment: Judgment[object]) -> Mapping[str, float]:
    """The judge's own score, as `raw`."""
    assert judgment.score is not None  # only judgments with a score get here
    return {"raw": judgment.score}


def unit_score(
    judgment: Judgment[DetailT],
    unit: Callable[[float], float],
    components: Callable[[Judgment[DetailT]], Mapping[str, float]] = raw_score,
) -> ResponseJudgment:
    """The result of a judgment: its score from 0 to 1, and the numbers from which it is computed."""
    if judgment.score is None:
        return response_judgment([judgment], None, {})
    return response_judgment([judgment], unit(judgment.score), components(judgment))


def but_alone(task: JudgeTask, how_to_gather: str) -> str:
    """The end of a message about a response that came alone: how several come together, if there is a way."""
    is_alone = len(task.responses) == 1 and task.places is None
    return f"; {how_to_gather}" if is_alone and how_to_gather else ""


class SingleScorer(Generic[CaseT, DetailT]):
    """Judges each response by itself."""

    def __init__(
        self,
        judge_of: Callable[[JudgeTask], Judge[CaseT, DetailT]],
        case_of: Callable[[JudgeTask], CaseT],
        *,
        unit: Callable[[float], float] = float,
        components: Callable[[Judgment[DetailT]], Mapping[str, float]] = raw_score,
        check: Callable[[JudgeTask], None] = lambda task: None,
    ) -> None:
        """Make cases of tasks.

        Args:
            judge_of: the judge of a task, the same for all unless the task has criteria of its own.
            case_of: the case of a task with one response.
            unit: makes a score from 0 to 1 of the judge's own; 0 to 1 by default.
            components: numbers from which a score is computed; by default the judge's own score, as `raw`.
            check: raises `TaskError` for a task that the judge cannot judge.
        """
        self._judge_of, self._case_of, self.unit, self.components = judge_of, case_of, unit, components
        self.check = check

    def compares(self, task: JudgeTask) -> bool:
        """No response is compared with another."""
        return False

    async def judge(self, task: JudgeTask) -> Judgment[DetailT]:
        """The judgment of the response, with a score in the judge's own range."""
        return await self._judge_of(task).judge(self._case_of(task))

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """The response's score."""
        return [unit_score(await self.judge(task), self.unit, self.components)]


@dataclass(frozen=True, slots=True)
class JudgeDefinition:
    """A kind of judge, as a line in `judgegym.judges.scorers.registry` names it.

    Attributes:
        settings: the settings that it reads.
        about: what it does, for `--help`.
        scorer: opens it: the client of the judge model, the settings, and the rubric of tasks that have none.
        prompts: its prompts with plausible replies, for the offline stand-in.
        fields: which fields of a task it is shown, of those in `TASK_FIELDS`.
        reads_rubric: the setting `rubric` is its rubric where a task has none.
        most_together: the most responses that it compares; `None` if it sees each by itself.
    """

    settings: type[JudgeSettings]
    about: str
    scorer: Callable[[ChatClient, Any, str | None], Scorer]  # the second argument has the type of `settings`
    prompts: tuple[PromptFormat, ...]
    fields: frozenset[str] = frozenset()
    reads_rubric: bool = False
    most_together: int | None = None


Place: TypeAlias = "tuple[int, int]"
"""Where the result of a response is: the number of its case, and its number among the responses of the case."""


@dataclass(frozen=True, slots=True)
class TaskParts:
    """What is to be judged of a task.

    Attributes:
        cases: what the judge is asked about: the whole task, without its empty responses, or a task for each distinct
            response.
        results: for each response its result, if no judge is needed, or where the judge's will be.
    """

    cases: tuple[JudgeTask, ...]
    results: tuple[ResponseJudgment | Place, ...]


def result_without_judge(task: JudgeTask) -> ResponseJudgment | None:
    """The result of the only response of a task if no judge is asked about it."""
    if task.fault is not None:
        return failure(task.fault)
    return _EMPTY if is_blank(task.response) else None


def parts_of(scorer: Scorer, task: JudgeTask) -> TaskParts:
    """What is to be judged of a checked task."""
    responses = task.responses
    if task.fault is not None:
        return TaskParts((), (failure(task.fault),) * len(responses))
    filled = tuple(number for number, response in enumerate(responses) if not is_blank(response))
    if len(filled) == len(responses) == 1:
        return TaskParts((task,), ((0, 0),))
    if filled and scorer.compares(task):
        return _compared(scorer, task, filled)
    texts = {text: number for number, text in enumerate(dict.fromkeys(responses[number] for number in filled))}
    cases = tuple(replace(task, responses=(text,)) for text in texts)
    return TaskParts(cases, tuple((texts[text], 0) if text in texts else _EMPTY for text in responses))


def _compared(scorer: Scorer, task: JudgeTask, filled: tuple[int, ...]) -> TaskParts:
    """The task without its empty responses, if the judge can compare the others."""
    count, places = len(task.responses), {number: place for place, number in enumerate(filled)}
    if len(filled) == count:
        return TaskParts((task,), tuple((0, number) for number in range(count)))
    rest = replace(task, responses=tuple(task.responses[number] for number in filled), places=filled)
    try:
        scorer.check(rest)
    except TaskError as error:
        why = f"{count - len(filled)} of {count} responses are empty or invalid; of the others: {error}"
        alone = failure(why, is_final=True)
        return TaskParts((), tuple(alone if number in places else _EMPTY for number in range(count)))
    return TaskParts((rest,), tuple((0, places[number]) if number in places else _EMPTY for number in range(count)))


async def judge_responses(scorer: Scorer, task: JudgeTask) -> list[ResponseJudgment]:
    """A result for each response of a checked task; what is judged by itself is judged at the same time.

    Equal responses are judged once; an empty one has no score, and costs no call.
    """
    parts = parts_of(scorer, task)
    if len(parts.cases) == 1:  # needs no task of its own
        judged = [await scorer.score(parts.cases[0])]
    else:
        judged = await all_results(scorer.score(case) for case in parts.cases)
    taken: set[Place] = set()
    results: list[ResponseJudgment] = []
    for known in parts.results:
        if isinstance(known, ResponseJudgment):
            results.append(known)
            continue
        number, place = known
        result = judged[number][place]
        results.append(shared_judgment(result) if known in taken else result)
        taken.add(known)
    return results


ScoreItem: TypeAlias = Callable[[JudgeTask], Awaitable[list[ResponseJudgment]]]
"""Scores the responses of a task, as `judge_responses` does."""


async def results_of(score: ScoreItem, task: JudgeTask, name: str) -> list[ResponseJudgment]:
    """The results of a task's responses; where the judge raises an error, a failure for each.

    Args:
        score: judges.
        task: what is judged.
        name: of the task, in the log.

    Raises:
        UserError: what no further call can mend, such as a disk that stays full.
    """
    try:
        return await score(task)
    except UserError:
        raise  # it is not of this task: no other would end better
    except Exception as error:  # boundary of a task: an error of a judge fails this task alone
        logger.exception("%s: the judge failed", name)
        return failed_by(error, len(task.responses))
