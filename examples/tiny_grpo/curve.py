"""The record of a training run: numbers of each step, `curve.json`, and whether it learned.

A `Curve` is one setting, trained from several seeds. Files with several curves are comparisons: the
same training with and without a rule. `measure_progress` decides whether a seed learned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev, variance

from pydantic import TypeAdapter

WINDOW = 10
"""The number of first and last steps that are compared."""

ERRORS = 5.0
"""The last steps must be above the first ones by this many standard errors."""

_MOST_CORRELATED = 0.9  # ten steps cannot tell a higher correlation from 1


@dataclass(frozen=True)
class Step:
    """One step of the trainer: means over its batch.

    Attributes:
        step: from 1.
        reward: mean reward of the rollouts, as sent to the trainer.
        letter_share: the share of the letter in the completions, the true measure, independent of
            judges.
        well_formed: the share of completions in the required format.
        length: mean number of tokens of a completion.
        ratio: mean of the importance ratio over the tokens of completions.
        clip_fraction: share of these tokens whose ratio was clipped.
        group_std: mean of the standard deviation of the rewards within a group.
        masked: share of rollouts whose judgment failed, so that they have no advantage.
        staleness: mean age, in steps, of the weights that sampled a rollout.
        group_size: mean number of rollouts in a group.
        without_signal: share of groups whose rewards are all equal, so that nothing is learned from
            them.
        gold: mean score of the gold judge over the rollouts that it saw; `None` without one.
    """

    step: int
    reward: float
    letter_share: float
    well_formed: float
    length: float
    ratio: float
    clip_fraction: float
    group_std: float
    masked: float
    staleness: float
    group_size: float
    without_signal: float
    gold: float | None = None


@dataclass(frozen=True)
class Progress:
    """The change of a measure from the first to the last steps of a run.

    Attributes:
        first: mean over the first `WINDOW` steps; `None` if there are too few steps.
        last: mean over the last `WINDOW` steps, likewise.
        standard_error: the standard error of their difference, likewise.
        learned: the last steps are above the first ones by more than `ERRORS` standard errors.
        reason: why it is undecided; `None` if it is decided.
    """

    first: float | None
    last: float | None
    standard_error: float | None
    learned: bool
    reason: str | None = None


@dataclass(frozen=True)
class SeedRun:
    """One training run.

    Attributes:
        seed: the seed of the weights, the samples and the order of the rows.
        steps: the steps, in order.
        recomputed: share of the tokens of step 1 whose logprob the trainer recomputes within 1e-3.
        groups_sent: the number of groups that the environment sent.
        groups_dropped: the number of groups that it dropped.
        seconds: wall-clock time.
        alarm: the step at which the gap to the gold judge raised an alarm; `None` without one.
    """

    seed: int
    steps: tuple[Step, ...]
    recomputed: float
    groups_sent: int
    groups_dropped: int
    seconds: float
    alarm: int | None = None


@dataclass(frozen=True)
class Curve:
    """One setting, trained from several seeds.

    Attributes:
        name: a short name, for legends and tables.
        command: the command that reproduces it.
        runs: the runs, one for each seed.
    """

    name: str
    command: str
    runs: tuple[SeedRun, ...]


def measure_progress(values: Sequence[float]) -> Progress:
    """Compare the last steps with the first ones; `values` has one number for each step.

    One step is one observation: its rollouts share a policy and prompts. Progress within a window
    counts as spread. Consecutive steps have nearly the same weights, so they are not independent
    either: the standard error of a window is √(s²/n · (1 + ρ)/(1 − ρ)), with the sample variance
    s² of its n steps and their lag-1 autocorrelation ρ, as for a process of first order. The
    standard error of the difference is the root of the sum of both squares.
    """
    if len(values) < 2 * WINDOW:
        reason = f"{len(values)} steps, and the first {WINDOW} and the last {WINDOW} are compared"
        return Progress(None, None, None, learned=False, reason=reason)
    first, last = values[:WINDOW], values[-WINDOW:]
    error = math.sqrt(_squared_error(first) + _squared_error(last))
    gain = fmean(last) - fmean(first)
    return Progress(fmean(first), fmean(last), error, learned=gain > 0 and gain > ERRORS * error)


def _squared_error(values: Sequence[float]) -> float:
    """Return the squared standard error of the mean of consecutive values."""
    rho = _autocorrelation(values)
    return variance(values) / len(values) * (1 + rho) / (1 - rho)


def _autocorrelation(values: Sequence[float]) -> float:
    """Return the correlation of neighbours, from 0 to `_MOST_CORRELATED`.

    An estimate from n values is low by about (1 + 4ρ)/n (Marriott and Pope 1954), which is
    corrected.
    """
    mean, n = fmean(values), len(values)
    deviations = [value - mean for value in values]
    squares = sum(deviation * deviation for deviation in deviations)
    if not squares:
        return 0.0
    estimate = sum(a * b for a, b in pairwise(deviations)) / squares
    return min(max((estimate + 1 / n) / (1 - 4 / n), 0.0), _MOST_CORRELATED)


def reward_progress(run: SeedRun) -> Progress:
    """Return the progress of a run's reward."""
    return measure_progress([step.reward for step in run.steps])


def across_seeds(runs: Iterable[SeedRun], field: str) -> list[tuple[float, float]]:
    """Return a field's mean and deviation over the runs for each step, up to the shortest run."""
    series = [[getattr(step, field) for step in run.steps] for run in runs]
    return [
        (fmean(values), stdev(values) if len(values) > 1 else 0.0)
        for values in zip(*series, strict=False)
    ]


def write_curves(path: Path, curves: Sequence[Curve]) -> None:
    """Write `curve.json`, with the progress of each run."""
    written = [
        {
            **asdict(curve),
            "runs": [
                {**asdict(run), "progress": asdict(reward_progress(run))} for run in curve.runs
            ],
        }
        for curve in curves
    ]
    path.write_text(
        json.dumps({"curves": written}, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )


def read_curves(path: Path) -> list[Curve]:
    """Read a file of `write_curves`."""
    return TypeAdapter(list[Curve]).validate_python(
        json.loads(path.read_text(encoding="utf-8"))["curves"]
    )
