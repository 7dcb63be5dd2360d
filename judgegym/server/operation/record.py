"""What is told of results and cohorts: to the metrics, to the judge's health, and on the page of the last judgments."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judgegym.judges.scorers.items import ResponseScore, shared_score
from judgegym.server.operation.health import JudgeHealth

REMEMBERED = 100
_SHOWN = 4000
_LATE = "the judge did not answer within the server's deadline"

ResultListener: TypeAlias = Callable[[str, ResponseScore], None]
"""Called with the judge's name and the result of each judged response, and of each that shares the judgment of one."""
CohortEvent: TypeAlias = Literal["opened", "full", "short", "late"]
"""A cohort was opened; it was closed with all members, or without some; a member came after that."""
CohortListener: TypeAlias = Callable[[str, CohortEvent], None]
"""Called with the judge's name and each event of a cohort."""


@dataclass(frozen=True, slots=True)
class RecentJudgment:
    """A finished judgment for the page, with long texts cut."""

    at: float
    mount: str
    prompt: str
    response: str
    result: ResponseScore
    seconds: float


class Record:
    """Tells of the results of all judges of a process.

    Attributes:
        recent: the last judgments.
        cohort: is called with the judge's name and each event of a cohort.
    """

    def __init__(self, health: Mapping[str, JudgeHealth], on_result: ResultListener, on_cohort: CohortListener) -> None:
        """Tell `on_result` of each, and of a judge's answers its health."""
        self._health, self._on_result = health, on_result
        self.cohort = on_cohort
        self.recent: deque[RecentJudgment] = deque(maxlen=REMEMBERED)

    def judged(
        self, mount: str, prompt: str, responses: Sequence[str], results: Sequence[ResponseScore], seconds: float
    ) -> None:
        """A judgment has ended: the results of the responses that were judged together."""
        for response, result in zip(responses, results, strict=True):
            if not result.shared:
                self._health[mount].note(result)
            self.known(mount, prompt, response, result, seconds)

    def known(self, mount: str, prompt: str, response: str, result: ResponseScore, seconds: float = 0.0) -> None:
        """A response has a result, from a judge or without one."""
        self._on_result(mount, result)
        self.recent.append(RecentJudgment(time.time(), mount, _cut(prompt), _cut(response), result, round(seconds, 3)))

    def shared(self, mount: str, result: ResponseScore) -> None:
        """A response has a result that was told of before."""
        self._on_result(mount, shared_score(result))

    def overdue(self, mount: str) -> str:
        """What a caller is told that has to be answered before its judgment."""
        waiting = self._health[mount].waiting
        return _LATE if waiting is None else f"{_LATE}: {waiting}"

    def late(self, mount: str) -> None:
        """A judgment is not there in time."""
        self._health[mount].late()


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters, cut here)"
