"""An alarm of a training run: what was seen, since when, where to look, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from judgegym.llm.errors import RunStop

AlarmAction = Literal["log", "pause", "exit"]
MOST_ROLLOUTS = 10


class AlarmStop(RunStop):
    """An alarm ends the run (`on_alarm=exit`): nothing is lost, and it can be resumed."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class RolloutPlace:
    """Where a rollout is: its group, its row and its number in the group, from 0."""

    group: int
    uid: str
    rollout: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm.

    Attributes:
        monitor: which monitor raised it.
        step: the trainer's step.
        since: the step at which what was seen began.
        seen: what was seen, in one sentence with its numbers.
        advice: what to do.
        rollouts: at most ten to look at, the worst first.
    """

    monitor: str
    step: int
    since: int
    seen: str
    advice: str
    rollouts: tuple[RolloutPlace, ...] = ()

    @property
    def text(self) -> str:
        """Return the alarm as one line of a log."""
        where = ", ".join(f"{each.uid!r} (rollout {each.rollout} of group {each.group})" for each in self.rollouts)
        look = f" Look at {where}." if where else ""
        return f"ALARM {self.monitor} at step {self.step}: {self.seen}, since step {self.since}. {self.advice}{look}"
