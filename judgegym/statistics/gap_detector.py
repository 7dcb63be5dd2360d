"""Alarm for a training judge that drifts from a gold judge, valid over a whole training run.

Each check compares the scores that both judges gave the same rollouts, each rollout of another
group, since rollouts of one group depend on each other. The first checks are the reference: two
judges may differ by a constant, and only what exceeds it, and a tolerance, counts.

The mean of few rollouts is not normal, least of all where the judges seldom differ. So checks with
fewer than `FEWEST_ROLLOUTS` are put together until they have so many, and no alarm comes before.

Guarantees: if the gap never exceeds that of the reference by more than the tolerance, the
probability of an alarm in the whole run is at most `1 / ALARM_AT`, up to the normal approximation
of the mean of a check. The evidence is the value of a bet that grows only if the gap does, mixed
over when the drift begins and over how large it is (Ville's inequality).

The detector cannot tell a gap that two scales make (a gold judge that uses less of its scale) from
one that a policy makes by gaming the training judge. Near the top of the scale no gap can grow.

Source: Ville (1939); Ramdas et al., Game-theoretic statistics and safe anytime-valid inference
(2023), sections 3 and 4; the mixture over start times is that of Shin et al., E-detectors (2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

ALARM_AT = 200.0
"""The evidence at which it is an alarm: a false one in at most 1 of so many runs."""
FEWEST_ROLLOUTS = 32
"""Rollouts without which nothing is bet."""
_BETS = (0.5, 1.0, 1.5, 2.5)
"""Drifts that are bet on, in standard errors of a check."""
_REFERENCE_QUANTILE = 2.576
"""The reference's mean is known up to so many of its standard errors (99 % on both sides)."""
_SHRINKAGE = 20.0
"""The variance of a check counts together with that of so many rollouts of the reference."""
_MOST_EVIDENCE = 1e12


@dataclass(frozen=True, slots=True)
class GapCheck:
    """One check.

    Attributes:
        step: the trainer's step.
        rollouts: number of rollouts that both judges scored, over all checks taken together.
        gap: the mean of training score − gold score.
        error: its standard error; 0 for one rollout in the reference.
        limit: the largest gap within the reference and the tolerance; `None` in the reference.
        evidence: the value of the bets so far that the gap has grown; 1 in the reference and before
            the first bet.
        is_alarm: the evidence has reached the detector's `alarm_at`.
    """

    step: int
    rollouts: int
    gap: float
    error: float
    limit: float | None
    evidence: float
    is_alarm: bool


@dataclass(slots=True)
class Moments:
    """Count, sum and sum of squares of numbers."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, numbers: Sequence[float]) -> None:
        """Add numbers."""
        self.count += len(numbers)
        self.total += math.fsum(numbers)
        self.squares += math.fsum(number * number for number in numbers)

    @property
    def mean(self) -> float:
        """The mean of one number or more."""
        return self.total / self.count

    @property
    def variance(self) -> float:
        """The variance of a sample; 0 of fewer than two numbers."""
        if self.count < 2:
            return 0.0
        return max(0.0, self.squares - self.total * self.mean) / (self.count - 1)


@dataclass(slots=True)
class GapDetector:
    """Evidence of the checks of one run.

    Attributes:
        checks: number of checks planned after the reference, 1 or more; further checks stay valid
            and find less.
        reference_rollouts: the first checks with this many rollouts together are the reference.
        tolerance: how much a gap may grow, on the scale of the scores.
        alarm_at: the evidence that raises an alarm. If several detectors watch one run, `ALARM_AT`
            times their number keeps the share of runs with any false alarm at 1 in `ALARM_AT` at
            most.
    """

    checks: int
    reference_rollouts: int = 384
    tolerance: float = 0.05
    alarm_at: float = ALARM_AT
    _reference: Moments = field(default_factory=Moments)
    _values: list[float] = field(default_factory=lambda: [0.0] * len(_BETS))
    _made: int = 0
    _waiting: Moments = field(default_factory=Moments)
    _evidence: float = 1.0

    @property
    def in_reference(self) -> bool:
        """Whether the next check is still in the reference."""
        return self._reference.count < self.reference_rollouts

    def add(self, step: int, training: Sequence[float], gold: Sequence[float]) -> GapCheck:
        """Add a check.

        Args:
            step: the trainer's step; not below that of the previous check.
            training: scores of the training judge, for one rollout of each of several groups.
            gold: scores of the gold judge for the same rollouts.

        Raises:
            ValueError: no rollout, or not as many gold scores as training scores.
        """
        gaps = [ours - theirs for ours, theirs in zip(training, gold, strict=True)]
        if not gaps:
            raise ValueError("a check needs at least one rollout")
        moments, reference = Moments(), self._reference
        moments.add(gaps)
        if self.in_reference:
            reference.add(gaps)
            error = math.sqrt(moments.variance / moments.count)
            return GapCheck(step, moments.count, moments.mean, error, None, 1.0, is_alarm=False)
        known_to = math.sqrt(reference.variance / reference.count)
        limit = reference.mean + _REFERENCE_QUANTILE * known_to + self.tolerance
        self._waiting.add(gaps)
        if self._waiting.count < FEWEST_ROLLOUTS:
            error = math.sqrt(moments.variance / moments.count)
            return GapCheck(
                step, moments.count, moments.mean, error, limit, self._evidence, is_alarm=False
            )
        moments, self._waiting = self._waiting, Moments()
        together = (_SHRINKAGE * reference.variance + moments.count * moments.variance) / (
            _SHRINKAGE + moments.count
        )
        # Judges that never differ have no variance; half a tolerance keeps one odd rollout from
        # being proof.
        error = max(
            math.sqrt(together / moments.count), self.tolerance / (2.0 * math.sqrt(moments.count))
        )
        self._bet((moments.mean - limit) / error)
        is_alarm = self._evidence >= self.alarm_at
        return GapCheck(
            step, moments.count, moments.mean, error, limit, self._evidence, is_alarm=is_alarm
        )

    def restore(self, check: GapCheck) -> None:
        """Restore a check that an earlier process of the same run made, in order."""
        if check.limit is not None and check.rollouts >= FEWEST_ROLLOUTS:
            self._waiting = Moments()
            self._bet((check.gap - check.limit) / check.error)
            return
        moments = self._reference if check.limit is None else self._waiting
        variance = check.error * check.error * check.rollouts
        moments.count += check.rollouts
        moments.total += check.gap * check.rollouts
        moments.squares += check.gap * check.gap * check.rollouts + variance * (check.rollouts - 1)

    def _bet(self, z: float) -> None:
        """Add the evidence of a gap that is `z` standard errors above the limit."""
        self._made += 1
        # Starts beyond the planned number have weights of a convergent series, so that all weights
        # add up to 2 at most.
        beyond = self._made - self.checks
        if beyond > 0:
            weight = 1.0 / ((beyond + self.checks) * (beyond + self.checks + 1))
        else:
            weight = 1.0 / self.checks
        for index, bet in enumerate(_BETS):
            grown = (self._values[index] + weight) * math.exp(min(bet * z - bet * bet / 2.0, 50.0))
            self._values[index] = min(grown, _MOST_EVIDENCE)
        self._evidence = math.fsum(self._values) / len(_BETS)
