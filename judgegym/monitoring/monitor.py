"""Monitors of a training run: groups in, lines of `monitor.jsonl` and alarms out.

Guarantees: no reward depends on them; nothing waits for them; memory is bounded, whatever the
number of groups. Alarms of the gap between training judge and gold judge are false in at most 1 of
200 runs (`statistics.gap_detector`), over the whole run and all judges of a server together. The
same holds for alarms of a cascade's promise (`statistics.cascades`). Other monitors raise alarms
only if the user asks for them (`alarm` in `monitor_limits`). A resumed run continues with the
evidence that it had.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from judgegym.judges.parts.cascade import ESCALATED, CascadeSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.monitoring.alarms import MAX_ROLLOUTS, Alarm, RolloutLocation
from judgegym.monitoring.gold import GoldJudge
from judgegym.monitoring.group import MonitorGroup
from judgegym.monitoring.kept_groups import PageGroups
from judgegym.monitoring.live_file import LIVE, MONITOR, iter_live_lines
from judgegym.monitoring.monitors import MONITORS, StepMonitors
from judgegym.monitoring.settings import MonitorSettings
from judgegym.statistics import percent
from judgegym.statistics.agreement import side
from judgegym.statistics.cascades import promise_evidence
from judgegym.statistics.gap_detector import ALARM_AT, FEWEST_ROLLOUTS, GapCheck, GapDetector

logger = logging.getLogger(__name__)

PLANNED_CHECKS = 200
_STEPS_BEFORE_ALARM = 3
"""Consecutive steps beyond a limit before an alarm, if the user asks for alarms."""
_GAP = "gap between training judge and gold judge"
_ADVICE = (
    "The training judge pays for something that the gold judge does not see: read these rollouts "
    "with both judgments, then mend the judge's prompt, add a part that bounds what the policy "
    "exploits, or go back to a checkpoint before that step."
)
_PROMISE = "promise of the cascade"
_ADVICE_OF_PROMISE = (
    "Its cheap judge no longer says what the strong one says: judge with the strong one, or choose "
    "the threshold again with judgegym replay --choose, from rows as they are now."
)
_ADVICE_OF_LIMITS = "Read some rollouts of that step: such numbers drift in healthy runs, too."

WriteLine = Callable[[bytes], object]
RaiseAlarm = Callable[[Alarm], None]


@dataclass(frozen=True, slots=True)
class MonitorTarget:
    """What a monitor watches: a judge, its place in the run, and when lines are written.

    Attributes:
        seed: seed of the choice of rollouts for the gold judge.
        judge: the name of the training judge; `None` if the policy is the judge.
        every: write a line after this many judged groups; `None`: at each `end_step`.
        mount: the name of the judge in a server of several; `None` elsewhere.
        judges: number of judges of the server with a gold judge: all their alarms together keep the
            bound.
        cascade: the settings of the training judge, if it is a cascade; its promise is watched, if
            it has one.
    """

    seed: int
    judge: str | None
    every: int | None = None
    mount: str | None = None
    judges: int = 1
    cascade: CascadeSettings | None = None


class TrainingMonitor:
    """Monitor of a run.

    Attributes:
        gold: the gold judge; `None` without one.
        page_groups: the groups of the page.
        alarms: the alarms of this run, including those before it was resumed.
        values: the monitors' values of the last line.
        groups: number of judged groups, including those before the run was resumed.
    """

    def __init__(
        self,
        settings: MonitorSettings,
        target: MonitorTarget,
        *,
        write: WriteLine,
        on_alarm: RaiseAlarm,
        gold: GoldJudge | None = None,
    ) -> None:
        """Begin without a group.

        Args:
            settings: the settings of the monitors.
            target: the subject.
            write: appends a line of JSON to `monitor.jsonl`.
            on_alarm: called once for each alarm, after it is written and logged.
            gold: the gold judge; closed with this monitor.
        """
        self.alarms: list[Alarm] = []
        self.page_groups = PageGroups()
        self.values: Mapping[str, float] = {}
        self.groups = 0
        self._settings = settings
        self._target = target
        self._write = write
        self._on_alarm = on_alarm
        self.gold = gold
        if gold is not None:
            gold.report = self._add_gold
        alarm_at = ALARM_AT * target.judges
        self._detector = GapDetector(
            PLANNED_CHECKS, settings.gold_reference, settings.gold_tolerance, alarm_at=alarm_at
        )
        if gold is not None and settings.gold_rollouts < FEWEST_ROLLOUTS:
            logger.warning(
                "gold_rollouts=%d: fewer than %d rollouts say too little, so that an alarm of the "
                "gold judge is decided by as many checks together as have %d",
                settings.gold_rollouts,
                FEWEST_ROLLOUTS,
                FEWEST_ROLLOUTS,
            )
        self._false_alarm_note = (
            f"over the whole run a false alarm comes in at most 1 of {ALARM_AT:.0f} runs"
        )
        self._step_monitors = StepMonitors()
        self._last_step = 0
        self._beyond: dict[str, tuple[int, int]] = {}
        """For each monitor beyond its limit: the number of times in a row, and the first step."""
        self._compared: list[tuple[float, float, RolloutLocation]] = []
        """Scores for the next check: training score, gold score, and the rollout."""
        self._ordered_pairs, self._agreeing_pairs = 0, 0
        self._above_since: int | None = None
        self._differing: dict[str, tuple[int, RolloutLocation]] = {}
        """Rows whose cascade judges differ though the cheap one decides: the step and the rollout.
        """

    def begin(self, folder: Path | None = None) -> None:
        """Write the first line.

        Continue from the lines of an earlier process in the run's folder.
        """
        if folder is not None:
            for line in iter_live_lines(folder / MONITOR):
                if line.get("judge") == self._target.mount:
                    self._restore(cast("Mapping[str, Any]", line))
            self.page_groups.restore(iter_live_lines(folder / LIVE), self._target.mount or "")
            # Each number is one group's.
            self.groups = max(self.groups, self.page_groups.last_number)
        gold_name = self.gold.name if self.gold else None
        self.note(
            "begin",
            {"judge": self._target.judge, "gold_judge": gold_name},
        )

    def _restore(self, line: Mapping[str, Any]) -> None:
        try:
            if (check := line.get("check")) is not None:
                values = {field.name: check[field.name] for field in fields(GapCheck)}
                self._detector.restore(GapCheck(**values))
            elif (alarm := line.get("alarm")) is not None:
                places = tuple(RolloutLocation(**place) for place in alarm["rollouts"])
                self.alarms.append(Alarm(**{**alarm, "rollouts": places}))
            elif (differ := line.get("cascade")) is not None:
                place = RolloutLocation(differ["group"], differ["uid"], differ["rollout"])
                self._differing.setdefault(place.uid, (int(differ["step"]), place))
            elif (step := line.get("step")) is not None:
                self.groups += int(step["groups"])
        except (
            LookupError,
            TypeError,
            ValueError,
        ) as error:  # written by another version, or edited by hand
            logger.warning("a line of %s is skipped: %r", MONITOR, error)

    def add(self, group: MonitorGroup) -> None:
        """Add a judged group, reading its numbers at once; errors never end the training."""
        self.groups += 1
        self._last_step = group.step
        try:
            self.page_groups.add(group)
            self._step_monitors.add(group)
            if self._target.cascade is not None:
                self._watch_cascade(group, self._target.cascade)
        except Exception:  # no error of the monitors may end training
            logger.exception("the monitors skip a group of row %r", group.uid)
        if self.gold is not None:
            self.gold.offer(group)
        if self._target.every is not None and self._step_monitors.groups >= self._target.every:
            self.end_step()

    def end_step(self) -> None:
        """Write the numbers of the groups since the last line, if there are any."""
        if not self._step_monitors.groups:
            return
        line = self._step_monitors.finish_step(self._last_step, self._settings.limits)
        if self.gold is not None:
            line["gold"] = {**self.gold.counts, "waiting": self.gold.waiting}
        self.values = cast("Mapping[str, float]", line["values"])
        self.note("step", line)
        if self._settings.limits_alarm:
            self._check_limits(cast("list[str]", line["beyond"]))

    async def close(self, within_s: float) -> None:
        """Let the gold judge finish its queue for at most `within_s`, and write the last lines."""
        counts: dict[str, JSON] = {}
        if self.gold is not None:
            await self.gold.close(within_s)
            counts = {"gold": dict(self.gold.counts)}
        self.end_step()
        self.note("end", counts)

    def note(self, kind: str, line: Mapping[str, JSON]) -> None:
        """Write a line."""
        fields: dict[str, JSON] = {"at": round(time.time(), 3), kind: {**line}}
        if self._target.mount is not None:
            fields = {"judge": self._target.mount, **fields}
        self._write(wire.dumps(fields) + b"\n")

    def _add_gold(self, group: MonitorGroup, gold_scores: Mapping[int, float]) -> None:
        """Add the gold scores of a group; compare the judges when enough groups have one."""
        self.page_groups.add_gold(group, gold_scores)
        pairs = [
            (score, gold)
            for number, gold in gold_scores.items()
            if (score := group.rollouts[number].score) is not None
        ]
        scores: dict[str, JSON] = {str(number): score for number, score in gold_scores.items()}
        self.note(
            "gold", {"group": group.number, "step": group.step, "uid": group.uid, "scores": scores}
        )
        for (ours, theirs), (other_ours, other_theirs) in combinations(pairs, 2):
            if ours != other_ours and theirs != other_theirs:
                self._ordered_pairs += 1
                self._agreeing_pairs += (ours > other_ours) == (theirs > other_theirs)
        number, gold = next(iter(gold_scores.items()))
        score = group.rollouts[number].score
        assert score is not None  # only rollouts with a score are sampled
        self._compared.append((score, gold, RolloutLocation(group.number, group.uid, number)))
        if len(self._compared) >= self._settings.gold_rollouts:
            self._check(group.step)

    def _check(self, step: int) -> None:
        training, gold, _ = zip(*self._compared, strict=True)
        check = self._detector.add(step, training, gold)
        means = {"training": fmean(training), "gold": fmean(gold)}
        order_agreement = None
        if self._ordered_pairs:
            order_agreement = self._agreeing_pairs / self._ordered_pairs
        self.note("check", {**asdict(check), **means, "order_agreement": order_agreement})
        is_above = check.limit is not None and check.gap > check.limit
        if not is_above:
            self._above_since = None
        elif self._above_since is None:
            self._above_since = step
        if check.is_alarm and not self._has_alarm(_GAP):
            assert check.limit is not None  # the reference raises no alarm
            seen = (
                f"training scores are {check.gap:+.3f} above gold scores (limit "
                f"{check.limit:+.3f}, evidence {check.evidence:.0f}; {self._false_alarm_note})"
            )
            widest = sorted(self._compared, key=lambda comparison: comparison[1] - comparison[0])[
                :MAX_ROLLOUTS
            ]
            since = step if self._above_since is None else self._above_since
            self._raise(
                Alarm(_GAP, step, since, seen, _ADVICE, tuple(place for _, _, place in widest))
            )
        self._compared = []
        self._ordered_pairs = 0
        self._agreeing_pairs = 0

    def _watch_cascade(self, group: MonitorGroup, cascade: CascadeSettings) -> None:
        """Raise an alarm, once a run, if a cascade breaks its promise; a row counts once."""
        verdicts = group.rollouts[0].criteria if group.rollouts else {}
        sides = {side(verdicts[name]) for name in cascade.cascade if name in verdicts}
        harm = cascade.cascade_harm
        if harm is None or verdicts.get(ESCALATED) != 0.0 or len(sides) < 2:
            return
        place = RolloutLocation(group.number, group.uid, 0)
        self._differing.setdefault(group.uid, (group.step, place))
        rows = self.groups
        differ = len(self._differing)
        recheck = cascade.cascade_recheck
        evidence = promise_evidence(rows, differ, harm=harm, recheck=recheck)
        self.note(
            "cascade", {"step": group.step, "rows": rows, "evidence": evidence, **asdict(place)}
        )
        if evidence >= ALARM_AT * self._target.judges and not self._has_alarm(_PROMISE):
            share = percent(differ / (rows * recheck))
            promise = percent(harm)
            seen = (
                f"a cascade's judges differ on {differ} rechecked rows, about {share} of all "
                f"{rows:,}, and the promise is {promise} (evidence {evidence:.0f}; "
                f"{self._false_alarm_note})"
            )
            (since, _), *_ = self._differing.values()
            places = [place for _, place in self._differing.values()][-MAX_ROLLOUTS:]
            self._raise(Alarm(_PROMISE, group.step, since, seen, _ADVICE_OF_PROMISE, tuple(places)))

    def _check_limits(self, beyond: list[str]) -> None:
        """Raise an alarm, once a run, for each monitor that stays beyond its limit."""
        before = self._beyond
        self._beyond = {name: before.get(name, (0, self._last_step)) for name in beyond}
        for name, (times, since) in self._beyond.items():
            self._beyond[name] = (times + 1, since)
            if times + 1 >= _STEPS_BEFORE_ALARM and not self._has_alarm(name):
                low, high = self._settings.limits[name]
                limit = " and ".join(
                    f"{words} {bound:g}"
                    for words, bound in (("at least", low), ("at most", high))
                    if bound is not None
                )
                seen = (
                    f"{MONITORS[name]} {self.values[name]:.3f} (your limit: {limit}), {times + 1} "
                    "times in a row; nothing bounds how often an alarm of such a limit is false"
                )
                self._raise(Alarm(name, self._last_step, since, seen, _ADVICE_OF_LIMITS))

    def _has_alarm(self, monitor: str) -> bool:
        return any(alarm.monitor == monitor for alarm in self.alarms)

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        self.page_groups.pin(alarm)
        self.note("alarm", asdict(alarm))
        logger.warning("%s", wire.scrub(alarm.text))  # a lone surrogate cannot be written to a log
        self._on_alarm(alarm)
