"""An environment's place at the rollout API: joined, lost and joined again."""

from __future__ import annotations

import asyncio
import logging

from environments.settings import EnvConfig
from environments.training.rollout_api import ApiRefused, ApiStatus, ApiUnavailable, Registration, RolloutApi, Trainer
from judges.llm.errors import SettingsError

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_DOES_NOT_KNOW_US = 500
"""What the API answers of an environment it does not know; something between it and us says 502, 503 or 504."""


class TrainerConnection:
    """Joins the rollout API, notices when the API is away or has forgotten us, and joins again.

    Attributes:
        joined: set while groups can be sent.
        changed: set whenever there is news (a new status, a way back in); cleared by who waits for it.
        sent_since: groups sent since the last status, which its queue does not count yet.
    """

    def __init__(self, api: RolloutApi, config: EnvConfig, name: str) -> None:
        """Join nothing yet."""
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
        """How the API knows us."""
        assert self._registration is not None, "join first"
        return self._registration

    @property
    def trainer(self) -> Trainer:
        """What the trainer wants."""
        assert self._trainer is not None, "join first"
        return self._trainer

    @property
    def status(self) -> ApiStatus:
        """The latest status."""
        assert self._status is not None, "join first"
        return self._status

    async def join(self) -> None:
        """Wait for the API, for its trainer and for the trainer's first batch, and register.

        Raises:
            SettingsError: the group size does not fit the trainer's batch, or something else answers at the API's URL.
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
                    # Once: each registration is another environment to the API, with a share of its own.
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
            except ApiRefused as error:
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
        """Keep the status fresh and the place ours, for ever."""
        while True:
            if self.joined.is_set():
                await self._refresh()
            else:
                await self._recover()
            await asyncio.sleep(_POLL_S)

    def lost(self) -> None:
        """Tell that the API could not be reached: nothing is sent until it is back."""
        self.joined.clear()

    async def _refresh(self) -> None:
        try:
            status = await self.api.status(self.registration.env_id)
        except (ApiUnavailable, ApiRefused) as error:
            self._say(f"the rollout API is away: {error}")
            self.lost()
            return
        if status.step < self.status.step:  # another run of the API: it gave our number to somebody else
            self.lost()
            return
        self._update(status)

    async def _recover(self) -> None:
        """Find out whether the API was only away, or is another one that has to be joined anew."""
        try:
            if await self.api.trainer() is None:
                await self.join()
                return
        except (ApiUnavailable, ApiRefused):
            return
        for _ in range(2):  # the first may be the last of a series of failures
            try:
                status = await self.api.status(self.registration.env_id)
            except ApiRefused:
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
        """Log what is waited for, once."""
        if what != self._said:
            self._said = what
            logger.info("%s", what)


def check_group_size(group_size: int, batch_size: int) -> None:
    """Whether batches of that size can be made of such groups; the API never cuts a group.

    Raises:
        SettingsError: they cannot.
    """
    if batch_size % group_size:
        raise SettingsError(
            f"--env.group_size: {group_size} does not divide the trainer's batch size of {batch_size}, "
            "so no batch would ever be full"
        )
