"""NeMo Gym's `/aggregate_metrics`: statistics over the rollouts of a run, in the shape that its agent reads.

The agent fills a field that is missing with an empty one, without an error; so the shape matters: a list of statistics
for each task, a mapping of statistics of all rollouts (`mean/reward`, `std/raw`, …), and the headline ones among them.
A failed rollout counts in `num_failed` and in no statistic.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from judgegym.llm.wire import JSON
from judgegym.server.protocols.base import RequestBody
from judgegym.server.protocols.nemo_gym import FAILURE

TASK = "_ng_task_index"
_OWN = "_ng_"

Rollout = Mapping[str, object]


class AggregateBody(RequestBody):
    """Verified rollouts, to be aggregated."""

    verify_responses: list[dict[str, object]]


def aggregate(body: AggregateBody) -> dict[str, JSON]:
    """The statistics of a run's rollouts."""
    judged = [rollout for rollout in body.verify_responses if FAILURE not in rollout]
    by_task: dict[int, list[Rollout]] = {}
    for rollout in judged:
        task = rollout.get(TASK)
        by_task.setdefault(task if isinstance(task, int) else 0, []).append(rollout)
    groups: list[JSON] = [
        {TASK: task, "num_rollouts": len(by_task[task]), **_statistics(by_task[task])} for task in sorted(by_task)
    ]
    counts = {"num_responses": len(body.verify_responses), "num_failed": len(body.verify_responses) - len(judged)}
    overall = _statistics(judged)
    headline = {name: value for name, value in overall.items() if name.startswith("mean/")}
    if not body.verify_responses:
        return {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}
    return {"group_level_metrics": groups, "agent_metrics": {**overall, **counts}, "key_metrics": headline}


def _statistics(rollouts: Iterable[Rollout]) -> dict[str, float]:
    """Mean, max, min, median and deviation of each number of the rollouts and of their usage."""
    columns: dict[str, list[float]] = {}
    for rollout in rollouts:
        response = rollout.get("response")
        usage = response.get("usage") if isinstance(response, Mapping) else None
        for source in (usage, rollout):
            for name, value in source.items() if isinstance(source, Mapping) else ():
                if not name.startswith(_OWN) and (number := _number(value)) is not None:
                    columns.setdefault(name, []).append(number)
    found: dict[str, float] = {}
    for name, values in columns.items():
        found[f"mean/{name}"] = mean = _mean(values)
        found[f"max/{name}"] = max(values)
        found[f"min/{name}"] = min(values)
        found[f"median/{name}"] = _median(values)
        if (deviation := _deviation(values, mean)) is not None:
            found[f"std/{name}"] = deviation
    return found


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond the range of a float, the mean is not
        return statistics.mean(values)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2


def _deviation(values: Sequence[float], mean: float) -> float | None:
    """The sample's deviation; 0 for one value, `None` where it is beyond the range of a float."""
    if len(values) < 2:
        return 0.0
    try:
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    except OverflowError:
        return None


def _number(value: object) -> float | None:
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
