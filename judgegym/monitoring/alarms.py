"""Alarms of a training run: cause, since when, rollouts to look at, and what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from judgegym.llm.errors import RunStop

AlarmAction = Literal["log", "pause", "exit"]
_PAUSE = "pause:"
MAX_ROLLOUTS = 10


def parse_pause(action: str) -> float | None:
    """Return the seconds after which a pause ends by itself; `None` without a limit or a pause.

    Raises:
        ValueError: `pause:` is not followed by a number.
    """
    if action.startswith(_PAUSE):
        return float(action.removeprefix(_PAUSE))
    return None


def check_alarm_action(action: str) -> str:
    """Return the value of `on_alarm` if it is valid.

    Raises:
        ValueError: it is invalid.
    """
    try:
        is_pause = 0 < (parse_pause(action) or 0.0) < math.inf
    except ValueError:
        is_pause = False
    if action not in get_args(AlarmAction) and not is_pause:
        raise ValueError(f"expected log, pause, pause:SECONDS or exit, found {action!r}")
    return action


class AlarmStop(RunStop):
    """An alarm ends the run (`on_alarm=exit`): nothing is lost, and it can be resumed."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class RolloutLocation:
    """Location of a rollout: its group, its row and its number in the group, from 0."""

    group: int
    uid: str
    rollout: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm of one monitor.

    Attributes:
        monitor: the monitor that raised it.
        step: the trainer's step.
        since: the step at which the cause began.
        seen: the cause, in one sentence with its numbers.
        advice: what to do.
        rollouts: at most ten to look at, the worst first.
    """

    monitor: str
    step: int
    since: int
    seen: str
    advice: str
    rollouts: tuple[RolloutLocation, ...] = ()

    @property
    def text(self) -> str:
        """The alarm as one line of a log."""
        where = ", ".join(
            f"{rollout.uid!r} (rollout {rollout.rollout} of group {rollout.group})"
            for rollout in self.rollouts
        )
        look = ""
        if where:
            look = f" Look at {where}."
        return (
            f"ALARM {self.monitor} at step {self.step}: {self.seen}, since step {self.since}. "
            f"{self.advice}{look}"
        )
