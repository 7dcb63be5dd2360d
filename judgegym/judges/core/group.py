"""The contract of group judges, which compare the responses to one prompt.

Guarantees of every group judge: an answer gets its own score, whatever the order in which the judge
saw or named the answers; equal answers have one score; an answer without a verdict has no score,
and the others keep theirs; a judge's failure is a judgment without a score, never an exception.

`describe_looks` and `describe_orders` put a group's calls into words, for tables and pages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from judgegym.judges.core.images import check_images, show_images
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    TaskError,
    explain_single_response,
    make_response_judgment,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.judges.config.judge import JudgeSettings

ResultT = TypeVar("ResultT")
GROUP_FIELDS = frozenset(("reference", "rubric", "baseline", "context"))
"""The fields of a task that group judges are shown."""


def response_number(task: JudgeTask, index: int) -> int:
    """Return the position, from 1, of the response at an index in the request."""
    return 1 + (task.places[index] if task.places else index)


class Look(NamedTuple):
    """How one call saw one answer.

    Attributes:
        place: the answer's position among those that the call showed, from 1.
        of: number of answers that the call showed.
        points: its points in the call, from 0 to 1: a score; or 1 for a win, 0.5 for a tie, 0 for a
            loss.
    """

    place: int
    of: int
    points: float


@dataclass(frozen=True, slots=True)
class MemberDetail:
    """An answer's result in the judge's own terms.

    Attributes:
        looks: how each call with a verdict on the answer saw it.
        own: the score before the comparison with the anchor: for a listwise judge the mean of its
            scores (0 to 1), for a tournament the answer's strength, as log-odds against the group's
            mean. `None` without a score.
    """

    looks: tuple[Look, ...]
    own: float | None


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """The agreement of two orders: how many pairs had the same winner in both orders.

    Only pairs seen in both orders count. A tie in both orders is an agreement; a tie in only one is
    not.
    """

    agreed: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class GroupJudgment:
    """The judgments of a group.

    Attributes:
        members: one for each response of the task, in order. Scores are from 0 to 1; 0.5 means as
            good as the anchor, or in a tournament without one, as good as the group's mean. All
            calls are in the first member's judgment, so that sums over the group count them once.
        orders: the agreement between the orders in which answers were shown.
    """

    members: tuple[Judgment[MemberDetail], ...]
    orders: OrderAgreement = OrderAgreement()


class GroupInProgress(Protocol):
    """A group whose answers arrive one by one."""

    def add(self, answer: str) -> None:
        """Add an answer; what can be compared already is compared at once."""

    async def close(self) -> GroupJudgment:
        """Judge the answers added so far, since no more will come.

        Return a judgment for each, in the order in which they came.
        """

    def cancel(self) -> None:
        """Cancel: nobody waits for a judgment any more."""


class AnswerCollector(Generic[ResultT]):
    """Collects answers and judges them together when the group is closed."""

    def __init__(self, judge: Callable[[tuple[str, ...]], Awaitable[ResultT]]) -> None:
        """Judge the collected answers with `judge`."""
        self._judge, self._answers = judge, list[str]()

    def add(self, answer: str) -> None:
        """Add an answer."""
        self._answers.append(answer)

    async def close(self) -> ResultT:
        """Judge the collected answers."""
        return await self._judge(tuple(self._answers))

    def cancel(self) -> None:
        """Do nothing: no call is made before the group is closed."""


class GroupJudge(ABC):
    """A judge that scores each response of a task among the others.

    A task's baseline is the anchor.
    """

    client: ChatClient
    settings: JudgeSettings
    max_responses = 64
    """Maximum number of responses that it compares."""

    def __init__(self, settings: JudgeSettings, rubric: str | None = None) -> None:
        """Set settings and client; `rubric` is for tasks without one.

        Raises:
            SettingsError: the settings ask for self-critique, which group judges do not have.
        """
        if settings.judge_critique_rounds:
            raise SettingsError(
                f"judge_critique_rounds is {settings.judge_critique_rounds}: a judge of groups has "
                "no self-critique; "
                "expected 0"
            )
        self.settings, self._rubric, self._how_to_gather = settings, rubric, settings.how_to_gather
        self._limit: int | None = getattr(
            settings, "judge_conversation_limit", None
        )  # only judges of tasks have it

    @abstractmethod
    async def judge(self, task: JudgeTask) -> GroupJudgment:
        """Judge all responses of a task.

        With fewer than two members, the anchor included, none has a score.

        The judge is shown the rubric unchanged, without `levels`; without a rubric, its general
        criteria. The baseline is the anchor: a further member of the group that the judge cannot
        tell from the others and that gets no reward. With an anchor, scores say how a response
        compares with it, so that scores of different tasks are comparable, too.
        """

    @abstractmethod
    def start(self, task: JudgeTask, size: int) -> GroupInProgress:
        """Start a group; at most `size` responses will be added to those of the task."""

    def check(self, task: JudgeTask) -> None:
        """Check that there are enough responses to compare, and not too many."""
        check_images(task, self.client)
        count = len(task.responses)
        if count < self.min_responses(task):
            raise TaskError(
                "responses: expected several to compare with each other, or a baseline"
                + explain_single_response(task, self._how_to_gather)
            )
        if count > self.max_responses:
            raise TaskError(
                f"responses: at most {self.max_responses} against each other, found {count}; send "
                "them in smaller groups"
            )

    def compares(self, task: JudgeTask) -> bool:
        """Return true: all responses are compared."""
        return True

    def min_responses(self, task: JudgeTask) -> int:
        """Return two, the baseline included."""
        if task.baseline is None:
            return 2
        return 1

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Score all responses of a request."""
        shortened_task, left_out = task.shorten_to(self._limit)
        with show_images(task):
            return convert_group_judgment(
                task.responses, await self.judge(self._set_rubric(shortened_task)), left_out
            )

    def begin(
        self, task: JudgeTask, size: int
    ) -> GroupScorer | AnswerCollector[list[ResponseJudgment]]:
        """Begin a group.

        A tournament plays as responses arrive, unless long ones are shortened.
        """
        if self._limit is not None:
            return AnswerCollector(lambda responses: self.score(task.replace_responses(responses)))
        return GroupScorer(self.start(replace(self._set_rubric(task), places=None), size))

    def _set_rubric(self, task: JudgeTask) -> JudgeTask:
        """Return the task with all criteria merged into its rubric."""
        levels = (f"Score {level}: {description}" for level, description in task.levels)
        criteria = "\n".join([task.rubric or self._rubric or "", *levels]).strip()
        return replace(task, rubric=criteria, levels=())


