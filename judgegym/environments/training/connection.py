"""The connection to the rollout API: wait for it, notice that it is lost, and find back."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from judgegym.engine.settings import EnvConfig
from judgegym.environments.training.membership import Membership
from judgegym.environments.training.rollout_api import (
    ApiRefusal,
    ApiStatus,
    ApiUnavailable,
    Registration,
    RolloutApi,
    TrainerLimits,
    insist,
)
from judgegym.llm.errors import SettingsError

logger = logging.getLogger(__name__)

_POLL_S = 0.5


class TrainerConnection:
    """Registers at the rollout API, and finds back after the API was down or restarted.

    Attributes:
        joined: set while groups can be sent.
        changed: set when there is a new status or the connection is back; cleared by the code that waits for it.
        sent_since: groups sent since the last status, which its queue does not include yet.
    """

    def __init__(self, api: RolloutApi, config: EnvConfig, name: str) -> None:
        """Set up the connection; `join` registers."""
        self.api = api
        self.joined = asyncio.Event()
        self.changed = asyncio.Event()
        self.sent_since = 0
        self._config = config
        self._membership = Membership(api, config, name)
        self._said = ""
        self._registration: Registration | None = None
        self._trainer: TrainerLimits | None = None
        self._status: ApiStatus | None = None

    @property
    def epoch(self) -> int:
        """A number that changes when the API has forgotten everything, its queue too."""
        return self._membership.epoch

    @property
    def group_size(self) -> int:
        """Sequences in each group of ours."""
        return self._config.group_size

    @property
    def registration(self) -> Registration:
        """The registration at the API."""
        assert self._registration is not None, "join first"
        return self._registration

    @property
    def trainer(self) -> TrainerLimits:
        """The trainer's batch size and longest sequence."""
        assert self._trainer is not None, "join first"
        return self._trainer

    @property
    def status(self) -> ApiStatus:
        """The latest status."""
        assert self._status is not None, "join first"
        return self._status

    async def join(self) -> None:
        """Wait until the API is up, a trainer has registered and asked for its first batch; then register.

        Raises:
            SettingsError: the group size does not divide the trainer's batch size, or the URL is not a rollout API.
        """
        while not await self._is_joined():  # noqa: ASYNC110  # only the API knows when
            await asyncio.sleep(_POLL_S)

    async def _is_joined(self) -> bool:
        """Go as far as the API lets us; return whether we can send groups."""
        try:
            trainer = await insist(self.api.trainer)
            if trainer is None:
                self._membership.forget()
                self._say(f"waiting for a trainer to register at {self.api.url}")
                return False
            check_group_size(self._config.group_size, trainer.batch_size)
            registration = await self._membership.settle()
            if registration is None:
                self._say(f"waiting for the trainer at {self.api.url} to ask for its first batch")
                return False
            is_back, self._registration, self._trainer = registration is self._registration, registration, trainer
            self._update(await insist(partial(self.api.status, registration.env_id)))
        except ApiUnavailable as error:
            self._say(f"waiting for the rollout API: {error}")
            return False
        except ApiRefusal as error:
            if self._registration is None:
                raise SettingsError(f"--env.rollout_server_url: there is no rollout API: {error}") from error
            self._say(f"waiting for the rollout API: {error}")
            return False
        self._say("the rollout API is back" if is_back else f"joined {self.api.url} as {registration.name}")
        self.joined.set()
        self.changed.set()
        return True

    async def leave(self) -> None:
        """Unregister; try until it succeeds."""
        await self._membership.leave()

    async def watch(self) -> None:
        """Refresh the status and restore a lost connection, until cancelled."""
        while True:
            if self.joined.is_set():
                await self._refresh()
            else:
                await self.join()
            await asyncio.sleep(_POLL_S)

    def lost(self) -> None:
        """Mark the API as down: nothing is sent until it is back."""
        self.joined.clear()

    async def _refresh(self) -> None:
        sent_before = self.sent_since
        try:
            status = await insist(partial(self.api.status, self.registration.env_id))
        except (ApiUnavailable, ApiRefusal) as error:
            self._say(f"the rollout API is away: {error}")
            self.lost()
            return
        sent_while_asking = self.sent_since - sent_before  # the status may be older than they are
        if status.step < self.status.step:  # another run of the API
            self.lost()
        else:
            self._update(status)
            self.sent_since = sent_while_asking

    def _update(self, status: ApiStatus) -> None:
        self._status = status
        self.sent_since = 0
        self.changed.set()

    def _say(self, what: str) -> None:
        """Log what the connection waits for, once."""
        if what != self._said:
            self._said = what
            logger.info("%s", what)


def check_group_size(group_size: int, batch_size: int) -> None:
    """Check that groups of this size fill a batch exactly; the API never splits a group.

    Raises:
        SettingsError: they do not.
    """
    if batch_size % group_size:
        raise SettingsError(
            f"--env.group_size: {group_size} does not divide the trainer's batch size of {batch_size}, "
            "so no batch would ever be full"
        )
