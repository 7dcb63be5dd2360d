"""Log the metrics of training, to the log and to Weights & Biases, with a table of rollouts as Atropos has it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from judgegym.engine.metrics import Metrics
from judgegym.engine.settings import EnvConfig
from judgegym.environments.rollouts.scored_group import GroupRewards, JudgedGroup
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from judgegym.environments.rollouts.retokenize import Retokenizer

logger = logging.getLogger(__name__)

_SHOWN = ("reward_mean", "judge_error_rate", "groups_without_signal_rate", "sequences_per_second")


class TrainingLog:
    """Logs metrics by step. Weights & Biases runs in a thread, so that it does not block the rollouts."""

    def __init__(self, config: EnvConfig, retokenizer: Retokenizer, *, headlines: Sequence[str]) -> None:
        """Set up the log; `headlines` are the environment's metrics that each line begins with."""
        self._config = config
        self._shown = (*headlines, *_SHOWN)
        self._retokenizer = retokenizer
        self._rollouts: deque[list[tuple[JudgedGroup[Any], GroupRewards, int]]] = deque(
            maxlen=config.num_rollouts_to_keep
        )
        self._run: Any = None

    async def open(self, name: str, place: tuple[str, str], settings: Mapping[str, JSON]) -> None:
        """Open a run at Weights & Biases, if `use_wandb` is on, in the trainer's project and group."""
        if self._config.use_wandb:
            self._run = await asyncio.to_thread(_open_wandb, self._config.wandb_name or name, place, settings)

    def keep(self, group: JudgedGroup[Any], scores: GroupRewards) -> None:
        """Keep `num_rollouts_per_group_for_logging` rollouts of a group (−1: all) for the next table."""
        kept = self._config.num_rollouts_per_group_for_logging
        numbers = range(len(group.rollouts) if kept == -1 else min(kept, len(group.rollouts)))
        self._rollouts.append([(group, scores, number) for number in numbers])

    async def log(self, step: int, metrics: Metrics) -> None:
        """Log the metrics of a step; with those of training, the table of rollouts."""
        values = {name.partition("/")[2]: value for name, value in metrics.values.items()}
        logger.info(
            "step %d: %s", step, ", ".join(f"{name} {values[name]:.3f}" for name in self._shown if name in values)
        )
        for name, reason in metrics.left_out.items():
            logger.debug("%s is left out: %s", name, reason)
        # Only training has rollouts. Take them before the first await: later ones belong to the next table.
        is_training = any(name.startswith("train/") for name in metrics.values)
        taken = list(self._rollouts) if is_training else []
        if is_training:
            self._rollouts.clear()
        if self._run is not None:
            shown = [rollout for group in taken for rollout in group]
            texts = await self._retokenizer.decode(
                [group.rollouts[number].sequence.tokens for group, _, number in shown]
            )
            rows = [(text, scores.values[number]) for text, (_, scores, number) in zip(texts, shown, strict=True)]
            await asyncio.to_thread(_log_wandb, self._run, step, metrics, rows)

    async def close(self) -> None:
        """Close the run."""
        if self._run is not None:
            await asyncio.to_thread(self._run.finish)


def _open_wandb(name: str, place: tuple[str, str], settings: Mapping[str, JSON]) -> Any:
    import wandb  # late: half a second

    group, project = place
    return wandb.init(name=name, project=project or None, group=group or None, config=dict(settings))


def _log_wandb(run: Any, step: int, metrics: Metrics, rows: list[tuple[str, float]]) -> None:
    import wandb  # late: half a second

    values: dict[str, Any] = dict(metrics.values)
    if rows:
        values["train/rollouts"] = wandb.Table(columns=["text", "score"], data=[list(row) for row in rows])
    run.log(values, step=step)
