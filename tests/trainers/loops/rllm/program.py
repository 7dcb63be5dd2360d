"""In rLLM's Python: run its evaluation with our evaluators, and print what it keeps. Arguments: what to do, as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from agent import solver
from rllm.cli.eval import _dict_rows_to_tasks
from rllm.eval.evaluator_loader import load_evaluator
from rllm.eval.reward_fns._helpers import extract_answer_text
from rllm.eval.runner import run_dataset
from rllm.trainer.algorithms.transform import _build_trajectory_groups


async def evaluated(
    rows: list[Any], evaluator: Any, base_url: str, attempts: int
) -> dict[str, Any]:
    kept: dict[int, Any] = {}
    result, surviving = await run_dataset(
        _dict_rows_to_tasks(rows),
        solver,
        base_url,
        "policy",
        evaluator=evaluator,
        attempts=attempts,
        on_episode_complete=kept.__setitem__,
    )
    groups = _build_trajectory_groups(list(kept.values()))
    return {
        "items": [
            {
                "reward": item.reward,
                "is_correct": item.is_correct,
                "error": item.error,
                "signals": item.signals,
                "answer": extract_answer_text(kept[place]),
                "rewards": [trajectory.reward for trajectory in kept[place].trajectories],
                "metadata": kept[place].metadata,
                "row": kept[place].task["id"],
            }
            for place, item in enumerate(result.items)
        ],
        "errors": result.errors,
        "averages": result.signal_averages,
        "surviving": len(surviving),
        "grouped": [[trajectory.reward for trajectory in group.trajectories] for group in groups],
    }


async def main() -> None:
    todo, answers = json.loads(sys.argv[1]), []
    for run in todo["runs"]:
        rows = run.get("rows")
        if "code" in run:
            space: dict[str, Any] = {}
            exec(run["code"], space)
            evaluator, rows = space["evaluator"], space["rows"]
        else:
            os.environ["JUDGEGYM_RLLM"] = json.dumps(run["settings"])
            try:
                evaluator = load_evaluator(run["evaluator"])
            except TypeError as error:
                answers.append(str(error))
                continue
        answers.append(await evaluated(rows, evaluator, todo["base_url"], run.get("attempts", 1)))
    print()  # after what rLLM has printed on its last line
    print(json.dumps(answers))


asyncio.run(main())
