"""What the anchors of a run take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from judgegym.engine.anchors import AnchorJudge, plan_anchors
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.estimate import PlanEstimate, estimate
from judgegym.judges.core.tasks import judge_responses


async def estimate_anchors(dry: DryRun, judge: AnchorJudge | None, run: Path | None) -> PlanEstimate:
    """Estimate what the anchors of a run take; nothing without any.

    Args:
        dry: counts what the judge asks.
        judge: of the anchors; `None` without any.
        run: the directory of the run to resume; `None` for a new one.

    Raises:
        UserError: a file cannot be read.
    """
    if judge is None:
        return PlanEstimate()
    anchors, fewest, most = plan_anchors(judge, run)

    async def step(number: int) -> None:
        await judge_responses(judge.judge, anchors[number].task)

    found = await estimate(dry, step, range(len(anchors)), len(anchors))
    roles = {replace(role, part="anchors"): bounds for role, bounds in found.roles.items()}
    return PlanEstimate(roles).times(fewest, fewest, most)
