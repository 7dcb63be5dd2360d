"""Monitor of `serve` and `process`: its context, and the view of a judged group."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from judgegym.data.rows import Task
from judgegym.engine.completions import render_for_judge
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import DiskRowLedger
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import compute_unit_reward
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.judges.aspects.judge import PanelDetail
from judgegym.judges.checklists.judge import ChecklistDetail
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.ledger import RowLedger
from judgegym.llm.usage import Usage
from judgegym.monitoring.alarms import Alarm
from judgegym.monitoring.group import MonitorGroup, MonitorRollout, select_verdicts
from judgegym.monitoring.live_file import MONITOR
from judgegym.monitoring.monitor import MonitorTarget, TrainingMonitor
from judgegym.monitoring.opening import MonitorContext, open_monitor


def open_run_monitor(
    env: JudgedEnv[Any, Any, Any],
    run: RunDirectory,
    on_alarm: Callable[[Alarm], None] = lambda alarm: None,
    *,
    every: int | None = None,
) -> TrainingMonitor:
    """Open the monitor of a run.

    Args:
        env: the environment.
        run: the run directory; of a resumed run it has the earlier lines.
        on_alarm: called at each alarm.
        every: write a line after this many judged groups; `None`: at each `end_step`.

    Raises:
        SettingsError: see `open_monitor`.
    """
    config, context = env.config, make_monitor_context(env, run.path)
    cascade = None
    if isinstance(config, AnyJudgeSettings):
        cascade = config.match_settings(CascadeSettings)
    target = MonitorTarget(config.seed, config.judge_run_name(), every, cascade=cascade)
    return open_monitor(
        config, target, context, write=run.writer(MONITOR).append, on_alarm=on_alarm
    )


def make_monitor_context(env: JudgedEnv[Any, Any, Any], folder: Path | None) -> MonitorContext:
    """Return the context of a monitor that writes to a folder."""
    config = env.config
    return MonitorContext(
        session=env.clients.session,
        budget=config.gold_budget(),
        folder=folder,
        section="env.",
        stand_in=config if "judge" in env.settings.stand_ins else None,
        retry_delay=config.retry_delay,
    )


def make_monitor_group(
    env: JudgedEnv[Any, Any, Any],
    task: Task,
    group: JudgedGroup,
    *,
    number: int,
    step: int,
    calls: RowLedger | None = None,
) -> MonitorGroup:
    """Return the monitors' view of a group."""
    texts = env.texts(task)
    context = texts.get("context", texts.get("contexts"))  # as aspect critique calls it
    judge_task = JudgeTask(
        task.question, (), texts.get("reference"), texts.get("rubric"), context=context
    )
    rollouts = tuple(
        MonitorRollout(
            render_for_judge(rollout.completions),
            _unit_score(env, group, judgment),
            reward,
            judgment.status.value,
            judgment.label,
            judgment.explanation,
            rollout.completion.thinking_fault,
            rollout.completion.finish_reason,
            rollout.sampled_tokens,
            judgment.suspects,
            sum(call.value is None and not call.failed for call in judgment.calls),
            judgment.detail.contributions if isinstance(judgment.detail, ScoreParts) else {},
            _read_criteria(env, judgment),
        )
        for rollout, judgment, reward in zip(
            group.rollouts, group.judgments, group.rewards, strict=True
        )
    )
    judge_calls = list(chain.from_iterable(judgment.calls for judgment in group.judgments))
    spent = sum((call.run.usage for call in judge_calls), Usage()).cost
    costs = {"judge": spent, "policy": group.policy_run.usage.cost}
    if group.user_runs:
        costs["user"] = sum((run.usage for run in group.user_runs), Usage()).cost
    ledger = calls.key[1] if isinstance(calls, DiskRowLedger) else None
    return MonitorGroup(
        number, step, task.uid, judge_task, rollouts, len(judge_calls), costs, ledger
    )


def _unit_score(
    env: JudgedEnv[Any, Any, Any], group: JudgedGroup, judgment: Judgment[Any]
) -> float | None:
    """Return the score scaled to 0 to 1, like a gold judge's."""
    if judgment.score is None or group.comparison is not None:
        return judgment.score
    return compute_unit_reward(env, judgment)


def _read_criteria(env: JudgedEnv[Any, Any, Any], judgment: Judgment[Any]) -> Mapping[str, float]:
    """Return the verdicts of a judge that has several, from 0 to 1.

    Scores of turns are scaled, too.
    """
    detail = judgment.detail
    if isinstance(detail, ChecklistDetail):
        return {
            criterion.name: criterion.value
            for criterion in detail.criteria
            if criterion.value is not None
        }
    if isinstance(detail, PanelDetail):
        return {
            aspect.aspect: float(aspect.yes) for aspect in detail.aspects if aspect.yes is not None
        }
    if judgment.score is None or not isinstance(detail, ScoreParts):
        return {}
    turns = {name: score for name, score in detail.parts.items() if re.fullmatch(r"turn_\d+", name)}
    scores = {
        name: compute_unit_reward(env, replace(judgment, score=score))
        for name, score in turns.items()
    }
    return select_verdicts({**detail.parts, **scores})
