"""What `metrics.json` holds, in the structure that Atropos writes.

Guarantee: the file can be cited alone. It says when and with which version it was measured, on which data, by which
protocol and prompts, and who judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from environments.base import DetailT, JudgedEnv
from environments.data.provenance import DatasetRead
from environments.data.rows import TaskT
from environments.evaluate.row import RowRunner
from environments.metrics import Metrics
from environments.terminal import Table
from judges.config.fields import group_of
from judges.config.text import prompt_digest
from judges.config.version import package_version
from judges.llm.wire import JSON

_LONGEST_VALUE = 200
_SAID_ELSEWHERE = ("env.seed", "env.judge_model_name", "openai.model_name")


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """What was evaluated.

    Attributes:
        selected: the number of rows.
        digest: a digest of everything that the judge saw of them.
        datasets: the datasets that were read.
        seconds: how long this command evaluated; of a resumed run, the last part alone.
    """

    selected: int
    digest: str
    datasets: Sequence[DatasetRead]
    seconds: float


def metrics_file(
    env: JudgedEnv[Any, TaskT, DetailT],
    runner: RowRunner[TaskT, DetailT],
    rows: EvaluatedRows,
    metrics: Metrics,
    *,
    notices: Sequence[str],
    tables: Sequence[Table] = (),
) -> Mapping[str, JSON]:
    """The content of `metrics.json`, with the metrics that were left out and why.

    Args:
        env: the environment.
        runner: knows who was asked.
        rows: the rows that were evaluated.
        metrics: the metrics.
        notices: what a reader of the numbers must know.
        tables: further tables of the environment.
    """
    config = env.config
    sampling: dict[str, JSON] = {}  # only of the models that this run asks
    if runner.asks_policy:
        sampling |= {"temperature": config.eval_temperature, "max_tokens": config.eval_max_tokens}
    if not env.policy_is_judge:
        sampling |= {"judge_temperature": config.judge_temperature, "judge_max_tokens": config.judge_max_tokens}
    general: dict[str, JSON] = {
        "environment": env.name,
        "model_name": runner.subject,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "judgegym_version": package_version(),
        "total_evaluation_time_seconds": str(rows.seconds),
        "generation_parameters": sampling,
        "judge_model_name": runner.judge_name,
        "judge_prompt_digests": dict(config.prompt_digests()),
        "datasets": [dataset.to_json() for dataset in rows.datasets],
        "rows": {"selected": rows.selected, "digest": rows.digest},
        "protocol": protocol(env),
        "seed": config.seed,
        "headline": f"eval/{env.headline[0]}",
        "headline_words": env.headline[1],
        "metric_notes": {f"eval/{name}": note for name, note in env.metric_notes.items()},
        "notices": list(notices),
        "left_out": dict(metrics.left_out),
        "unknown": dict(metrics.unknown),
    }
    if runner.answers_of is not None:
        general["answers_of"] = runner.answers_of
    if tables:
        general["tables"] = [
            {"title": table.title, "header": list(table.header), "rows": [list(row) for row in table.rows]}
            for table in tables
        ]
    values = metrics.to_json()
    return {"config_general": general, "results": {f"atropos|{env.name}_eval|0": values, "all": values}}


def protocol(env: JudgedEnv[Any, Any, Any]) -> dict[str, JSON]:
    """The settings that determine the results, without data and models; a long text is its digest."""
    config_type = type(env.config)
    data = {f"env.{name}" for name in config_type.model_fields if group_of(config_type, name) == "data"}
    settings = env.settings.matters()
    return {
        name: prompt_digest(value) if isinstance(value, str) and len(value) > _LONGEST_VALUE else value
        for name, value in settings.items()
        if name not in data and name not in _SAID_ELSEWHERE and value is not None
    }
