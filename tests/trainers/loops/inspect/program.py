"""In inspect's Python: run an evaluation, and print what its log file holds. Arguments: what to do, as JSON."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from inspect_ai import Task, eval
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log

import judgegym_trainers.inspect_ai as ours

MODEL = "openai-api/stub/policy"
LIMITS = {"model": MODEL, "display": "none", "max_retries": 0}


def shown(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def summary(path: str) -> dict[str, Any]:
    log = read_eval_log(path)
    results = log.results.scores if log.results is not None else []
    return {
        "path": path,
        "task": log.eval.task,
        "status": log.status,
        "error": log.error.message if log.error is not None else None,
        "samples": [
            {
                "id": sample.id,
                "epoch": sample.epoch,
                "asked": [[message.role, message.text] for message in sample.messages[:-1]],
                "completion": sample.output.completion,
                "scores": {
                    name: {
                        **score.model_dump(exclude={"history", "value"}),
                        "value": shown(score.value),
                    }
                    for name, score in (sample.scores or {}).items()
                },
            }
            for sample in log.samples or []
        ],
        "results": {
            score.name: {
                "scored": score.scored_samples,
                "unscored": score.unscored_samples,
                **{name: shown(metric.value) for name, metric in score.metrics.items()},
            }
            for score in results
        },
    }


def task_of(todo: dict[str, Any]) -> Any:
    if "code" in todo:
        space: dict[str, Any] = {}
        exec(todo["code"], space)
        return space["task"]
    if "task" in todo:
        return todo["task"]
    scorers = [getattr(ours, name)(**arguments) for name, arguments in todo.get("scorers", [])]
    return Task(dataset=[Sample(**row) for row in todo["rows"]], scorer=scorers or None)


def error_of(name: str, arguments: dict[str, Any]) -> str:
    try:
        getattr(ours, name)(**arguments)
    except PrerequisiteError as error:
        return str(error.message)
    return "no error"


def main() -> None:
    todo = json.loads(sys.argv[1])
    if "errors" in todo:
        print(json.dumps([error_of(name, arguments) for name, arguments in todo["errors"]]))
        return
    paths = todo.get("read")
    if paths is None:
        logs = eval(
            task_of(todo),
            task_args=todo.get("task_args", {}),
            epochs=todo.get("epochs"),
            limit=todo.get("limit"),
            log_dir=todo["log_dir"],
            fail_on_error=todo.get("fail_on_error", True),
            **LIMITS,
        )
        paths = [log.location for log in logs]
    print(json.dumps([summary(path) for path in paths]))


main()
