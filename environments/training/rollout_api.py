"""A client of the Atropos rollout API.

Source: atroposlib 0.4.0, `api/server.py`. Two kinds of trouble are told apart: the API cannot be reached or has no
trainer (wait, nothing is lost), and it refuses what it was sent (a defect, which waiting does not mend).
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import aiohttp

from judges.llm import wire
from judges.llm.errors import JudgeGymError
from judges.llm.wire import JSON

_TIMEOUT_S = 60.0
_COMPRESS_FROM = 16_384  # bytes; below it gzip costs more than it saves
_FAST = 1  # token ids compress nearly as well at the lowest level, in a fraction of the time


class ApiUnavailable(JudgeGymError):
    """The rollout API cannot be reached, fails, or has no trainer; `status` is its HTTP status, if it gave one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """Keep the HTTP status."""
        super().__init__(message)
        self.status = status


class ApiRefusal(JudgeGymError):
    """The rollout API refuses what it was sent."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The API's answer to the registration of an environment."""

    env_id: int
    name: str
    checkpoint_dir: str
    checkpoint_interval: int
    num_steps: int


@dataclass(frozen=True, slots=True)
class Trainer:
    """The trainer's limits: sequences in a batch, tokens in a sequence (≤ 0: no limit)."""

    batch_size: int
    max_token_len: int


@dataclass(frozen=True, slots=True)
class ApiStatus:
    """The trainer's step, and the state of the queue.

    Attributes:
        step: the trainer's step.
        queue: groups in the queue that compete with ours, in groups of our size.
        own_queue: our own groups in the queue.
        weight: our share of the inference, from 0 to 1.
        unallocated: the share of a batch that no environment has reserved.
    """

    step: int
    queue: int
    own_queue: int
    weight: float
    unallocated: float


class RolloutApi:
    """Calls the API."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        """Call the API at `url` over a shared session."""
        self.url = url.rstrip("/")
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)

    async def trainer(self) -> Trainer | None:
        """Return the trainer's limits; `None` if no trainer has registered."""
        info = await self._call("GET", "/info")
        batch_size = _whole(info, "batch_size")
        return None if batch_size < 0 else Trainer(batch_size, _whole(info, "max_token_len"))

    async def wandb_place(self) -> tuple[str, str]:
        """Return the trainer's Weights & Biases group and project."""
        place = await self._call("GET", "/wandb_info")
        return str(place.get("group") or ""), str(place.get("project") or "")

    async def register(
        self, *, name: str, weight: float, group_size: int, max_token_length: int, min_batch_allocation: float | None
    ) -> Registration | None:
        """Register; return `None` as long as the trainer has not asked for its first batch."""
        answer = await self._call(
            "POST",
            "/register-env",
            {
                "desired_name": name,
                "weight": weight,
                "group_size": group_size,
                "max_token_length": max_token_length,
                "min_batch_allocation": min_batch_allocation,
            },
        )
        if answer.get("status") != "success":
            return None
        return Registration(
            env_id=_whole(answer, "env_id"),
            name=str(answer.get("wandb_name") or name),
            checkpoint_dir=str(answer.get("checkpoint_dir") or ""),
            checkpoint_interval=_whole(answer, "checkpoint_interval"),
            num_steps=_whole(answer, "num_steps"),
        )

    async def status(self, env_id: int) -> ApiStatus:
        """Return the status of a registered environment; raise `ApiUnavailable` if the API does not know it."""
        answer = await self._call("GET", "/status-env", {"env_id": env_id})
        return ApiStatus(
            step=_whole(answer, "current_step"),
            queue=_whole(answer, "queue_size"),
            own_queue=_whole(answer, "self_queue_size"),
            weight=float(cast(float, answer.get("env_weight") or 1.0)),
            unallocated=float(cast(float, answer.get("unallocated_fraction", 1.0))),
        )

    async def send(self, group: Mapping[str, JSON], env_id: int) -> None:
        """Queue a group, after a check that a trainer has registered: an earlier group would block its registration.

        Raises:
            ApiUnavailable: try again later; the group may be queued if the answer was lost on its way.
            ApiRefusal: the API does not accept the group.
        """
        body = wire.dumps({**group, "env_id": env_id})
        encoding = None
        if len(body) >= _COMPRESS_FROM:
            body, encoding = await asyncio.to_thread(gzip.compress, body, _FAST), "gzip"
        if await self.trainer() is None:
            raise ApiUnavailable(f"{self.url} has no trainer")
        await self._post("/scored_data", body, encoding)

    async def leave(self, env_id: int) -> None:
        """Unregister, so that the shares of the other environments grow."""
        await self._call("POST", "/disconnect-env", {"env_id": env_id})

    async def _call(self, method: str, path: str, body: Mapping[str, JSON] | None = None) -> Mapping[str, JSON]:
        return await self._request(method, path, None if body is None else wire.dumps(body), None)

    async def _post(self, path: str, body: bytes, encoding: str | None) -> None:
        await self._request("POST", path, body, encoding)

    async def _request(self, method: str, path: str, body: bytes | None, encoding: str | None) -> Mapping[str, JSON]:
        headers = {"Content-Type": "application/json"}
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        try:
            async with self._session.request(
                method, self.url + path, data=body, headers=headers, timeout=self._timeout
            ) as response:
                data = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise ApiUnavailable(f"{self.url}{path}: {error or type(error).__name__}") from error
        if status >= 500 or status in (408, 429):
            raise ApiUnavailable(f"{self.url}{path}: HTTP {status}: {wire.error_text(data)}", status)
        if status >= 400:
            raise ApiRefusal(f"{self.url}{path}: HTTP {status}: {wire.error_text(data)}")
        try:
            answer = wire.loads(data)
        except ValueError as error:
            raise ApiUnavailable(f"{self.url}{path}: not JSON: {wire.excerpt(data)}") from error
        return answer if isinstance(answer, Mapping) else {}


def _whole(answer: Mapping[str, JSON], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int | float):
        raise ApiUnavailable(f"the rollout API's answer has no {name}: {dict(answer)}")
    return int(value)
