"""A monitor of made-up groups, with a gold judge that is a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from judgegym.judges.config.thinking import ThinkingSettings
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.monitoring.alarms import Alarm
from judgegym.monitoring.gold import GoldJudge
from judgegym.monitoring.group import MonitorGroup, MonitorRollout
from judgegym.monitoring.live_file import MONITOR
from judgegym.monitoring.monitor import MonitorTarget, TrainingMonitor
from judgegym.monitoring.settings import MonitorSettings

QUICK: Mapping[str, Any] = {
    "gold_share": 1.0,
    "gold_rollouts": 8,
    "gold_reference": 32,
}


class GoldByScript:
    """Scores a response by a function of its text."""

    def __init__(self, score: Callable[[str], float]) -> None:
        self._score, self.settings = score, ThinkingSettings()

    def check(self, task: JudgeTask) -> None:
        return None

    def compares(self, task: JudgeTask) -> bool:
        return False

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        return [ResponseJudgment(self._score(response), "ok") for response in task.responses]


def rollout(text: str, score: float | None, **other: Any) -> MonitorRollout:
    return MonitorRollout(text, score, other.pop("reward", score), **other)


def group(number: int, *rollouts: MonitorRollout, **other: Any) -> MonitorGroup:
    uid = other.pop("uid", f"row-{number}")
    return MonitorGroup(
        number, other.pop("step", number), uid, JudgeTask("Why?", ()), rollouts, **other
    )


class SeesAll(GoldJudge):
    """Sees all rollouts of each group of its share, however many wait."""

    ranked_share, longest_queue = 1.0, 10_000


class Watching:
    """A monitor, its lines and its alarms."""

    def __init__(
        self,
        gold: Callable[[str], float] | None = None,
        earlier: Sequence[bytes] = (),
        cascade: CascadeSettings | None = None,
        **settings: Any,
    ) -> None:
        self.written: list[bytes] = []
        self.alarms: list[Alarm] = []
        self.is_gold_closed = False
        read = MonitorSettings(**{**QUICK, **settings})
        self.monitor = TrainingMonitor(
            read,
            MonitorTarget(0, "a-judge", cascade=cascade),
            write=self.written.append,
            on_alarm=self.alarms.append,
            gold=None
            if gold is None
            else SeesAll(read, GoldByScript(gold), name="gold", seed=0, close=self._close),
        )
        with TemporaryDirectory() as folder:
            (Path(folder) / MONITOR).write_bytes(b"\n".join(earlier))
            self.monitor.begin(Path(folder))

    async def _close(self) -> None:
        self.is_gold_closed = True

    def lines(self, kind: str) -> list[dict[str, Any]]:
        return [line[kind] for line in map(json.loads, self.written) if kind in line]


def hacked(number: int, begins: int, size: int = 4) -> MonitorGroup:
    """A group whose training scores are high from a group on, whatever the texts are worth."""
    scores = [0.25 * ((number + place) % 4) for place in range(size)]
    told = [min(1.0, score + (0.5 if number >= begins else 0.0)) for score in scores]
    texts = [f"Text {number} {place} worth {score}" for place, score in enumerate(scores)]
    return group(number, *(rollout(text, score) for text, score in zip(texts, told, strict=True)))


def worth(text: str) -> float:
    return float(text.rsplit(" ", 1)[1])
