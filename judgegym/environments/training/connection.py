"""Connection to the rollout API: wait for it, detect that it is lost, and reconnect.

It keeps exactly one registration at the API, whatever responses are lost. To the API each
registration is a further environment with its own share, for good. So a registration whose
response was lost is found and disconnected. After the API was unreachable, a further registration
shows whether the API still knows the earlier one, which then stays. The API lists no environments,
but it tells the share of each number: our weight has a mark of this process in its last digits, by
which a registration is recognised as ours.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from judgegym.engine.settings import EnvConfig
from judgegym.environments.training.rollout_api import (
    ApiRefusal,
    ApiStatus,
    ApiUnavailable,
    Registration,
    RolloutApi,
    TrainerLimits,
    call_with_retries,
)
from judgegym.llm.errors import JudgeGymError, SettingsError

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_UNKNOWN_ENV_STATUS = 500
"""The API's status for an environment that it does not know; a proxy in between returns 502, 503 or
504."""
_MARK_COUNT = 2**24
_MARK = 2.0**-43  # all marks are below two millionths of the weight
_TOLERANCE = 2.0**-46  # of a quotient of two shares: rounding makes less, two marks more
_MIN_SHARE = 0.01  # the API gives smaller shares as this


class Membership:
    """Our registrations at the rollout API.

    Attributes:
        epoch: changes when the API turns out to have forgotten everything, including its queue.
    """

    def __init__(self, api: RolloutApi, config: EnvConfig, name: str) -> None:
        """Begin without a registration."""
        self.epoch = 0
        self._api = api
        self._config = config
        self._name = name
        self._weight = config.inference_weight * (1 + (1 + secrets.randbelow(_MARK_COUNT)) * _MARK)
        self._registration: Registration | None = None
        self._pending: Registration | None = None
        self._confirmed: Registration | None = None
        self._response_lost = False
        self._suspects: list[int] = []
        self._registering: asyncio.Task[Registration | None] | None = None

    def forget(self) -> None:
        """Record that the API has forgotten everything."""
        if self._registration is not None:
            self._note_restart()
        self._pending, self._response_lost, self._suspects = None, False, []

    async def settle(self) -> Registration | None:
        """Register, and return the registration that stays, once it is the only one.

        Return `None` if the API is not ready.

        Raises:
            ApiUnavailable: call it again; the findings until then are kept.
            ApiRefusal: the URL is no rollout API.
        """
        if self._pending is None:
            self._registering = asyncio.create_task(self._register())
            self._pending = await asyncio.shield(self._registering)
            if self._pending is None:
                return None
            if self._registration is not None and self._pending.env_id <= self._registration.env_id:
                self._note_restart()
            # What may be ours beside it; the API never gives a number twice.
            self._suspects = []
            if self._response_lost:
                self._suspects = list(range(self._pending.env_id))
            elif self._registration is not None:
                self._suspects = [self._registration.env_id]
        pending = self._pending
        if not await self._is_known(pending):
            self._pending, self._response_lost = None, True
            raise ApiUnavailable(
                f"{self._api.url} does not know environment {pending.env_id}, "
                "though it has given it"
            )
        while self._suspects:
            await self._examine(self._suspects[-1], pending)
            self._suspects.pop()
        if self._confirmed is not None:
            await call_with_retries(partial(self._api.leave, pending.env_id))
        registration = self._confirmed or pending
        self._registration, self._pending, self._confirmed, self._response_lost = (
            registration,
            None,
            None,
            False,
        )
        return registration

    async def leave(self) -> None:
        """Disconnect all registrations, so that other environments' shares grow.

        Try until it succeeds.

        A registration in progress when `settle` is cancelled is awaited: only its response has its
        number.
        """
        if self._registering is not None and self._pending is None and self._registration is None:
            with suppress(JudgeGymError):
                self._pending = await self._registering
        for registration in (self._registration, self._pending):
            while registration is not None:
                try:
                    await call_with_retries(partial(self._api.leave, registration.env_id))
                    break
                except JudgeGymError as error:
                    logger.debug("cannot leave yet: %s", error)
                    await asyncio.sleep(_POLL_S)
        if self._response_lost:
            logger.warning("a registration whose answer was lost may be left at %s", self._api.url)

    async def _register(self) -> Registration | None:
        try:
            return await self._api.register(self._name, self._weight, self._config)
        except ApiUnavailable as error:
            self._response_lost |= error.may_have_acted
            raise

    async def _is_known(self, registration: Registration) -> bool:
        try:
            await call_with_retries(partial(self._api.status, registration.env_id))
        except ApiUnavailable as error:
            if error.status != _UNKNOWN_ENV_STATUS:
                raise
            return False
        return True

    async def _examine(self, env_id: int, pending: Registration) -> None:
        """Disconnect an environment if it is a second registration of ours; keep our earlier one.

        Raises:
            ApiUnavailable: that cannot be decided yet.
        """
        numbers = (pending.env_id, env_id, pending.env_id)
        share, other_share, share_after = [
            (await call_with_retries(partial(self._api.status, number))).weight
            for number in numbers
        ]
        if share_after != share:
            raise ApiUnavailable(f"{self._api.url}: the shares of its environments change")
        if share <= _MIN_SHARE or other_share <= _MIN_SHARE:
            logger.warning(
                "environment %d at %s may be ours, and may be left: its share is too small",
                env_id,
                self._api.url,
            )
        is_ours = min(share, other_share) > _MIN_SHARE and abs(other_share / share - 1) < _TOLERANCE
        if self._registration is not None and self._registration.env_id == env_id:
            if is_ours:
                self._confirmed = self._registration
            else:
                self._note_restart()  # the number is somebody else's
        elif is_ours:
            await call_with_retries(partial(self._api.leave, env_id))
            logger.info(
                "left the rollout API as environment %d, a double of %d", env_id, pending.env_id
            )

    def _note_restart(self) -> None:
        self._registration = None
        self.epoch += 1


class TrainerConnection:
    """Registration at the rollout API that is restored after the API was down or restarted.

    Attributes:
        config: the environment's settings.
        prepare: called once, when a trainer is there and before we register; its error ends the
            run.
        joined: set while groups can be sent; cleared by the code that finds the API unreachable.
        changed: set when there is a new status or the connection is back; cleared by the code that
            waits for it.
        sent_since: groups sent since the last status, which its queue does not include yet.
        membership: registers at the API, and leaves it.
        registration: the registration at the API, once it has joined.
        trainer: the trainer's batch size and longest sequence, once it has joined.
        status: the latest status, once it has joined.
    """

    def __init__(self, api: RolloutApi, config: EnvConfig, name: str) -> None:
        """Set up the connection; `join` registers."""
        self.api = api
        self.config = config
        self.prepare: Callable[[], Awaitable[None]] | None = None
        self.joined = asyncio.Event()
        self.changed = asyncio.Event()
        self.sent_since = 0
        self.registration: Registration
        self.trainer: TrainerLimits
        self.status: ApiStatus
        self.membership = Membership(api, config, name)
        self._last_message = ""
        self._has_joined = False

    async def join(self) -> None:
        """Wait until the API is up and a trainer has requested its first batch; then register.

        Raises:
            SettingsError: the group size does not divide the trainer's batch size, or the URL is
                no rollout API.
        """
        while not await self._try_join():  # noqa: ASYNC110  # only the API knows when
            await asyncio.sleep(_POLL_S)

    async def _try_join(self) -> bool:
        """Go through as many steps of joining as the API allows.

        Return whether groups can be sent.
        """
        try:
            trainer = await call_with_retries(self.api.trainer)
            if trainer is None:
                self.membership.forget()
                self._log_once(f"waiting for a trainer to register at {self.api.url}")
                return False
            if trainer.batch_size % self.config.group_size:  # the API never splits a group
                raise SettingsError(
                    f"--env.group_size: {self.config.group_size} does not divide the trainer's "
                    f"batch size of {trainer.batch_size}, so no batch would ever be full"
                )
            if self.prepare is not None:
                prepare, self.prepare = self.prepare, None
                await prepare()
            registration = await self.membership.settle()
            if registration is None:
                self._log_once(
                    f"waiting for the trainer at {self.api.url} to ask for its first batch"
                )
                return False
            is_back = self._has_joined and registration is self.registration
            self.registration, self.trainer, self._has_joined = registration, trainer, True
            self._update(await call_with_retries(partial(self.api.status, registration.env_id)))
        except (ApiUnavailable, ApiRefusal) as error:
            if isinstance(error, ApiRefusal) and not self._has_joined:
                raise SettingsError(
                    f"--env.rollout_server_url: there is no rollout API: {error}"
                ) from error
            self._log_once(f"waiting for the rollout API: {error}")
            return False
        event = f"joined {self.api.url} as {registration.name}"
        if is_back:
            event = "the rollout API is back"
        self._log_once(event)
        self.joined.set()
        self.changed.set()
        return True

    async def watch(self) -> None:
        """Refresh the status and restore a lost connection, until cancelled."""
        while True:
            if self.joined.is_set():
                await self._refresh()
            else:
                await self.join()
            await asyncio.sleep(_POLL_S)

    async def _refresh(self) -> None:
        sent_before = self.sent_since
        try:
            status = await call_with_retries(partial(self.api.status, self.registration.env_id))
        except (ApiUnavailable, ApiRefusal) as error:
            self._log_once(f"the rollout API is away: {error}")
            self.joined.clear()
            return
        sent_while_asking = self.sent_since - sent_before  # the status may be older than they are
        if status.step < self.status.step:  # another run of the API
            self.joined.clear()
        else:
            self._update(status)
            self.sent_since = sent_while_asking

    def _update(self, status: ApiStatus) -> None:
        self.status = status
        self.sent_since = 0
        self.changed.set()

    def _log_once(self, message: str) -> None:
        """Log a message of the connection, if it differs from the last one."""
        if message != self._last_message:
            self._last_message = message
            logger.info("%s", message)
