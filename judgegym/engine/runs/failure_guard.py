"""End a run in which nothing succeeds, because the endpoints refuse the requests.

Guarantees: a run in which one group succeeded does not end by itself, however long its endpoints are down afterwards.

Workers that end together, also where an endpoint answers no call any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from judgegym.judges.core.judgment import Judgment
from judgegym.llm.errors import EndpointError, EndpointOutage, JudgeGymError

HOPELESS_AFTER = 10
"""End a run after this many failures without a success."""


class NothingSucceeds(JudgeGymError):
    """The first groups or rows all failed; the message is the error of the last one."""


class FailureGuard:
    """Counts the groups that an endpoint refused before the first success.

    A wrong key, a wrong model name or an endpoint without tokens fails every group, while the other endpoint costs
    money for each.
    """

    def __init__(self) -> None:
        """Begin with no refusal and no success."""
        self._any_success = False
        self._refused = 0

    def record_unsampled(self, error: JudgeGymError) -> None:
        """Record a group that could not be sampled.

        Raises:
            NothingSucceeds: the limit is reached.
        """
        if not is_retryable(error):
            self._record_refusal(why_unsampled(error))

    def record_judged(self, judgments: Sequence[Judgment[Any]], *, has_scores: bool) -> None:
        """Record a group whose judge was asked.

        Raises:
            NothingSucceeds: the judge refused it, and the limit is reached.
        """
        calls = [call for judgment in judgments for call in judgment.calls]
        if has_scores:
            self._any_success = True
        elif calls and all(call.rejected for call in calls):
            self._record_refusal(calls[-1].error or "the judge refuses")

    def _record_refusal(self, why: str) -> None:
        self._refused += 1
        if not self._any_success and self._refused >= HOPELESS_AFTER:
            raise NothingSucceeds(why)


def is_retryable(error: JudgeGymError) -> bool:
    """Return whether sampling that failed may succeed later."""
    return isinstance(error, EndpointError) and error.kind.retryable


def why_unsampled(error: JudgeGymError) -> str:
    """Return why a group could not be sampled, for the log."""
    return f"the policy at {error}" if isinstance(error, EndpointError) else f"the policy: {error}"


def why_unscored(judgments: Sequence[Judgment[Any]]) -> str:
    """Return why the first failed judgment of a group failed, for the log."""
    failed = (judgment for judgment in judgments if judgment.status.is_failure and judgment.explanation)
    return next((judgment.explanation for judgment in failed), "no reason")


T = TypeVar("T")


async def all_of(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run workers to their end; if one raises, or we are cancelled, none is left running."""
    running = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class OutageGuard:
    """Ends a run whose endpoint answers no call: nothing further begins, and what is in progress ends by itself.

    So the answers of other endpoints, which are paid for, arrive and are recorded.
    """

    def __init__(self) -> None:
        """Begin without an outage."""
        self._outage: EndpointOutage | None = None

    @property
    def may_begin(self) -> bool:
        """Whether a further row may begin."""
        return self._outage is None

    async def run(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """Await `work()`; return `otherwise` if an endpoint's outage ends it."""
        try:
            return await work()
        except EndpointOutage as outage:
            self._outage = self._outage or outage
            return otherwise

    def check(self) -> None:
        """Raise `EndpointOutage` if there was one. Call it when all that was in progress has ended."""
        if self._outage is not None:
            raise self._outage
