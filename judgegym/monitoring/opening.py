"""Opening of the monitor of a training run or of a server's judge, with its gold judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.scorers.opening import open_judge
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.budget import Budget
from judgegym.monitoring.gold import GoldJudge
from judgegym.monitoring.monitor import MonitorTarget, RaiseAlarm, TrainingMonitor, WriteLine
from judgegym.monitoring.settings import MonitorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorContext:
    """Context of a monitor.

    Attributes:
        session: the session of the gold judge's requests.
        budget: the gold judge's budget.
        folder: the folder of the run, in which a resumed run has earlier lines; `None`: nothing is
            written.
        section: the prefix of its settings' names in messages: `env.` or nothing.
        stand_in: the settings of the training judge, if it is the stand-in: then the gold judge is,
            too.
        retry_delay: the first pause of the gold judge's client between two attempts, in seconds.
        make: opens the gold judge's client, as `ChatClient` does.
    """

    session: aiohttp.ClientSession
    budget: Budget
    folder: Path | None
    section: str = ""
    stand_in: JudgeSettings | None = None
    retry_delay: float = 1.0
    make: Callable[..., ChatClient] = ChatClient


def open_monitor(
    settings: MonitorSettings,
    target: MonitorTarget,
    context: MonitorContext,
    *,
    write: WriteLine,
    on_alarm: RaiseAlarm = lambda alarm: None,
) -> TrainingMonitor:
    """Open a monitor, which continues from the lines of an earlier process.

    Args:
        settings: the settings of the monitor.
        target: the subject of the monitor.
        context: the context of the monitor.
        write: appends a line to `monitor.jsonl`.
        on_alarm: called once for each alarm, after it is written and logged.

    Raises:
        SettingsError: the gold judge's API key is missing, or its model's price is unknown and
            limited.
    """
    gold = open_gold(settings, target.seed, context)
    monitor = TrainingMonitor(settings, target, write=write, on_alarm=on_alarm, gold=gold)
    monitor.begin(context.folder)
    return monitor


def open_gold(settings: MonitorSettings, seed: int, context: MonitorContext) -> GoldJudge | None:
    """Open the gold judge, if the settings name one.

    Its client is separate from the run's judges: nothing waits for it, no metric counts its calls.

    Raises:
        SettingsError: see `open_monitor`.
    """
    if not settings.gold_judge:
        return None
    scorer = settings.gold_scorer()
    identity = ""
    stand_in = context.stand_in
    if stand_in is not None:
        scorer = scorer.replace_endpoint(stand_in.judge_base_url, stand_in.judge_model_name)
        identity = STAND_IN_IDENTITY
    chat = scorer.chat_settings(
        retry_delay=context.retry_delay, identity=identity, section=f"{context.section}gold_judge."
    )
    client = context.make(chat, session=context.session, budget=context.budget)
    return GoldJudge(
        settings,
        open_judge(scorer, client),
        name=scorer.judge_name(),
        seed=seed,
        close=client.close,
    )
