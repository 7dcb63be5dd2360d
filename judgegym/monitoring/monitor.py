"""The monitors of one training run: groups in, lines of `monitor.jsonl` and alarms out.

Guarantees: no reward depends on it; nothing waits for it; memory is bounded, whatever the number of groups. Alarms of
the gap between training judge and gold judge are false in at most 1 of 200 runs (`statistics.gap_detector`).
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from dataclasses import asdict
from itertools import combinations

from judgegym.judges.core.tasks import TaskJudge
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.monitoring.alarms import MOST_ROLLOUTS, Alarm, RolloutPlace
from judgegym.monitoring.gold import GoldJudge, GoldScores
from judgegym.monitoring.group import MonitorGroup
from judgegym.monitoring.kept_groups import KeptGroups
from judgegym.monitoring.settings import MonitorSettings
from judgegym.statistics.gap_detector import GapDetector

logger = logging.getLogger(__name__)

PLANNED_CHECKS = 200
_GOLD_AT_ONCE = 4
_GAP = "gap between training judge and gold judge"
_ADVICE = (
    "The training judge pays for something that the gold judge does not see: read these rollouts with both judgments, "
    "then mend the judge's prompt, add a part that bounds what the policy exploits, or go back to a checkpoint before "
    "that step."
)

WriteLine = Callable[[bytes], object]
RaiseAlarm = Callable[[Alarm], None]


class TrainingMonitor:
    """Watches one run.

    Attributes:
        gold: the gold judge; `None` without one.
        kept: the groups that a page shows.
        alarms: those of this run.
    """

    def __init__(
        self, settings: MonitorSettings, *, seed: int, gold: TaskJudge | None, write: WriteLine, on_alarm: RaiseAlarm
    ) -> None:
        """Begin without a group.

        Args:
            settings: what is watched.
            seed: of the choice of rollouts for the gold judge.
            gold: the gold judge.
            write: appends a line of JSON to `monitor.jsonl`.
            on_alarm: called once for each alarm, after it is written and logged.
        """
        self.alarms: list[Alarm] = []
        self.kept = KeptGroups()
        self._settings, self._write, self._on_alarm = settings, write, on_alarm
        self._detector = GapDetector(PLANNED_CHECKS, settings.gold_reference, settings.gold_tolerance)
        self._training: list[float] = []
        self._gold: list[float] = []
        self._ordered, self._alike = 0, 0
        self._worst: list[tuple[float, int, RolloutPlace]] = []
        self._above_since: int | None = None
        self.gold: GoldJudge | None = None
        if gold is not None:
            self.gold = GoldJudge(settings, gold, seed=seed, at_once=_GOLD_AT_ONCE, report=self._add_gold)

    def add(self, group: MonitorGroup) -> None:
        """Watch a judged group."""
        self.kept.add(group)
        if self.gold is not None:
            self.gold.offer(group)

    async def close(self, within_s: float) -> None:
        """End: let the gold judge finish what is queued for so many seconds, and write what it has counted."""
        if self.gold is not None:
            await self.gold.close(within_s)
            self._line("end", {"gold": dict(self.gold.counts)})

    def _add_gold(self, found: GoldScores) -> None:
        """Take the gold scores of a group; compare the judges when enough groups have one."""
        group = found.group
        self.kept.add_gold(group, found.scores)
        pairs = [(group.rollouts[number].score or 0.0, gold) for number, gold in found.scores.items()]
        scores: dict[str, JSON] = {str(number): score for number, score in found.scores.items()}
        self._line("gold", {"group": group.number, "step": group.step, "uid": group.uid, "scores": scores})
        for (ours, theirs), (other_ours, other_theirs) in combinations(pairs, 2):
            if ours != other_ours and theirs != other_theirs:
                self._ordered += 1
                self._alike += (ours > other_ours) == (theirs > other_theirs)
        number, gold = next(iter(found.scores.items()))
        score = group.rollouts[number].score
        assert score is not None  # only those with one are chosen
        self._training.append(score)
        self._gold.append(gold)
        place = RolloutPlace(group.number, group.uid, number)
        heapq.heappush(self._worst, (score - gold, group.number, place))
        if len(self._worst) > MOST_ROLLOUTS:
            heapq.heappop(self._worst)
        if len(self._training) >= self._settings.gold_rollouts:
            self._check(group.step)

    def _check(self, step: int) -> None:
        check = self._detector.add(step, self._training, self._gold)
        means = {"training": sum(self._training) / check.rollouts, "gold": sum(self._gold) / check.rollouts}
        alike = self._alike / self._ordered if self._ordered else None
        self._line("check", {**asdict(check), **means, "order_agreement": alike})
        is_above = check.limit is not None and check.gap > check.limit
        self._above_since = (step if self._above_since is None else self._above_since) if is_above else None
        if check.is_alarm and not any(alarm.monitor == _GAP for alarm in self.alarms):
            assert check.limit is not None  # there is no alarm in the reference
            seen = (
                f"training scores are {check.gap:+.3f} above gold scores (limit {check.limit:+.3f}, evidence "
                f"{check.evidence:.0f}; a false alarm in at most 1 of 200 runs)"
            )
            worst = tuple(place for _, _, place in sorted(self._worst, reverse=True))
            since = step if self._above_since is None else self._above_since
            self._raise(Alarm(_GAP, step, since, seen, _ADVICE, worst))
        self._training, self._gold, self._ordered, self._alike = [], [], 0, 0
        if not check.is_alarm:
            self._worst = []

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        self.kept.pin(alarm)
        self._line("alarm", asdict(alarm))
        logger.warning("%s", alarm.text)
        self._on_alarm(alarm)

    def _line(self, kind: str, fields: dict[str, JSON]) -> None:
        self._write(wire.dumps({kind: fields}) + b"\n")
