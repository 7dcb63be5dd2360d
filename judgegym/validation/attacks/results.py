"""What attacks did to a judge: success rates above the repeat control, what replaced answers are paid, worst rows.

An attack succeeds on a row if the score is above that of the row's twin by more than `min_gain`. The same is counted
for the repeat of the twin: what changes by noise alone is no success. An attack succeeds on the judge if its rate is
above the repeat's by more than `max_success`, or if a text without an answer is paid more than `max_floor`; both are
tests (McNemar's exact one, and Student's t), of which the false-discovery rate over all attacks is limited.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.statistics.agreement import Interval
from judgegym.statistics.paired_rates import MeanTest, PairedCounts, false_discovery, mean_above
from judgegym.validation.attacks.rows import REPEAT, TWIN, Target, uid_of
from judgegym.validation.attacks.settings import AttackSettings
from judgegym.validation.attacks.suite import Attack
from judgegym.validation.judged_rows import DerivedRow, JudgedRows, RowJudgment

Finding: TypeAlias = Literal["succeeds", "not shown", "underpowered"]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class WorstRow:
    """A row on which an attack gained most.

    Attributes:
        row: its number in the data.
        prompt: its prompt.
        before: the unattacked response; `None` without one.
        after: the response under attack.
        score_before: of the twin.
        score_after: under attack.
        said: what the judge said of the response under attack.
        components: the numbers of which the score is made, such as one for each criterion.
    """

    row: int
    prompt: str
    before: str | None
    after: str
    score_before: float | None
    score_after: float
    said: str
    components: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What one attack did.

    Attributes:
        attack: the attack.
        rows: the rows that count: those of which every judgment has a score.
        failed: rows without a score of the twin, the repeat or the response under attack, which are left out.
        counts: rows on which the attack, the repeat, both or neither succeeded; `None` without twins.
        interval: of the attack's success rate minus the repeat's; `None` without twins.
        gain: the mean of score minus the twin's; `None` without twins.
        paid: the mean score of an answer that the attack replaces; `None` for other attacks.
        p: the smaller of the adjusted p-values.
        finding: what follows.
        worst: the rows with the highest gain, or without twins with the highest score.
    """

    attack: Attack
    rows: int
    failed: int
    counts: PairedCounts | None
    interval: Interval | None
    gain: float | None
    paid: MeanTest | None
    p: float
    finding: Finding
    worst: tuple[WorstRow, ...]

    @property
    def rates(self) -> tuple[float, float] | None:
        """The success rates of the attack and of the repeat; `None` without twins or rows."""
        if self.counts is None or not self.rows:
            return None
        both, first, second, _ = self.counts
        return (both + first) / self.rows, (both + second) / self.rows


def attack_results(
    targets: Sequence[Target],
    attacks: Sequence[Attack],
    rows: Sequence[DerivedRow],
    judged: JudgedRows,
    settings: AttackSettings,
) -> list[AttackResult]:
    """What each attack did: those that succeed first, then by success rate and payment.

    Args:
        targets: the rows under attack.
        attacks: the attacks that were made.
        rows: what was judged.
        judged: its judgments.
        settings: the thresholds.
    """
    tasks = {row.uid: row.task for row in rows}
    measured = [_Measured.of(attack, targets, judged, settings) for attack in attacks]
    tests = [p for each in measured for p in each.p_values]
    adjusted = iter(false_discovery(tests))
    found = [each.result([next(adjusted) for _ in each.p_values], len(tests), tasks, settings) for each in measured]
    return sorted(found, key=_order)


def rows_needed(tests: int, level: float) -> int:
    """The fewest rows with room above their twin that can show a success among so many tests."""
    return math.ceil(math.log2(max(1, tests) / level))


def _order(result: AttackResult) -> tuple[bool, float, float]:
    above = 0.0 if result.counts is None else result.counts.difference
    return result.finding != "succeeds", -above, -(result.paid.mean if result.paid is not None else 0.0)


@dataclass(frozen=True, slots=True)
class _Attacked:
    """A row under attack that counts: its score, and those of its twin and of the repeat, if it has a twin."""

    target: Target
    judgment: RowJudgment
    after: float
    twin: float | None = None
    repeat: float | None = None

    @property
    def gain(self) -> float:
        return self.after - (self.twin or 0.0)


@dataclass(frozen=True, slots=True)
class _Measured:
    """The scores of one attack, before the p-values of all are adjusted together."""

    attack: Attack
    rows: Sequence[_Attacked]
    failed: int
    counts: PairedCounts | None
    paid: MeanTest | None
    room: int

    @classmethod
    def of(cls, attack: Attack, targets: Sequence[Target], judged: JudgedRows, settings: AttackSettings) -> _Measured:
        rows, failed = list[_Attacked](), 0
        for target in targets:
            found = [
                judged.by_uid[uid_of(kind, target)][target.place]
                for kind in (attack.name, *((TWIN, REPEAT) if target.has_twin else ()))
            ]
            scores = [_score(one) for one in found]
            known = [score for score in scores if score is not None]
            if len(known) < len(scores):
                failed += 1
            else:
                rows.append(_Attacked(target, found[0], *known))
        least = settings.min_gain + _ROUNDING
        with_twin = [(row.after - row.twin, (row.repeat or 0.0) - row.twin) for row in rows if row.twin is not None]
        counts = None
        if with_twin:
            counts = PairedCounts.of([gain > least for gain, _ in with_twin], [gain > least for _, gain in with_twin])
        paid = mean_above([row.after for row in rows], settings.max_floor) if attack.replaces and rows else None
        room = sum(row.twin is not None and row.twin + least < 1.0 for row in rows)
        return cls(attack, rows, failed, counts, paid, room)

    @property
    def p_values(self) -> list[float]:
        found = [] if self.counts is None else [self.counts.p]
        return found + ([] if self.paid is None else [self.paid.p])

    def result(
        self, adjusted: Sequence[float], tests: int, tasks: Mapping[str, JudgeTask], settings: AttackSettings
    ) -> AttackResult:
        level, counts, paid = settings.false_discoveries, self.counts, self.paid
        rises = counts is not None and adjusted[0] <= level and counts.difference > settings.max_success
        pays = paid is not None and adjusted[-1] <= level and paid.mean > settings.max_floor
        is_enough = bool(self.rows) and (counts is None or self.room >= rows_needed(tests, level))
        gains = [row.gain for row in self.rows if row.twin is not None]
        worst = sorted(self.rows, key=lambda row: (-row.gain, row.target.number))[: settings.worst_rows]
        gain = math.fsum(gains) / len(gains) if gains else None
        finding: Finding = "succeeds" if rises or pays else "not shown" if is_enough else "underpowered"
        shown = tuple(_worst_row(row, tasks[uid_of(self.attack.name, row.target)]) for row in worst)
        p, interval = min(adjusted, default=1.0), None if counts is None else counts.interval()
        numbers = (len(self.rows), self.failed, counts, interval, gain, paid, p)
        return AttackResult(self.attack, *numbers, finding, shown)


def _worst_row(row: _Attacked, task: JudgeTask) -> WorstRow:
    target, said = row.target, row.judgment
    texts = (target.response if target.has_twin else None, task.responses[target.place])
    return WorstRow(target.number, task.prompt, *texts, row.twin, row.after, said.explanation, said.components)


def _score(judgment: RowJudgment) -> float | None:
    """The score that counts: an empty answer, which no judge is asked about, has 0."""
    return 0.0 if judgment.status == Status.INVALID_COMPLETION.value else judgment.score
