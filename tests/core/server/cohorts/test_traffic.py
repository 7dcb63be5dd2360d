"""Cohorts under a trainer's traffic: responses lost, late, sent twice and again, two epochs interleaved."""

from __future__ import annotations

import pytest

from tests.core.server import cohort_traffic
from tests.core.server.cohort_traffic import Plan
from tests.core.server.running import running
from tests.scripted import Script
from tests.trainer import until


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judge", "script", "plan"),
    [
        ("listwise", cohort_traffic.listwise_judge, Plan()),
        ("tournament", cohort_traffic.arena_judge, Plan(prompts=12, size=4)),
    ],
)
async def test_cohorts_of_a_trainers_traffic_are_judged_by_themselves_in_time(
    judge: str, script: Script, plan: Plan
) -> None:
    async with running(f"--judge={judge}", *plan.flags, judge=script) as server:
        traffic = await cohort_traffic.send(server.url, plan)

        async def nobody_waits() -> bool:
            return cohort_traffic.metric((await server.get("/metrics")).text, "judgegym_in_flight") == 0

        await until(nobody_waits, "all who gave up are noticed")
        metrics = (await server.get("/metrics")).text
        bodies = server.judge.bodies
    cohort_traffic.check_cohorts(traffic, bodies)
    cohort_traffic.check_answers(traffic)
    cohort_traffic.check_metrics(traffic, metrics, bodies)
    if judge == "listwise":
        cohort_traffic.check_qualities(traffic)
        closed = cohort_traffic.metric(metrics, "judgegym_cohorts_closed_total")
        assert 2 * plan.prompts <= len(bodies) <= closed, "one call for each cohort"
