"""Complete a sample with what people who read the run need, and programs that do not know its environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judgegym.data.rows import TaskT
from judgegym.engine.metrics import RatioRecorder
from judgegym.engine.records import Sample
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.evaluate.metrics import counts


def readable(env: JudgedEnv[Any, TaskT, DetailT], task: TaskT, sample: Sample[DetailT]) -> Sample[DetailT]:
    """Return the sample with its share of the headline, the row's texts and gold labels, and the points by order."""
    headline = RatioRecorder(env.headline[0])
    if counts(sample.status, policy_is_judge=env.policy_is_judge):
        env.record_metrics(headline, task, sample)
    orders = {} if sample.judgment is None else env.orders(sample.judgment)
    return replace(
        sample, headline=headline.share, texts=env.texts(task), orders=orders, gold=tuple(env.gold(task, sample))
    )
