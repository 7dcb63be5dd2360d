"""Groups that a page of the run shows: a bounded number, whatever the run's length.

They are the latest groups, those of the lowest reward among the last thousand, those with the
widest gap to the gold judge, those that an alarm names, and some at even distances over the whole
run. Long texts are cut in their middle.

Guarantees: memory and the size of the file are bounded; a group is converted to JSON once, however
often the file is written; nothing depends on the clock.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.monitoring.alarms import Alarm
from judgegym.monitoring.group import MonitorGroup, MonitorRollout

LATEST, WORST, GAP, ALARM, OVER_THE_RUN = "latest", "worst", "gap", "alarm", "over the run"
MAX_GROUPS = {LATEST: 12, WORST: 12, GAP: 12, ALARM: 40, OVER_THE_RUN: 24}
RECENT_GROUPS = 1_000
"""Number of recent groups in which the lowest rewards, and the groups of alarms, are found."""
_RECENT_CHARACTERS = 32_000_000
_MOST_ROLLOUTS = 16
_TEXT, _EXPLANATION, _TEXT_OF_ROW = 8_000, 2_000, 4_000
_MOST_CAUSES = 40
_TITLES = ("reference", "rubric", "context")


@dataclass(slots=True)
class PageGroup:
    """A group with shortened texts.

    Attributes:
        group: the group.
        gold: the gold judge's scores by rollout.
        numbers: numbers of the rollouts whose texts are kept.
        characters: the length of its texts.
        reward: the mean reward; infinite if no rollout has one.
    """

    group: MonitorGroup
    gold: dict[int, float]
    numbers: tuple[int, ...]
    characters: int
    reward: float
    _line: bytes | None = None

    @property
    def gap(self) -> float:
        """Widest gap of training score − gold score."""
        scores = ((self.group.rollouts[number].score, gold) for number, gold in self.gold.items())
        return max((score - gold for score, gold in scores if score is not None), default=-math.inf)

    def add_gold(self, scores: Mapping[int, float]) -> None:
        """Add the gold judge's scores."""
        self.gold.update(scores)
        self._line = None

    def to_line(self, reasons: Sequence[str], judge: str) -> bytes:
        """Return its line, with the reasons why it is kept, and its judge if there are several."""
        if self._line is None:
            self._line = wire.dumps(self._fields())
        fields: dict[str, JSON] = {"kept": [*reasons]}
        if judge:
            fields = {"judge": judge, **fields}
        head = wire.dumps(fields)
        return b'{"group":' + head[:-1] + b"," + self._line[1:] + b"}\n"

    def _fields(self) -> dict[str, JSON]:
        group, task = self.group, self.group.task
        rollouts: list[JSON] = [
            {"number": number, **asdict(group.rollouts[number]), "gold": self.gold.get(number)}
            for number in self.numbers
        ]
        return {
            "number": group.number,
            "step": group.step,
            "uid": group.uid,
            "ledger": group.ledger,
            "question": task.prompt,
            "texts": {title: text for title in _TITLES if (text := getattr(task, title))},
            "size": len(group.rollouts),
            "rewards": [rollout.reward for rollout in group.rollouts],
            "scores": [rollout.score for rollout in group.rollouts],
            "gold": [self.gold.get(number) for number in range(len(group.rollouts))],
            "rollouts": rollouts,
        }