class GroupScorer:
    """A group in progress, whose judgments become the results of its responses."""

    def __init__(self, group: GroupInProgress) -> None:
        """Add responses to `group`."""
        self._group, self._responses = group, list[str]()

    def add(self, response: str) -> None:
        """Add a response."""
        self._group.add(response)
        self._responses.append(response)

    async def close(self) -> list[ResponseJudgment]:
        """Return the results of the added responses."""
        return convert_group_judgment(self._responses, await self._group.close())

    def cancel(self) -> None:
        """Cancel."""
        self._group.cancel()


def convert_group_judgment(
    responses: Sequence[str], judgment: GroupJudgment, left_out: int = 0
) -> list[ResponseJudgment]:
    """Convert a group's judgment to results; all calls count for the first response.

    The judge was not shown `left_out` characters. Components: `own`, the score before the
    comparison with the anchor; `looks`, the number of calls with a verdict on the response;
    `position`, its mean position in them, from 1; `orders_agree`, the share of the group's pairs
    with the same winner in both orders, if both were asked. In a group of two also `points_first`
    and `points_second`: the response's mean points where it was shown first and second.
    """
    calls = list(chain.from_iterable(member.calls for member in judgment.members))
    orders = judgment.orders
    cached = bool(calls) and all(call.run.cached for call in calls)
    results: list[ResponseJudgment] = []
    for index, member in enumerate(judgment.members):
        components: dict[str, float] = {}
        if member.detail is not None and member.detail.own is not None:
            looks = member.detail.looks
            components = {"own": member.detail.own, "looks": float(len(looks))}
            if looks:
                components["position"] = sum(look.place for look in looks) / len(looks)
            if orders.pairs:
                components["orders_agree"] = orders.agreed / orders.pairs
            if len(responses) == 2:
                for position, name in enumerate(("points_first", "points_second"), start=1):
                    points = [
                        look.points for look in looks if (look.place, look.of) == (position, 2)
                    ]
                    components |= {name: fmean(points)} if points else {}
        result = make_response_judgment(
            replace(member, left_out=left_out), member.score, components
        )
        results.append(replace(result, cached=cached, shared=responses[index] in responses[:index]))
    return results


_MAX_LISTED_LOOKS = 3


def describe_looks(looks: Sequence[Look]) -> str:
    """Describe an answer's position and points in each call; of many calls the sums.

    >>> describe_looks([Look(2, 8, 0.7), Look(7, 8, 0.6)])
    'place 2 of 8: 0.7; place 7 of 8: 0.6'
    >>> describe_looks([Look(1, 2, 1.0), Look(2, 2, 0.5)] * 7)
    '14 games, 7 shown first: 10.5 points'
    """
    if not looks:
        return ""
    if len(looks) <= _MAX_LISTED_LOOKS:
        return "; ".join(f"place {look.place} of {look.of}: {look.points:.3g}" for look in looks)
    if all(look.of == 2 for look in looks):  # a game has two sides
        first = sum(look.place == 1 for look in looks)
        total = sum(look.points for look in looks)
        return f"{len(looks)} games, {first} shown first: {total:.4g} points"
    look_count = len(looks)
    mean = fmean(look.points for look in looks)
    return f"{look_count} calls, mean {mean:.3g}"


def describe_orders(orders: OrderAgreement) -> str:
    """Describe how far the orders agree; empty if no pair was seen in both.

    >>> describe_orders(OrderAgreement(agreed=26, pairs=28))
    'the orders agree on 26 of 28 pairs'
    """
    if orders.pairs:
        return f"the orders agree on {orders.agreed} of {orders.pairs} pairs"
    return ""
