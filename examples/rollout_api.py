"""A trainer's client of Atropos' rollout API on this machine: register, and take batches.

No proxy is used. Source: atroposlib 0.4.0, `api/server.py`: `POST /register` and `GET /batch`,
whose `batch` is null while there are too few groups. `/register-env` accepts environments after the
first `/batch`.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")

_TIMEOUT_S = 60.0
_START_S = 120.0
_POLL_S = 0.02
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Batch = list[dict[str, Any]]
"""The groups of a batch, as `example_trainer.data.pad_data_to_good_offset` takes them."""


class RolloutApiTimeout(Exception):
    """The rollout API did not answer, or had no batch, in time."""


def _never() -> bool:
    return False


class RolloutApi:
    """Calls a rollout API at a URL without a path; waiting ends once `unless` returns true."""

    def __init__(self, url: str) -> None:
        self.url = url

    def register(
        self, *, batch_size: int, max_tokens: int, steps: int, unless: Callable[[], bool] = _never
    ) -> None:
        """Register as the trainer; request a batch, so that the API accepts environments.

        Raises:
            NothingCame: it does not answer.
        """
        _await(self._answers, _START_S, "an answer of the rollout API", unless)
        body = {
            "wandb_group": "",
            "wandb_project": "",
            "batch_size": batch_size,
            "max_token_len": max_tokens,
            "checkpoint_dir": "",
            "save_checkpoint_interval": -1,
            "starting_step": 0,
            "num_steps": steps,
        }
        self._call("/register", body)
        self._call("/batch")

    def next_batch(self, deadline_s: float, *, unless: Callable[[], bool] = _never) -> Batch:
        """Wait for the next batch.

        Raises:
            NothingCame: there is none within the deadline.
        """
        return _await(self._batch, deadline_s, "a batch of the rollout API", unless)

    def queued(self) -> int:
        """Return the number of groups that wait for a batch."""
        return int(self._call("/status")["queue_size"])

    def _answers(self) -> bool:
        try:
            self._call("/info")
        except OSError:
            return False
        return True

    def _batch(self) -> Batch | None:
        return cast("Batch | None", self._call("/batch")["batch"])

    def _call(self, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}
        )
        with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
            return cast("dict[str, Any]", json.load(response))


def _await(
    ask: Callable[[], T | None], deadline_s: float, description: str, unless: Callable[[], bool]
) -> T:
    """Call `ask` until it returns something."""
    end = time.monotonic() + deadline_s
    while True:
        is_last = (
            unless() or time.monotonic() >= end
        )  # decided before the call, so that a value that comes meanwhile is not lost
        value = ask()
        if value:
            return value
        if is_last:
            raise RolloutApiTimeout(f"{description} did not come")
        time.sleep(_POLL_S)