@dataclass(slots=True)
class PageGroups:
    """Groups of a run that its page shows.

    Attributes:
        groups: number of judged groups.
        rollouts: number of their rollouts.
        failures: number of rollouts by fault: the status of the judgment, the fault of the format,
            a cut-off completion.
        reasons: the last explanation of each status.
        last_number: the highest number of a group in an earlier run that is resumed; 0 without one.
    """

    groups: int = 0
    rollouts: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    last_number: int = 0
    _earlier: list[bytes] = field(default_factory=list)
    _recent: deque[PageGroup] = field(default_factory=deque)
    _characters: int = 0
    _widest: list[tuple[float, int, PageGroup]] = field(default_factory=list)
    _alarm_groups: dict[int, PageGroup] = field(default_factory=dict)
    _spread: list[PageGroup] = field(default_factory=list)
    _stride: int = 1

    def add(self, group: MonitorGroup) -> None:
        """Add a judged group."""
        self.groups += 1
        self.rollouts += len(group.rollouts)
        for rollout in group.rollouts:
            self._count(rollout)
        page_group = _cut_group(group)
        self._recent.append(page_group)
        self._characters += page_group.characters
        while len(self._recent) > RECENT_GROUPS or (
            self._characters > _RECENT_CHARACTERS and len(self._recent) > 1
        ):
            self._characters -= self._recent.popleft().characters
        if (self.groups - 1) % self._stride == 0:
            self._spread.append(page_group)
            if len(self._spread) > MAX_GROUPS[OVER_THE_RUN]:
                self._spread = self._spread[::2]
                self._stride *= 2

    def add_gold(self, group: MonitorGroup, scores: Mapping[int, float]) -> None:
        """Add the gold judge's scores of a group, which may have been judged long before."""
        page_group = self._find_group(group.number) or _cut_group(group)
        page_group.add_gold(scores)
        heapq.heappush(self._widest, (page_group.gap, group.number, page_group))
        if len(self._widest) > MAX_GROUPS[GAP] + MAX_GROUPS[ALARM]:  # a later alarm may name them
            heapq.heappop(self._widest)

    def pin(self, alarm: Alarm) -> None:
        """Keep the groups that an alarm names, if they are still in memory."""
        for place in alarm.rollouts:
            if (page_group := self._find_group(place.group)) is not None:
                self._alarm_groups[place.group] = page_group
        while len(self._alarm_groups) > MAX_GROUPS[ALARM]:
            del self._alarm_groups[next(iter(self._alarm_groups))]

    def restore(self, lines: Iterable[Mapping[str, JSON]], judge: str = "") -> None:
        """Load a judge's groups of an earlier run, except those kept as latest or lowest."""
        for line in lines:
            group = line.get("group")
            if not isinstance(group, dict) or group.get("judge", "") != judge:
                continue
            if isinstance(group.get("number"), int) and isinstance(group.get("kept"), list):
                self.last_number = max(self.last_number, group["number"])
                group["kept"] = [
                    name for name in group["kept"] if name in (GAP, ALARM, OVER_THE_RUN)
                ]
                if group["kept"]:
                    self._earlier.append(wire.dumps({"group": group}) + b"\n")
        self._earlier = self._earlier[-MAX_GROUPS[ALARM] :]

    def lines(self, judge: str = "") -> Iterator[bytes]:
        """Yield a line of JSON for each group, sorted by number.

        `judge` names the judge in a server of several.
        """
        yield from self._earlier
        chosen: dict[int, tuple[PageGroup, list[str]]] = {}
        widest = heapq.nlargest(MAX_GROUPS[GAP], self._widest)
        for name, groups in (
            (LATEST, list(self._recent)[-MAX_GROUPS[LATEST] :]),
            (
                WORST,
                heapq.nsmallest(
                    MAX_GROUPS[WORST], self._recent, key=lambda candidate: candidate.reward
                ),
            ),
            (GAP, [entry for gap, _, entry in widest if gap > 0]),
            (ALARM, list(self._alarm_groups.values())),
            (OVER_THE_RUN, self._spread),
        ):
            for page_group in groups:
                chosen.setdefault(page_group.group.number, (page_group, []))[1].append(name)
        for _, (page_group, names) in sorted(chosen.items()):
            yield page_group.to_line(names, judge)

    def _find_group(self, number: int) -> PageGroup | None:
        groups = (
            *reversed(self._recent),
            *(entry for _, _, entry in self._widest),
            *self._alarm_groups.values(),
        )
        return next(
            (page_group for page_group in groups if page_group.group.number == number), None
        )

    def _count(self, rollout: MonitorRollout) -> None:
        causes = []
        if rollout.status != "ok":
            causes.append(rollout.status)
        if rollout.format_fault is not None:
            causes.append(f"format: {rollout.format_fault}")
        if rollout.finish_reason == "length":
            causes.append("cut off at the longest completion")
        if rollout.reward is None:
            causes.append("masked")
        for cause in causes:
            if cause not in self.failures and len(self.failures) >= _MOST_CAUSES:
                cause = "others"
            self.failures[cause] += 1
        if rollout.status != "ok" and rollout.explanation:
            self.reasons[rollout.status] = cut_middle(rollout.explanation, 300)


def _cut_group(group: MonitorGroup) -> PageGroup:
    """Cut the texts of a group; of a large one keep those of the lowest and the highest rewards."""
    numbers: list[int] = list(range(len(group.rollouts)))
    if len(numbers) > _MOST_ROLLOUTS:
        by_reward = sorted(
            numbers, key=lambda number: (group.rollouts[number].reward or 0.0, number)
        )
        numbers = sorted([*by_reward[: _MOST_ROLLOUTS // 2], *by_reward[-_MOST_ROLLOUTS // 2 :]])
    wanted = set(numbers)
    rollouts = tuple(
        _cut_rollout(rollout, number in wanted) for number, rollout in enumerate(group.rollouts)
    )
    texts: dict[str, Any] = {
        name: cut_middle(text, _TEXT_OF_ROW)
        for name in ("prompt", *_TITLES)
        if (text := getattr(group.task, name))
    }
    task = JudgeTask(**{"prompt": "", "responses": (), **texts})
    characters = sum(map(len, texts.values()))
    characters += sum(len(rollout.completion) + len(rollout.explanation) for rollout in rollouts)
    rewards = [rollout.reward for rollout in rollouts if rollout.reward is not None]
    reward = fmean(rewards) if rewards else math.inf
    return PageGroup(
        replace(group, task=task, rollouts=rollouts), {}, tuple(numbers), characters, reward
    )


def _cut_rollout(rollout: MonitorRollout, is_wanted: bool) -> MonitorRollout:
    if not is_wanted:
        return replace(rollout, completion="", explanation="")
    if len(rollout.completion) <= _TEXT and len(rollout.explanation) <= _EXPLANATION:
        return rollout
    return replace(
        rollout,
        completion=cut_middle(rollout.completion, _TEXT),
        explanation=cut_middle(rollout.explanation, _EXPLANATION),
    )


def cut_middle(text: str, most: int) -> str:
    """Cut a text in its middle, and insert the number of missing characters.

    What a policy exploits is often at the end.
    """
    if len(text) <= most:
        return text
    after = most // 4
    missing = len(text) - most
    start = text[: most - after]
    end = text[len(text) - after :]
    return f"{start}\n[… {missing:,} characters are left out …]\n{end}"
