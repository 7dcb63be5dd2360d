"""An environment's checkpoints, where Atropos keeps them: `<checkpoint_dir>/env_checkpoints/<name>/step-<n>.json`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from environments.rollout_api import Registration
from environments.runs import replace
from judges import wire
from judges.wire import JSON

logger = logging.getLogger(__name__)


class Checkpoints:
    """Saves and finds what a restarted environment needs."""

    def __init__(self, registration: Registration) -> None:
        """Look where the trainer's registration says; without a directory nothing is kept."""
        directory = registration.checkpoint_dir
        self._folder = Path(directory) / "env_checkpoints" / registration.name if directory else None

    def save(self, step: int, state: Mapping[str, JSON]) -> None:
        """Keep the state of a step. A directory that cannot be written to is warned of: training goes on without."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace(self._folder / f"step-{step}.json", wire.dumps_readable(state))
        except OSError as error:
            logger.warning("no checkpoint in %s: %s", self._folder, error.strerror)

    def load(self, step: int) -> Mapping[str, JSON] | None:
        """The state of the latest checkpoint at or before `step`, `None` if there is none that can be read."""
        for _, path in sorted(self._found(step), reverse=True):
            try:
                state = wire.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                logger.warning("%s cannot be read: %s", path, error)
                continue
            if isinstance(state, Mapping):
                return state
        return None

    def _found(self, latest: int) -> list[tuple[int, Path]]:
        if self._folder is None or not self._folder.is_dir():
            return []
        steps = [(path.stem.removeprefix("step-"), path) for path in self._folder.glob("step-*.json")]
        return [(int(step), path) for step, path in steps if step.isdigit() and int(step) <= latest]
