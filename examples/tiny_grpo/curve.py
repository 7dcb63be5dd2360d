"""What a training run is remembered by: numbers for each step, `curve.json`, and whether the policy learned.

A `Curve` is one setting, trained from several seeds. Files of several curves are comparisons: the
same training with and without a rule. Whether a seed learned is decided by `measure_progress`.
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
"""The first and the last steps that are compared."""

ERRORS = 5.0
"""By how many standard errors the last steps must be above the first ones."""

_MOST_CORRELATED = 0.9  # what a window of ten steps can tell from a correlation of 1


@dataclass(frozen=True)
class Step:
    """One step of the trainer: means over its batch.

    Attributes:
        step: from 1.
        reward: mean reward of the rollouts, as the trainer gets it.
        letter_share: the share of the letter in the completions, whatever a judge said of them: the
            true measure.
        well_formed: the share of completions in the asked format.
        length: mean number of tokens of a completion.
        ratio: mean of the importance ratio over the tokens of completions.
        clip_fraction: share of these tokens whose ratio was clipped.
        group_std: mean of the standard deviation of the rewards within a group.
        masked: share of rollouts whose judgment failed, and which have no advantage.
        staleness: how many steps older than the newest weights those were that sampled a rollout.
        group_size: mean number of rollouts in a group.
        without_signal: share of groups whose rewards are all equal, so that nothing is learned from
            them.
        gold: mean score of the gold judge, of the rollouts that it saw; `None` without one.
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
    """How a measure has changed from the first to the last steps of a run.

    Attributes:
        first: mean over the first `WINDOW` steps; `None` if there are too few steps.
        last: mean over the last ones, likewise.
        standard_error: of their difference, likewise.
        learned: the last steps are above the first ones by more than `ERRORS` standard errors.
        reason: why it was not decided; `None` if it was.
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
        seed: of the weights, the samples and the order of the rows.
        steps: in their order.
        recomputed: share of the tokens of step 1 whose logprob the trainer recomputes within 1e-3.
        groups_sent: by the environment, over the run.
        groups_dropped: likewise.
        seconds: wall-clock time.
        alarm: the step at which the gap to the gold judge was an alarm; `None` if it never was.
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
        name: in a few words, for legends and tables.
        command: what makes it again.
        runs: one for each seed.
    """

    name: str
    command: str
    runs: tuple[SeedRun, ...]


def measure_progress(values: Sequence[float]) -> Progress:
    """Compare the last steps with the first ones; `values` has one number for each step.

    A step is one observation, not its rollouts, which share a policy and prompts; what the policy
    learns within a window counts as spread. Steps follow each other with nearly the same weights,
    so they are no independent
    observations either: the standard error of a window is √(s²/n · (1 + ρ)/(1 − ρ)), with the
    sample variance s² of its n steps and their autocorrelation ρ from one to the next, as for a
    process of first order. That of the difference is the root of the sum of both squares.
    """
    if len(values) < 2 * WINDOW:
        reason = f"{len(values)} steps, and the first {WINDOW} and the last {WINDOW} are compared"
        return Progress(None, None, None, learned=False, reason=reason)
    first, last = values[:WINDOW], values[-WINDOW:]
    error = math.sqrt(_squared_error(first) + _squared_error(last))
    gain = fmean(last) - fmean(first)
    return Progress(fmean(first), fmean(last), error, learned=gain > 0 and gain > ERRORS * error)


def _squared_error(values: Sequence[float]) -> float:
    """The squared standard error of the mean of values that follow each other."""
    rho = _autocorrelation(values)
    return variance(values) / len(values) * (1 + rho) / (1 - rho)


def _autocorrelation(values: Sequence[float]) -> float:
    """The correlation of neighbours, from 0 to `_MOST_CORRELATED`.

    An estimate from n values is low by about (1 + 4ρ)/n (Marriott and Pope 1954), which is put
    right.
    """
    mean, n = fmean(values), len(values)
    deviations = [value - mean for value in values]
    squares = sum(deviation * deviation for deviation in deviations)
    if not squares:
        return 0.0
    estimate = sum(a * b for a, b in pairwise(deviations)) / squares
    return min(max((estimate + 1 / n) / (1 - 4 / n), 0.0), _MOST_CORRELATED)


def reward_progress(run: SeedRun) -> Progress:
    """Whether the reward of a run rose."""
    return measure_progress([step.reward for step in run.steps])


def across_seeds(runs: Iterable[SeedRun], field: str) -> list[tuple[float, float]]:
    """Mean and standard deviation over the runs of a number of each step, as far as all runs have come."""
    series = [[getattr(step, field) for step in run.steps] for run in runs]
    return [
        (fmean(values), stdev(values) if len(values) > 1 else 0.0)
        for values in zip(*series, strict=False)
    ]


def write_curves(path: Path, curves: Sequence[Curve]) -> None:
    """Write `curve.json`, with the progress of each run beside it."""
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
    """Read what `write_curves` has written."""
    return TypeAdapter(list[Curve]).validate_python(
        json.loads(path.read_text(encoding="utf-8"))["curves"]
    )
