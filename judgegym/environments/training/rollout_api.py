"""Client of the Atropos rollout API.

Source: atroposlib 0.4.0, `api/server.py`. It distinguishes two failures: the API is unreachable or
has no trainer (wait; nothing is lost), or it refuses a request (a defect; waiting does not help).
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import aiohttp

from judgegym.engine.settings import EnvConfig
from judgegym.llm import wire
from judgegym.llm.errors import JudgeGymError
from judgegym.llm.urls import is_loopback
from judgegym.llm.wire import JSON

T = TypeVar("T")

_TIMEOUT_S = 60.0
_TRIES = 30
_PAUSE_S = 0.1
_COMPRESS_FROM = 16_384  # bytes; below it, and on one machine, gzip costs more than it saves
_LIST = "/scored_data_list"
_FAST = 1  # token ids compress nearly as well at the lowest level, in a fraction of the time


class ApiUnavailable(JudgeGymError):
    """The rollout API is unreachable, fails, or has no trainer.

    Attributes:
        status: the HTTP status, if there was a response.
        may_have_acted: whether the request was sent and only its response is missing or wrong: the
            API may have carried it out.
        timed_out: whether no response came in time: the API may carry out the request even later.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        *,
        may_have_acted: bool = True,
        timed_out: bool = False,
    ) -> None:
        """Describe a failure; see the class for the arguments."""
        super().__init__(message)
        self.status = status
        self.may_have_acted = may_have_acted
        self.timed_out = timed_out


class ApiRefusal(JudgeGymError):
    """The rollout API refuses a request."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Response of the API to the registration of an environment."""

    env_id: int
    name: str
    checkpoint_dir: str
    checkpoint_interval: int
    num_steps: int


@dataclass(frozen=True, slots=True)
class TrainerLimits:
    """Limits of the trainer: sequences in a batch, tokens in a sequence (≤ 0: no limit)."""

    batch_size: int
    max_token_len: int


@dataclass(frozen=True, slots=True)
class ApiStatus:
    """The trainer's step, and the state of the queue.

    Attributes:
        step: the trainer's step.
        queue: groups in the queue that compete with ours, in groups of our size.
        own_queue: our own groups in the queue.
        weight: our share of the inference, from 0 to 1; 1 if there is no other environment.
        unallocated: the share of a batch that no environment has reserved.
    """

    step: int
    queue: int
    own_queue: int
    weight: float
    unallocated: float

    @property
    def is_alone(self) -> bool:
        """Whether no other environment is connected or has groups in the queue."""
        return self.weight == 1.0 and self.queue == self.own_queue


