"""The trainer's side of Atropos' rollout API: register, and take batches.

Source: atroposlib 0.4.0, `api/server.py`: `POST /register` and `GET /batch`, whose `batch` is null while there are not
enough groups. `/register-env` lets environments in after the first `/batch`.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any, cast

_TIMEOUT_S = 60.0
_START_S = 120.0
_POLL_S = 0.02

Batch = list[dict[str, Any]]
"""The groups of a batch as the API gives them, and as `example_trainer.data.pad_data_to_good_offset` takes them."""


class RolloutApi:
    """Calls a rollout API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def register(self, *, batch_size: int, max_tokens: int, steps: int) -> None:
        """Register as the trainer, as soon as the API answers; then ask for a batch, so that environments are let in.

        Raises:
            TimeoutError: it does not answer.
        """
        self._await_answer()
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

    def _await_answer(self) -> None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            try:
                self._call("/info")
            except urllib.error.URLError:
                time.sleep(_POLL_S)
            else:
                return
        raise TimeoutError(f"the rollout API does not answer within {_START_S:.0f} s")

    def next_batch(self, deadline_s: float) -> Batch:
        """Wait for the next batch.

        Raises:
            TimeoutError: there is none within the deadline.
        """
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            batch = self._call("/batch")["batch"]
            if batch:
                return cast(Batch, batch)
            time.sleep(_POLL_S)
        raise TimeoutError(f"the rollout API had no batch within {deadline_s:.0f} s")

    def queued(self) -> int:
        """Return how many groups wait for a batch."""
        return int(self._call("/status")["queue_size"])

    def _call(self, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return cast("dict[str, Any]", json.load(response))
