"""Checkpoints of an environment, in Atropos' place: `<checkpoint_dir>/env_checkpoints/<name>/step-<n>.json`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from judgegym.engine.runs.disk import write_atomic
from judgegym.environments.training.rollout_api import Registration
from judgegym.llm import wire
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)


class Checkpoints:
    """Saves and loads the state that a restarted environment resumes from."""

    def __init__(self, registration: Registration, desired_name: str) -> None:
        """Use the directory of the trainer's registration; without one, save nothing.

        Args:
            registration: the API's; its name is `desired_name` and a number, a new one for each registration.
            desired_name: the name that was asked for.
        """
        directory = registration.checkpoint_dir
        self._all = Path(directory) / "env_checkpoints" if directory else None
        self._folder = self._all / registration.name if self._all is not None else None
        self._name = desired_name
        self._unsaved: tuple[int, Mapping[str, JSON]] | None = None
        self._is_refused = False

    @property
    def folder(self) -> Path | None:
        """Where this registration's checkpoints are; `None` if nothing is saved."""
        return self._folder

    def save(self, step: int, state: Mapping[str, JSON]) -> None:
        """Save the state of a step. If the disk refuses it, training goes on, and `retry` writes it later."""
        self._unsaved = (step, state)
        self.retry()

    def retry(self) -> None:
        """Write the latest state, if it is not written yet; warn once if the disk refuses it."""
        if self._folder is None or self._unsaved is None:
            return
        step, state = self._unsaved
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self._folder / f"step-{step}.json", wire.dumps_readable(state))
        except OSError as error:
            if not self._is_refused:
                logger.warning("no checkpoint in %s (it is tried again): %s", self._folder, error.strerror)
            self._is_refused = True
        else:
            self._unsaved, self._is_refused = None, False

    def load(self, step: int) -> Mapping[str, JSON] | None:
        """Return the state of the latest readable checkpoint at or before `step`, or `None`.

        If this registration has none, take an earlier one's: the API gives a restarted environment a new number.
        """
        for _, _, path in sorted(self._found(step), reverse=True):
            try:
                state = wire.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                logger.warning("%s cannot be read: %s", path, error)
                continue
            if isinstance(state, Mapping):
                return state
        return None

    def _found(self, latest: int) -> list[tuple[int, float, Path]]:
        """Return step, time and path of the checkpoints of this registration, or else of earlier ones."""
        if self._all is None or self._folder is None or not self._all.is_dir():
            return []
        number = re.compile(rf"{re.escape(self._name)}_[0-9]+")
        earlier = [folder for folder in self._all.iterdir() if number.fullmatch(folder.name)]
        for folders in ([self._folder], earlier):
            paths = [path for folder in folders for path in folder.glob("step-*.json")]
            steps = [(path.stem.removeprefix("step-"), path.stat().st_mtime, path) for path in paths]
            found = [(int(step), time, path) for step, time, path in steps if step.isdigit() and int(step) <= latest]
            if found:
                return found
        return []
