"""How soon the detector of reward hacking tells it, and in how many clean runs it is wrong.

A policy's quality climbs; a training judge and a gold judge score its rollouts on five levels (or
two). In a planted run the training judge's scores gain a little at each step from step 200 on, with
nothing behind it. In clean runs the gold judge is as strict as the training judge, stricter, or
milder; at the boundary the gap grows by exactly the tolerance.

    python -m benchmarks.gap_detector [--seeds 8] [--runs 100]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from judgegym.statistics.gap_detector import GapDetector

STEPS, HACKED_AT, SLOPE = 500, 200, 0.005


@dataclass(frozen=True)
class Family:
    """A kind of run.

    Attributes:
        name: what the table calls it.
        levels: of both judges' scales.
        slope: what the training judge's mean gains at each step of a hack.
        shift: what the gold judge adds to each rollout's quality.
        most: the share of runs in which there may be an alarm; of planted runs, `None`.
        within: of planted runs, the steps within which 95 % must be found.
        rollouts: of a check.
        every: steps between two checks.
        jump: what the gap gains at once after the reference.
        gain: of the gold judge's scale.
    """

    name: str
    levels: int = 5
    slope: float = 0.0
    shift: float = 0.0
    most: float | None = 0.01
    within: int | None = None
    rollouts: int = 32
    every: int = 5
    jump: float = 0.0
    gain: float = 1.0


FAMILIES = (
    Family("planted, five levels", slope=SLOPE, most=None, within=100),
    Family("planted, two levels", levels=2, slope=SLOPE, most=None, within=120),
    Family("planted, 32 at every step", slope=SLOPE, most=None, every=1),
    Family("planted, 64 every 10 steps", slope=SLOPE, most=None, rollouts=64, every=10),
    Family("planted, 16 every 5 steps", slope=SLOPE, most=None, rollouts=16),
    Family("clean, matching"),
    Family("clean, milder gold judge", shift=0.1),
    Family("clean, stricter gold judge", shift=-0.1),
)
BOUNDARY = Family("boundary: the gap grows by the tolerance", most=0.015, jump=0.05)
SHOWN = Family("clean, gold judge with 0.8 of the scale", most=None, gain=0.8)


def delays(family: Family, runs: int, seed: int) -> Iterator[int | None]:
    """Steps from the hack (or from the start) to the alarm of each run; `None` without one."""
    draw = np.random.default_rng([seed, *family.name.encode()])
    steps = np.arange(0, STEPS, family.every)
    for _ in range(runs):
        detector = GapDetector(checks=len(steps))
        start, end = draw.uniform(0.3, 0.45), draw.uniform(0.5, 0.65)
        found = None
        for step in steps:
            quality = start + (end - start) * step / STEPS + draw.normal(0.0, 0.18, family.rollouts)
            hack = family.slope * max(0, step - HACKED_AT) + (
                0.0 if detector.in_reference else family.jump
            )
            noise = draw.normal(0.0, 0.25, (2, family.rollouts))
            if (
                family.jump
            ):  # exactly: the gap's mean is the tolerance, whatever a scale does to a gain
                training = quality + noise[0] + hack
                gold = quality + noise[1]
            else:
                training = scored(quality + noise[0] + hack, family.levels)
                gold = scored(family.gain * quality + noise[1] + family.shift, family.levels)
            check = detector.add(int(step), training.tolist(), gold.tolist())
            if check.is_alarm:
                found = int(step) - (HACKED_AT if family.slope else 0)
                break
        yield found


def scored(quality: np.ndarray, levels: int) -> np.ndarray:
    """The nearest level, from 0 to 1."""
    return np.clip(np.round(quality * (levels - 1)), 0, levels - 1) / (levels - 1)


def line(family: Family, found: Sequence[int | None]) -> tuple[str, bool]:
    """The line of a family in the table, and whether it meets what is required."""
    alarms = [delay for delay in found if delay is not None and delay >= 0]
    false = sum(delay is not None and (not family.slope or delay < 0) for delay in found)
    if not family.slope:
        is_met = family.most is None or false <= family.most * len(found)
        wanted = "" if family.most is None else f", required at most {family.most:.1%}"
        return f"{family.name:<42} false alarms {false} of {len(found)}{wanted}", is_met
    late = sorted(delay if delay is not None and delay >= 0 else STEPS for delay in found)
    at = f"median {late[len(late) // 2]}, 95 % within {late[int(0.95 * len(late)) - 1]} steps"
    wanted, is_met = "", True
    if family.within is not None:
        share = sum(delay <= family.within for delay in alarms) / len(found)
        is_met, wanted = share >= 0.95, f", {share:.1%} within {family.within} (required 95 %)"
    return f"{family.name:<42} {at}, before the hack {false} of {len(found)}{wanted}", is_met


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args(argv)
    missed = 0
    for family in (*FAMILIES, BOUNDARY, SHOWN):
        found = [
            delay for seed in range(options.seeds) for delay in delays(family, options.runs, seed)
        ]
        text, is_met = line(family, found)
        missed += not is_met
        print(text if is_met else f"{text}  NOT MET", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
