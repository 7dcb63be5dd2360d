"""Open the monitor of a training run, or of a judge of the reward server, with its gold judge."""

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
    """Where a monitor works.

    Attributes:
        session: sends the gold judge's requests.
        budget: of the gold judge.
        folder: of the run, in which one that is resumed has the lines of before; `None`: nothing is
            written.
        section: what stands before the names of its settings, for messages: `env.` or nothing.
        stand_in: the settings of the training judge, if that is the stand-in: the gold judge is,
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
    """Open a monitor, which goes on from what an earlier process has written.

    Args:
        settings: how it watches.
        target: what it watches.
        context: where it works.
        write: appends a line to `monitor.jsonl`.
        on_alarm: called once for each alarm, after it is written and logged.

    Raises:
        SettingsError: the gold judge's API key is missing, or the price of its model is not known
            and limited.
    """
    gold = open_gold(settings, target.seed, context)
    monitor = TrainingMonitor(settings, target, write=write, on_alarm=on_alarm, gold=gold)
    monitor.begin(context.folder)
    return monitor


def open_gold(settings: MonitorSettings, seed: int, context: MonitorContext) -> GoldJudge | None:
    """Open the gold judge, if the settings name one.

    Its client is none of the run's judges: nobody waits for it, no metric has its calls.

    Raises:
        SettingsError: as of `open_monitor`.
    """
    if not settings.gold_judge:
        return None
    scorer, identity, stand_in = settings.gold_scorer(), "", context.stand_in
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