class RolloutApi:
    """Client of the API."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        """Call the API at `url` over a shared session."""
        self.url = url.rstrip("/")
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)

    async def trainer(self) -> TrainerLimits | None:
        """Return the trainer's limits; `None` if no trainer has registered."""
        info = await self._call("GET", "/info")
        batch_size = _read_int(info, "batch_size")
        if batch_size < 0:
            return None
        return TrainerLimits(batch_size, _read_int(info, "max_token_len"))

    async def wandb_place(self) -> tuple[str, str]:
        """Return the trainer's Weights & Biases group and project."""
        place = await self._call("GET", "/wandb_info")
        return str(place.get("group") or ""), str(place.get("project") or "")

    async def register(self, name: str, weight: float, config: EnvConfig) -> Registration | None:
        """Register; return `None` until the trainer has requested its first batch."""
        sizes = ("group_size", "max_token_length", "min_batch_allocation")
        body = {
            "desired_name": name,
            "weight": weight,
            **{size: getattr(config, size) for size in sizes},
        }
        answer = await self._call("POST", "/register-env", body)
        if answer.get("status") != "success":
            return None
        return Registration(
            env_id=_read_int(answer, "env_id"),
            name=str(answer.get("wandb_name") or name),
            checkpoint_dir=str(answer.get("checkpoint_dir") or ""),
            checkpoint_interval=_read_int(answer, "checkpoint_interval"),
            num_steps=_read_int(answer, "num_steps"),
        )

    async def status(self, env_id: int) -> ApiStatus:
        """Return the status of a registered environment.

        Raise `ApiUnavailable` for an unknown one.
        """
        answer = await self._call("GET", "/status-env", {"env_id": env_id})
        return ApiStatus(
            step=_read_int(answer, "current_step"),
            queue=_read_int(answer, "queue_size"),
            own_queue=_read_int(answer, "self_queue_size"),
            weight=float(cast(float, answer.get("env_weight") or 1.0)),
            unallocated=float(cast(float, answer.get("unallocated_fraction", 1.0))),
        )

    async def send(self, groups: Sequence[bytes], env_id: int) -> None:
        """Queue groups, as JSON, in their order: all or none of them.

        Request the status first: a group without a trainer would block the trainer's registration.

        Raises:
            ApiUnavailable: try again later; `may_have_acted` tells whether the groups may be queued
                already.
            ApiRefusal: the API does not accept one of the groups, and queues none.
        """
        bodies = [b'%b,"env_id":%d}' % (group[:-1], env_id) for group in groups]
        if len(bodies) == 1:
            path, body = "/scored_data", bodies[0]
        else:
            path, body = _LIST, b"[" + b",".join(bodies) + b"]"
        encoding = None
        if len(body) >= _COMPRESS_FROM and not is_loopback(self.url):
            body, encoding = await asyncio.to_thread(gzip.compress, body, _FAST), "gzip"
        await self._request("POST", path, body, encoding)

    async def latest_group(self) -> Mapping[str, JSON]:
        """Return the group that the API queued last, from any environment."""
        return await self._call("GET", "/latest_example")

    async def leave(self, env_id: int) -> None:
        """Unregister, so that the shares of the other environments grow."""
        await self._call("POST", "/disconnect-env", {"env_id": env_id})

    async def _call(
        self, method: str, path: str, body: Mapping[str, JSON] | None = None
    ) -> Mapping[str, JSON]:
        data = None
        if body is not None:
            data = wire.dumps(body)
        return await self._request(method, path, data, None)

    async def _request(
        self, method: str, path: str, body: bytes | None, encoding: str | None
    ) -> Mapping[str, JSON]:
        headers = {"Content-Type": "application/json"}
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        try:
            async with self._session.request(
                method, self.url + path, data=body, headers=headers, timeout=self._timeout
            ) as response:
                data = await response.read()
                status = response.status
        except asyncio.TimeoutError as error:
            raise ApiUnavailable(
                f"{self.url}{path}: no answer in {_TIMEOUT_S:.0f} s", timed_out=True
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            connected = not isinstance(error, aiohttp.ClientConnectorError)
            reason = str(error) or type(error).__name__
            raise ApiUnavailable(f"{self.url}{path}: {reason}", may_have_acted=connected) from error
        if status >= 400:
            problem = wire.error_text(data)
            message = f"{self.url}{path}: HTTP {status}: {problem}"
            if status >= 500 or status in (408, 429):
                raise ApiUnavailable(message, status)
            raise ApiRefusal(message)
        try:
            answer = wire.loads(data)
        except ValueError as error:
            excerpt = wire.excerpt(data)
            raise ApiUnavailable(f"{self.url}{path}: not JSON: {excerpt}") from error
        if isinstance(answer, Mapping):
            return answer
        return {}


async def call_with_retries(ask: Callable[[], Awaitable[T]]) -> T:
    """Make a call that may be repeated, until it gets a proper response.

    One error may come from a proxy in front of the API; the last of many in a row is raised.

    Raises:
        ApiUnavailable: it never succeeds, or nothing responds.
        ApiRefusal: the API refuses it.
    """
    for _ in range(_TRIES - 1):
        try:
            return await ask()
        except ApiUnavailable as error:
            if error.timed_out or not error.may_have_acted:
                raise
        await asyncio.sleep(_PAUSE_S)
    return await ask()


def _read_int(answer: Mapping[str, JSON], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int | float):
        content = dict(answer)
        raise ApiUnavailable(f"the rollout API's answer has no {name}: {content}")
    return int(value)
