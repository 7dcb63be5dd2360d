"""The monitor of `serve` and `process`: what it sees of a judged group, and the gold judge with a client of its own.

The gold judge's client is none of the run's judges: nobody waits for its endpoint, and its calls are in no metric of
the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from judgegym.data.rows import Task
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.ledger import LedgerOfRow
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.judges.aspects.judge import PanelDetail
from judgegym.judges.checklists.judge import ChecklistDetail
from judgegym.judges.config.judge import STAND_IN_IDENTITY
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.judges.core.tasks import JudgeTask, TaskJudge
from judgegym.judges.scorers.registry import open_judge
from judgegym.llm.budget import Budget
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import RowLedger
from judgegym.llm.usage import Usage
from judgegym.monitoring.alarms import Alarm
from judgegym.monitoring.group import MonitorGroup, MonitorRollout, verdicts_in
from judgegym.monitoring.line_file import earlier_lines
from judgegym.monitoring.live_file import LIVE, MONITOR, LiveFile, Status
from judgegym.monitoring.monitor import MonitorTarget, TrainingMonitor
from judgegym.monitoring.webhook import Webhook


def open_monitor(
    env: JudgedEnv[Any, Any, Any],
    run: RunDirectory,
    on_alarm: Callable[[Alarm], None] = lambda alarm: None,
    *,
    every: int | None = None,
) -> TrainingMonitor:
    """Open the monitor of a run.

    Args:
        env: the environment.
        run: its directory, in which a run that is resumed has the lines of before.
        on_alarm: called at each alarm.
        every: write a line each time that so many groups are judged; `None`: where `end_step` says.

    Raises:
        SettingsError: the gold judge's API key is missing, the price of its model is not known and limited, or the
            webhook's variable holds no URL.
    """
    config = env.config
    gold, gold_name = _open_gold(env) if config.gold_judge else (None, None)
    webhook = None
    if config.alarm_webhook_env is not None:
        webhook = Webhook(
            config.alarm_webhook_env, env.clients.session, run=run.path.name, setting="--env.alarm_webhook_env"
        )
    watched = MonitorTarget(
        config.seed,
        judge=config.judge_run_name(),
        gold=gold,
        gold_name=gold_name,
        every=every,
    )
    monitor = TrainingMonitor(config, watched, write=run.writer(MONITOR).append, on_alarm=on_alarm, webhook=webhook)
    monitor.begin(earlier_lines(run.path / MONITOR))
    return monitor


def open_live_file(monitor: TrainingMonitor, run: RunDirectory, status: Status) -> LiveFile:
    """Open the file of a run that says how it stands, and has the groups that a page shows."""
    live = LiveFile(run.path / LIVE, {"": monitor.kept}, status, write_atomic)
    monitor.groups = max(monitor.groups, monitor.kept.last_number)  # numbers are those of one group each
    return live


def _open_gold(env: JudgedEnv[Any, Any, Any]) -> tuple[TaskJudge, str]:
    config, settings = env.config, env.config.gold_scorer()
    is_stand_in = "judge" in env.settings.stand_ins
    if is_stand_in:
        settings = settings.model_copy(
            update={
                "judge_base_url": config.judge_base_url,
                "judge_model_name": config.judge_model_name,
                "judge_api_key": None,
            }
        )
    chat = settings.chat_settings(
        retry_delay=config.retry_delay, identity=STAND_IN_IDENTITY if is_stand_in else "", section="env.gold_judge."
    )
    budget = Budget(config.gold_budget_calls, config.gold_budget_usd)
    return open_judge(settings, ChatClient(chat, session=env.clients.session, budget=budget)), settings.judge_name()


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
            _score(env, group, judgment),
            reward,
            judgment.status.value,
            judgment.label,
            judgment.explanation,
            rollout.completion.thinking_fault,
            rollout.completion.finish_reason,
            len(rollout.sequence.completion),
            judgment.suspects,
            sum(call.value is None and not call.failed for call in judgment.calls),
            judgment.detail.contributions if isinstance(judgment.detail, ScoreParts) else {},
            _criteria(judgment.detail),
        )
        for rollout, judgment, reward in zip(group.rollouts, group.judgments, group.rewards, strict=True)
    )
    judge_calls = [call for judgment in group.judgments for call in judgment.calls]
    spent = sum((call.run.usage for call in judge_calls), Usage()).cost
    costs = {"judge": spent, "policy": group.policy_run.usage.cost}
    ledger = calls.key[1] if isinstance(calls, LedgerOfRow) else None
    return MonitorGroup(number, step, task.uid, judged, rollouts, len(judge_calls), costs, ledger)


def _score(env: JudgedEnv[Any, Any, Any], group: JudgedGroup, judgment: Judgment[Any]) -> float | None:
    """Return the score from 0 to 1: the scale of every gold judge."""
    if judgment.score is None or group.together is not None:
        return judgment.score
    low, high = env.reward_range
    return min(1.0, max(0.0, (env.reward(judgment) - low) / (high - low)))


def _criteria(detail: object) -> Mapping[str, float]:
    """Return the verdicts of a judge that has several, from 0 to 1."""
    if isinstance(detail, ChecklistDetail):
        return {one.name: one.value for one in detail.criteria if one.value is not None}
    if isinstance(detail, PanelDetail):
        return {one.aspect: float(one.yes) for one in detail.aspects if one.yes is not None}
    return verdicts_in(detail.parts) if isinstance(detail, ScoreParts) else {}
