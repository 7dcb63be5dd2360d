"""A cohort with its judgment in progress."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.judges.scorers.scorer import GroupScorer, ScoresInProgress
from judgegym.server.cohorts.register import Cohort


@dataclass(frozen=True, slots=True)
class Gatherer:
    """How the responses of a judge are gathered.

    Attributes:
        scorer: judges them.
        size: members of a full cohort.
        wait_s: seconds after the first member at which a cohort is closed.
    """

    scorer: GroupScorer
    size: int
    wait_s: float


@dataclass(slots=True)
class Work:
    """What is judged.

    Attributes:
        item: what all members have in common.
        fewest: so many responses can be judged.
        scores: the judgment in progress.
        responses: those that are judged.
    """

    item: Item
    fewest: int
    scores: ScoresInProgress
    responses: list[str] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class CohortJudgment(Cohort):
    """A cohort with its judgment.

    Attributes:
        mount: the judge's name.
        work: what is judged; `None` when that is done, so that no texts are kept.
        results: of the members that are judged; done when the cohort is.
        opened_at: when its first member came, on the clock of the event loop.
        closes_at: when it closes at the latest.
        timer: closes it then.
        was_overdue: whether a caller was answered before the judgment.
    """

    mount: str
    work: Work | None
    results: asyncio.Future[list[ResponseScore]]
    opened_at: float
    closes_at: float
    timer: asyncio.TimerHandle | None = None
    was_overdue: bool = False
