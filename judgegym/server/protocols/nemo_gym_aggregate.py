"""NeMo Gym's `/aggregate_metrics`: statistics over the rollouts of a run, in the shape that its agent reads.

The agent fills a field that is missing with an empty one, without an error; so the shape matters: a list of statistics
for each task, a mapping of statistics of all rollouts (`mean/reward`, `std/raw`, …), and the headline ones among them.
A failed rollout counts in `num_failed` and in no statistic.

NeMo Gym's `POST /compare`: the rewards of several responses to one conversation, for judges that compare.

The rewards are from 0 to 1. The answer has a number for each response and no other way to say that there is none:
a response that the judge failed to score gets the mean of the other rewards, which leaves their advantages as they are;
`metrics.judge_failed` counts such responses, and `comparison_results` says which they are and why. With
`on_failure=http`, and where no response has a reward, the answer is HTTP 503.

Source: NeMo Gym 0.5, its GenRM server and the client of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from judgegym.judges.core.turns import transcript, turn_of_item
from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.judges.scorers.registry import MOST_TOGETHER, JudgeKind
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers, refusal
from judgegym.server.protocols.base import Adapter, ProtocolReply, RequestBody
from judgegym.server.protocols.nemo_gym import FAILURE, PolicyResponse, final_answer, mount_of_row

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


class CompareBody(RequestBody):
    """A conversation up to where the responses part, the responses, and what makes one good."""

    conversation_history: list[dict[str, object]]
    response_objs: list[PolicyResponse] = Field(max_length=256)
    principle: str | None = None
    judge_mount: str | None = None


class NemoGymCompare(Adapter[CompareBody]):
    """`POST /compare`."""

    name = "nemo_gym_compare"
    path = "/compare"
    body = CompareBody

    def check_judge(self, kind: JudgeKind) -> None:
        """Check that the judge compares."""
        if kind not in MOST_TOGETHER:
            others = ", ".join(MOST_TOGETHER)
            raise ValueError(f"/compare: the judge {kind} sees each response by itself; expected one of {others}")

    def items(self, body: CompareBody, raw: Mapping[str, JSON]) -> list[Item]:
        """One item with all responses; the principle is the criteria."""
        prompt = transcript([turn_of_item(turn) for turn in body.conversation_history])
        responses = tuple(final_answer(response.output) for response in body.response_objs)
        return [Item(prompt, responses, rubric=body.principle or None)] if responses else []

    def reply(
        self,
        body: CompareBody,
        raw: Mapping[str, JSON],
        results: Sequence[Sequence[ResponseScore]],
        answers: FailureAnswers,
    ) -> ProtocolReply:
        """Rewards in the order of the responses.

        Raises:
            RequestError: no response has a reward; or one has none, and that is to be told by HTTP.
        """
        of_all = results[0] if results else ()
        known = [None if result.is_failed else answers.number(result) for result in of_all]
        others = [reward for reward in known if reward is not None]
        failed = next((result for result in of_all if result.is_failed), None)
        if failed is not None and (answers.on_failure == "http" or not others):
            raise refusal(failed)
        mean = statistics.fmean(others) if others else 0.0
        rewards: list[JSON] = [mean if reward is None else reward for reward in known]
        metrics: dict[str, JSON] = {
            "mean_reward": mean,
            "std_reward": statistics.pstdev(others) if others else 0.0,
            "judge_failed": float(sum(result.is_failed for result in of_all)),
            "judge_calls": float(sum(result.judge_calls for result in of_all)),
        }
        compared: list[JSON] = [
            {
                **result.components,
                "response_i": place,
                "status": result.status,
                "judge_failed": result.is_failed,
                "explanation": result.explanation,
            }
            for place, result in enumerate(of_all)
        ]
        return ProtocolReply(
            {"rewards": rewards, "comparison_results": compared, "metrics": metrics},
            failed=None if failed is None else failed.status,
        )

    def mount_of(self, raw: Mapping[str, JSON]) -> str | None:
        """The body's `judge_mount`."""
        return mount_of_row(raw)
