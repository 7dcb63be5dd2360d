"""The monitor of `serve` and `process`: what it sees of a judged group, and the gold judge with a client of its own.

The gold judge's client is none of the run's judges: nobody waits for its endpoint, and its calls are in no metric of
the judge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judgegym.data.rows import Task
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.ledger import LedgerOfRow
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.judges.config.judge import STAND_IN_IDENTITY
from judgegym.judges.core.judgment import ScoreParts
from judgegym.judges.core.tasks import JudgeTask, TaskJudge
from judgegym.judges.scorers.registry import open_judge
from judgegym.llm.budget import Budget
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import RowLedger
from judgegym.monitoring.alarms import Alarm
from judgegym.monitoring.group import MonitorGroup, MonitorRollout
from judgegym.monitoring.live_file import LIVE, MONITOR, LiveFile, Status
from judgegym.monitoring.monitor import TrainingMonitor


def open_monitor(
    env: JudgedEnv[Any, Any, Any], run: RunDirectory, on_alarm: Callable[[Alarm], None]
) -> TrainingMonitor:
    """Open the monitor of a run.

    Raises:
        SettingsError: the gold judge's API key is missing, or the price of its model is not known and limited.
    """
    config = env.config
    gold = _open_gold(env) if config.gold_judge else None
    return TrainingMonitor(config, seed=config.seed, gold=gold, write=run.writer(MONITOR).append, on_alarm=on_alarm)


def open_live_file(monitor: TrainingMonitor, run: RunDirectory, status: Status) -> LiveFile:
    """Open the file of a run that says how it stands, and has the groups that a page shows."""
    return LiveFile(run.path / LIVE, monitor.kept, status, write_atomic)


def _open_gold(env: JudgedEnv[Any, Any, Any]) -> TaskJudge:
    config, settings = env.config, env.config.gold_scorer()
    is_stand_in = "judge" in env.settings.stand_ins
    if is_stand_in:
        settings = settings.model_copy(update={"judge_base_url": config.judge_base_url, "judge_api_key": None})
    chat = settings.chat_settings(
        retry_delay=config.retry_delay, identity=STAND_IN_IDENTITY if is_stand_in else "", section="env.gold_judge."
    )
    budget = Budget(config.gold_budget_calls, config.gold_budget_usd)
    return open_judge(settings, ChatClient(chat, session=env.clients.session, budget=budget))


def monitor_group(
    env: JudgedEnv[Any, Any, Any],
    task: Task,
    group: JudgedGroup,
    *,
    number: int,
    step: int,
    calls: RowLedger | None = None,
) -> MonitorGroup:
    """Return what the monitors see of a group."""
    texts = env.texts(task)
    judged = JudgeTask(
        task.question,
        (),
        reference=texts.get("reference"),
        rubric=texts.get("rubric"),
        context=texts.get("context"),
    )
    rollouts = tuple(
        MonitorRollout(
            rollout.completion.answer,
            judgment.score,
            reward,
            judgment.status.value,
            judgment.label,
            judgment.explanation,
            rollout.completion.thinking_fault,
            rollout.completion.finish_reason,
            len(rollout.sequence.completion),
            judgment.suspects,
            sum(call.value is None for call in judgment.calls),
            judgment.detail.contributions if isinstance(judgment.detail, ScoreParts) else {},
        )
        for rollout, judgment, reward in zip(group.rollouts, group.judgments, group.rewards, strict=True)
    )
    ledger = calls.key[1] if isinstance(calls, LedgerOfRow) else None
    return MonitorGroup(number, step, task.uid, judged, rollouts, ledger)
