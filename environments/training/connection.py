"""The connection to the rollout API: register, notice that it is lost, register again."""

from __future__ import annotations

import asyncio
import logging

from environments.settings import EnvConfig
from environments.training.rollout_api import ApiRefusal, ApiStatus, ApiUnavailable, Registration, RolloutApi, Trainer
from judges.llm.errors import SettingsError

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_DOES_NOT_KNOW_US = 500
"""What the API answers of an environment it does not know; something between it and us says 502, 503 or 504."""


class TrainerConnection:
    """Registers at the rollout API, and registers again after the API was down or restarted.

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
        self._name = name
        self._said = ""
        self._registration: Registration | None = None
        self._trainer: Trainer | None = None
        self._status: ApiStatus | None = None

    @property
    def registration(self) -> Registration:
        """The registration at the API."""
        assert self._registration is not None, "join first"
        return self._registration

    @property
    def trainer(self) -> Trainer:
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
        registration: Registration | None = None
        while True:
            try:
                trainer = await self.api.trainer()
                if trainer is None:
                    registration = None
                    self._say(f"waiting for a trainer to register at {self.api.url}")
                else:
                    check_group_size(self._config.group_size, trainer.batch_size)
                    # Register once: to the API, each registration is a further environment with a share of its own.
                    registration = registration or await self._register()
                    if registration is not None:
                        self._status = await self.api.status(registration.env_id)
                        self._registration, self._trainer = registration, trainer
                        break
                    self._say(f"waiting for the trainer at {self.api.url} to ask for its first batch")
            except ApiUnavailable as error:
                self._say(f"waiting for the rollout API: {error}")
                if registration is not None and error.status == _DOES_NOT_KNOW_US:
                    registration = None
            except ApiRefusal as error:
                raise SettingsError(f"--env.rollout_server_url: there is no rollout API: {error}") from error
            await asyncio.sleep(_POLL_S)
        self._say(f"joined the rollout API at {self.api.url} as {registration.name}")
        self._back()

    async def _register(self) -> Registration | None:
        config = self._config
        return await self.api.register(
            name=self._name,
            weight=config.inference_weight,
            group_size=config.group_size,
            max_token_length=config.max_token_length,
            min_batch_allocation=config.min_batch_allocation,
        )

    async def watch(self) -> None:
        """Refresh the status and restore a lost connection, until cancelled."""
        while True:
            if self.joined.is_set():
                await self._refresh()
            else:
                await self._recover()
            await asyncio.sleep(_POLL_S)

    def lost(self) -> None:
        """Mark the API as down: nothing is sent until it is back."""
        self.joined.clear()

    async def _refresh(self) -> None:
        try:
            status = await self.api.status(self.registration.env_id)
        except (ApiUnavailable, ApiRefusal) as error:
            self._say(f"the rollout API is away: {error}")
            self.lost()
            return
        if status.step < self.status.step:  # the API was restarted: our number belongs to another environment
            self.lost()
            return
        self._update(status)

    async def _recover(self) -> None:
        """Find out whether the API was only down, or was restarted so that we must register again."""
        try:
            if await self.api.trainer() is None:
                await self.join()
                return
        except (ApiUnavailable, ApiRefusal):
            return
        for _ in range(2):  # the first answer may still be a failure of the restart
            try:
                status = await self.api.status(self.registration.env_id)
            except ApiRefusal:
                return
            except ApiUnavailable as error:
                if error.status != _DOES_NOT_KNOW_US:
                    return
                await asyncio.sleep(_POLL_S)
                continue
            if status.step >= self.status.step:
                self._update(status)
                self._say("the rollout API is back")
                self._back()
                return
            break
        await self.join()

    def _update(self, status: ApiStatus) -> None:
        self._status = status
        self.sent_since = 0
        self.changed.set()

    def _back(self) -> None:
        self.joined.set()
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
