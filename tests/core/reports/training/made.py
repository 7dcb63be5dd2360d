"""Run directories of trainings, written by what writes real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm import wire
from judgegym.monitoring.alarms import Alarm, RolloutLocation
from judgegym.monitoring.group import MonitorGroup, MonitorRollout
from judgegym.monitoring.monitor import MonitorTarget, TrainingMonitor
from judgegym.monitoring.settings import MonitorSettings

Text = Callable[[int, int], str]
"""A completion, from the number of its group and its own."""


def plain(group: int, number: int) -> str:
    return f"Completion {number} of group {group}."


class MadeTraining:
    """A training run whose groups are made up; `step` writes a step's groups and its line."""

    def __init__(
        self,
        path: Path,
        *,
        text: Text = plain,
        judge: str | None = None,
        limits: Mapping[str, Any] = {},
    ):
        path.mkdir(parents=True, exist_ok=True)
        self.path, self._text, self._mount = path, text, judge
        watched = MonitorTarget(0, "a-judge", mount=judge)
        settings = MonitorSettings(monitor_limits=dict(limits))
        self.monitor = TrainingMonitor(
            settings, watched, write=self.write, on_alarm=lambda alarm: None
        )
        self.monitor.note("begin", {"judge": "a-judge", "gold_judge": "a-gold-judge"})
        self.steps = 0

    def write(self, line: bytes) -> None:
        with (self.path / "monitor.jsonl").open("ab") as file:
            file.write(line)

    def group(self, number: int, size: int = 4, **other: Any) -> MonitorGroup:
        rollouts = tuple(
            MonitorRollout(
                self._text(number, place),
                (number + place) % 5 / 4,
                (number + place) % 5 / 4,
                label="a label",
                explanation=f"Because of {self._text(number, place)}",
            )
            for place in range(size)
        )
        return MonitorGroup(
            number,
            self.steps,
            f"row-{number}",
            JudgeTask("Why?", (), rubric="Be right."),
            rollouts,
            **other,
        )

    def step(self, groups: int = 2, size: int = 4) -> None:
        """Judge groups, each with a gold score of 0.25, and write the line of the step and that of a check."""
        self.steps += 1
        for _ in range(groups):
            group = self.group(self.monitor.groups + 1, size)
            self.monitor.add(group)
            self.monitor.page_groups.add_gold(group, {0: 0.25})
        self.monitor.end_step()
        facts = {
            "step": self.steps,
            "rollouts": groups,
            "gap": 0.1,
            "error": 0.02,
            "evidence": 1.0 + self.steps,
        }
        means = {"training": 0.5, "gold": 0.4, "order_agreement": 0.75}
        limit = 0.05 if self.steps > 2 else None
        self.monitor.note("check", {**facts, **means, "limit": limit, "is_alarm": False})

    def alarm(self, group: int = 1, rollout: int = 0, **texts: str) -> None:
        alarm = Alarm(
            texts.get("monitor", "a gap"),
            self.steps,
            1,
            texts.get("seen", "it grows"),
            texts.get("advice", "read them"),
            (RolloutLocation(group, texts.get("uid", f"row-{group}"), rollout),),
        )
        self.monitor._raise(alarm)

    def live(self, **status: Any) -> None:
        """Write `live.jsonl`."""
        kept = self.monitor.page_groups
        facts = {
            "at": 0,
            "is_over": False,
            "groups": kept.groups,
            "rollouts": kept.rollouts,
            "step": self.steps,
        }
        facts |= {"failures": dict(kept.failures), "reasons": dict(kept.reasons), **status}
        lines = kept.lines(self._mount or "")
        (self.path / "live.jsonl").write_bytes(
            b"".join([wire.dumps({"status": facts}), b"\n", *lines])
        )


def kept_as(lines: list[bytes]) -> dict[int, list[str]]:
    """As what each group is kept, by its number."""
    groups = [json.loads(line)["group"] for line in lines]
    return {group["number"]: group["kept"] for group in groups}
