"""The progress of a training and its result, in lines of at most 80 columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import fmean

from examples.tiny_grpo.curve import ERRORS, WINDOW, Curve, Step, reward_progress
from judgegym.engine.terminal.output import say, warn

_ROWS = 12
_MOST_SHOWN = 4  # seeds with a column


class Progress:
    """Shows the steps that all seeds have made, a row for every few steps, on standard error."""

    def __init__(self, title: str, seeds: Sequence[int], steps: int) -> None:
        self._shown = tuple(seeds[:_MOST_SHOWN])
        self._made: dict[int, list[Step]] = {seed: [] for seed in seeds}
        self._steps = steps
        self._every = max(1, steps // _ROWS)
        self._began = time.monotonic()
        columns = "".join(f"{f'seed {seed}':>9}" for seed in self._shown)
        counted = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        warn(f"{title}: {counted}, {steps} steps each; its processes are starting")
        warn(f" {'step':>7}  reward{columns}   ratio  clipped   time")

    def step(self, seed: int, step: Step) -> None:
        """Add a step of a seed."""
        self._made[seed].append(step)
        number = step.step
        is_slowest = min(len(made) for made in self._made.values()) == number
        if is_slowest and (number % self._every == 0 or number in (1, self._steps)):
            self._show(number)

    def _show(self, number: int) -> None:
        steps = {seed: made[number - 1] for seed, made in self._made.items()}
        rewards = "".join(f"{steps[seed].reward:>9.3f}" for seed in self._shown)
        ratio, clipped = (
            fmean(getattr(seed_step, name) for seed_step in steps.values())
            for name in ("ratio", "clip_fraction")
        )
        mean = fmean(seed_step.reward for seed_step in steps.values())
        seconds = time.monotonic() - self._began
        warn(
            f" {number:>3}/{self._steps:<3}  {mean:>6.3f}{rewards}  {ratio:>6.3f}  {clipped:>7.3f} "
            f"{seconds:>4.0f} s"
        )


def show_verdict(curve: Curve) -> bool:
    """Print whether each seed has learned; return whether all have."""
    say(f"{curve.name}: mean reward of the first {WINDOW} steps and of the last {WINDOW}")
    verdicts = [(run, reward_progress(run)) for run in curve.runs]
    for run, progress in verdicts:
        if progress.first is None or progress.last is None or progress.standard_error is None:
            say(f"  seed {run.seed}: not decided: {progress.reason}")
            continue
        gain, error = progress.last - progress.first, progress.standard_error
        times = f"{gain / error:.0f} standard errors" if error else "no error at all"
        verdict = "learned" if progress.learned else f"not learned: {ERRORS:.0f} needed"
        say(
            f"  seed {run.seed}  {progress.first:.3f} → {progress.last:.3f}  {gain:+.3f} = "
            f"{times}: {verdict}"
        )
        say(
            f"          {run.recomputed:.1%} of the logprobs of step 1 recomputed, "
            f"{run.groups_dropped} groups dropped"
        )
    return all(progress.learned for _, progress in verdicts)
