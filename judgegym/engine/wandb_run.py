"""A run at Weights & Biases.

Guarantees: the run is opened before anything is registered or paid for; a problem is then an error
in one line, or, with `use_wandb=optional`, a warning, and the command continues without it. After
that no failure at Weights & Biases ends a command: it is logged once as a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judgegym.engine.settings import EnvConfig
from judgegym.judges.config.extras import report_missing_extra
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

_LONGEST_ALERT = 64
_SLOW_S = 10.0


class WandbRun:
    """A run at Weights & Biases, or none.

    Without one nothing is logged. Weights & Biases works in a thread, so that it blocks nothing.
    """

    def __init__(self, run: Any = None) -> None:
        """Log to `run`."""
        self._run = run
        self._has_warned = False

    def __bool__(self) -> bool:
        """Return whether there is a run."""
        return self._run is not None

    @classmethod
    async def open(cls, settings: EnvConfig, name: str, **options: Any) -> WandbRun:
        """Open a run, if `use_wandb` is on.

        Args:
            settings: the settings; their `wandb_name` overrides `name`.
            name: the run's name.
            options: further arguments of `wandb.init`.

        Raises:
            SettingsError: it cannot be opened, and is not optional.
        """
        if not settings.use_wandb:
            return cls()

        def start() -> Any:
            with report_missing_extra("wandb"):
                import wandb  # late: half a second

            return wandb.init(name=settings.wandb_name or name, **options)

        opening = asyncio.ensure_future(asyncio.to_thread(start))
        await asyncio.wait({opening}, timeout=_SLOW_S)
        if not opening.done():
            logger.warning(
                "waiting for Weights & Biases, at most until its own limit "
                "(WANDB_INIT_TIMEOUT, by default 90 s)"
            )
        try:
            return cls(await opening)
        except Exception as error:  # another's service: any fault of its start is one line
            problem = wire.shorten(" ".join(str(error).split()) or type(error).__name__)
            if settings.use_wandb != "optional":
                raise SettingsError(
                    f"--env.use_wandb: no run can be opened at Weights & Biases: {problem} (log in "
                    "with `wandb login` or WANDB_API_KEY, or keep the run on this machine with "
                    "WANDB_MODE=offline; --env.use_wandb=optional continues without it)"
                ) from error
            logger.warning(
                "no run can be opened at Weights & Biases; continuing without it: %s", problem
            )
            return cls()

    def rename(self, name: str) -> None:
        """Give the run another name."""
        if self._run is not None:
            self._run.name = name

    async def log(
        self, values: Mapping[str, JSON], *, table: Sequence[Sequence[object]] = (), **step: int
    ) -> None:
        """Log values, with the table `train/rollouts` (text and score), optionally at a `step`."""

        def log() -> None:
            import wandb  # late: half a second

            columns = ["text", "score"]
            logged: dict[str, Any] = {**values}
            if table:
                rows = [*map(list, table)]
                logged["train/rollouts"] = wandb.Table(columns=columns, data=rows)
            self._run.log(logged, **step)

        await self._try("does not log metrics", log)

    async def alert(self, title: str, text: str) -> None:
        """Send an alert, which Weights & Biases may send by e-mail."""
        short = title[:_LONGEST_ALERT]
        await self._try(
            "did not receive the alarm", lambda: self._run.alert(title=short, text=text)
        )

    async def finish(self) -> None:
        """End the run."""
        await self._try("did not end the run", lambda: self._run.finish())

    async def _try(self, problem: str, call: Callable[[], object]) -> None:
        if self._run is None:
            return
        try:
            await asyncio.to_thread(call)
        except Exception as error:  # noqa: BLE001  # another's service: the judgments are on disk
            if not self._has_warned:
                logger.warning("Weights & Biases %s: %s (logged once)", problem, error)
            self._has_warned = True
