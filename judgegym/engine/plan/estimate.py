"""Estimates of a run's calls, from a sample of its rows.

The rows are run with the replies of the offline stand-in. If that makes calls, a part of the rows
is run again with each of `OPINIONS`, to find the fewest and the most calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from judgegym.engine.anchors import AnchorJudge, plan_anchors
from judgegym.engine.plan.client import OPINIONS, DryRun
from judgegym.engine.plan.tally import Load, Role, Tally, sum_loads
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import judge_responses
from judgegym.llm.at_once import gather_results

ROWS, CALLS = 2_000, 20_000
"""The most rows of the sample, and the number of calls after which no further rows are run."""
_ROWS_AGAIN, _CALLS_AGAIN = 200, 2_000
"""The same limits for each opinion."""
_AT_ONCE = 50
Step = Callable[[int], Awaitable[object]]
"""Runs a row."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The load of a role: usual, lowest and highest."""

    usual: Load = Load()
    low: Load = Load()
    high: Load = Load()

    def __add__(self, bounds: Bounds) -> Bounds:
        """Return the sum."""
        return Bounds(self.usual + bounds.usual, self.low + bounds.low, self.high + bounds.high)

    def scale(self, factor: float) -> Bounds:
        """Return the load multiplied by a factor."""
        return Bounds(self.usual.scale(factor), self.low.scale(factor), self.high.scale(factor))

    @property
    def is_exact(self) -> bool:
        """Whether the number of calls is independent of the verdicts."""
        return self.low.calls == self.high.calls


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """The estimated load of a run.

    Attributes:
        roles: the loads of all rows, by role.
        rows: the number of rows.
        counted: the number of rows that were run.
    """

    roles: dict[Role, Bounds] = field(default_factory=dict)
    rows: int = 0
    counted: int = 0

    def __add__(self, added: PlanEstimate) -> PlanEstimate:
        """Return the sum of two estimates."""
        names = [*dict.fromkeys((*self.roles, *added.roles))]
        roles = {
            role: self.roles.get(role, Bounds()) + added.roles.get(role, Bounds()) for role in names
        }
        return PlanEstimate(roles, self.rows + added.rows, self.counted + added.counted)

    def scale(self, low: float, usual: float, high: float) -> PlanEstimate:
        """Return the estimate multiplied by factors for its lowest, usual and highest load."""
        roles = {
            role: Bounds(bounds.usual.scale(usual), bounds.low.scale(low), bounds.high.scale(high))
            for role, bounds in self.roles.items()
        }
        return PlanEstimate(roles, self.rows, self.counted)

    @property
    def total(self) -> Bounds:
        """The load of all roles together."""
        return sum(self.roles.values(), Bounds())


def draw_rows(rows: Sequence[int], seed: int) -> list[int]:
    """Draw the rows to run, in random order; all of them if they are few."""
    chosen = make_generator(seed, "plan", "rows").sample(range(len(rows)), min(len(rows), ROWS))
    return [rows[index] for index in chosen]


async def estimate(dry: DryRun, step: Step, chosen: Sequence[int], rows: int) -> PlanEstimate:
    """Estimate the load of a run.

    Args:
        dry: counts the requests.
        step: runs a row.
        chosen: the rows to run.
        rows: the number of the run's rows.
    """
    counted, repeated_rows = 0, 0
    dry.begin(None)
    first: Tally = {}
    while counted < len(chosen) and _calls(dry) < CALLS:
        counted += await _run_rows(dry, step, chosen[counted : counted + _AT_ONCE])
        if not repeated_rows and (
            counted >= min(_ROWS_AGAIN, len(chosen)) or _calls(dry) >= _CALLS_AGAIN
        ):
            repeated_rows, first = counted, {**dry.tally}
    usual = dry.tally
    passes = [first]
    for opinion in OPINIONS if first else ():
        dry.begin(opinion)
        for start in range(0, repeated_rows, _AT_ONCE):
            await _run_rows(dry, step, chosen[start : min(start + _AT_ONCE, repeated_rows)])
        passes.append(dry.tally)
    factor = rows / max(1, counted)
    roles = dict.fromkeys(chain(usual, *passes))
    bounds_by_role = {
        role: _bounds(role, usual, passes, factor, rows / max(1, repeated_rows)) for role in roles
    }
    return PlanEstimate(bounds_by_role, rows, counted)


def _bounds(
    role: Role, usual: Tally, passes: Sequence[Tally], factor: float, factor_again: float
) -> Bounds:
    """Return the bounds of a role: the usual load, scaled by how the passes differ."""
    whole = usual.get(role, Load()).scale(factor)
    loads = sorted((tally.get(role, Load()) for tally in passes), key=lambda load: load.calls)
    first = passes[0].get(role, Load())
    if loads[0].calls == loads[-1].calls:
        return Bounds(whole, whole, whole)
    low, high = (
        load.scale(whole.calls / first.calls if first.calls else factor_again)
        for load in (loads[0], loads[-1])
    )
    return Bounds(whole, low, high)


def _calls(dry: DryRun) -> float:
    return sum_loads(dry.tally.values()).calls


async def _run_rows(dry: DryRun, step: Step, numbers: Sequence[int]) -> int:
    async def run(number: int) -> None:
        with dry.row():
            await step(number)

    await gather_results(map(run, numbers))
    return len(numbers)


async def estimate_anchors(
    dry: DryRun, judge: AnchorJudge | None, run: Path | None
) -> PlanEstimate:
    """Estimate the load of a run's anchors; nothing without anchors.

    Args:
        dry: counts the judge's requests.
        judge: the judge of the anchors; `None` without anchors.
        run: the directory of the run to resume; `None` for a new one.

    Raises:
        UserError: a file cannot be read.
    """
    if judge is None:
        return PlanEstimate()
    anchors, fewest, most = plan_anchors(judge, run)

    async def step(number: int) -> None:
        await judge_responses(judge.judge, anchors[number].task)

    plan = await estimate(dry, step, range(len(anchors)), len(anchors))
    roles = {replace(role, part="anchors"): bounds for role, bounds in plan.roles.items()}
    return PlanEstimate(roles).scale(fewest, fewest, most)
