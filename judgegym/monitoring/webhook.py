"""Tell a webhook of alarms, in the background: nothing waits for it, and nothing fails with it.

Guarantees: an alarm is posted at most five times, within some two minutes; the webhook's URL, which is a secret, is in
no file, no log and no message.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from dataclasses import asdict

import aiohttp

from judgegym.llm import wire
from judgegym.llm.at_once import Tasks, cancel_all
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import environment_proxy
from judgegym.monitoring.alarms import Alarm

logger = logging.getLogger(__name__)

_ATTEMPTS = 5
_FIRST_PAUSE_S = 1.0
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_MOST_WAITING = 16


class Webhook:
    """Posts alarms as JSON: `text`, `run` and the fields of the alarm under `alarm`."""

    def __init__(self, variable: str, session: aiohttp.ClientSession, *, run: str, setting: str) -> None:
        """Read the URL.

        Args:
            variable: the environment variable that holds it.
            session: posts.
            run: what the receiver is told of where the alarm comes from.
            setting: the setting that names the variable, for messages.

        Raises:
            SettingsError: the variable holds no URL.
        """
        self._url = os.environ.get(variable, "").strip()
        if not self._url.startswith(("http://", "https://")):
            found = "it is not set" if not self._url else "what it holds is none"
            raise SettingsError(f"{setting}: expected a URL in the environment variable {variable}; {found}")
        self._variable, self._session, self._run = variable, session, run
        self._posts = Tasks()

    def tell(self, alarm: Alarm) -> None:
        """Begin to post an alarm; if many still wait, leave it out with a line in the log."""
        if len(self._posts) >= _MOST_WAITING:
            logger.warning("the webhook of %s is not told: %d alarms wait for it", self._variable, _MOST_WAITING)
            return
        self._posts.begin(self._post(alarm))

    async def close(self, within_s: float) -> None:
        """Give posts that are on their way so many seconds, then give them up."""
        if self._posts:
            _, late = await asyncio.wait(self._posts, timeout=within_s)
            for _ in late:
                logger.warning("the webhook of %s could not be told of an alarm in time", self._variable)
            await cancel_all(late)

    async def _post(self, alarm: Alarm) -> None:
        body = wire.dumps({"text": f"{self._run}: {alarm.text}", "run": self._run, "alarm": asdict(alarm)})
        why = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_FIRST_PAUSE_S * 3 ** (attempt - 1) * random.uniform(0.5, 1.0))  # jitter, no secret
            try:
                async with self._session.post(
                    self._url,
                    data=body,
                    headers={"Content-Type": "application/json"},
                    proxy=environment_proxy(self._url),
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                ) as response:
                    if response.status < 300:
                        return
                    why = f"HTTP {response.status}"
                    if 400 <= response.status < 500 and response.status not in (408, 425, 429):
                        break
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
                why = type(error).__name__  # its text has the URL
        logger.warning("the webhook of %s was not told of the alarm, which is on disk: %s", self._variable, why)
