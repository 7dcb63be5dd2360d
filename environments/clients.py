"""The chat clients of one command, beside the environment that asks them: its judges, and its policy in evaluation."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import aiohttp

from environments.completions import Policy
from environments.settings import EnvSettings
from judges.llm.cache import JudgmentCache
from judges.llm.client import ChatClient
from judges.llm.types import ChatSettings


class Clients:
    """Opens each client when it is first asked for; all share one HTTP session, the judges one judgment cache."""

    def __init__(self, settings: EnvSettings[Any], session: aiohttp.ClientSession, *, judge_identity: str = "") -> None:
        """Open the judgment cache, if there is to be one.

        Args:
            settings: validated; the endpoints in it are there.
            session: the one HTTP session of the process.
            judge_identity: what stands for the judge's endpoint in the judgment cache, if not its URL.

        Raises:
            SettingsError: the judgment cache cannot be opened.
        """
        self.session = session
        self._settings = settings
        self._judge_identity = judge_identity
        cache = settings.env.judge_cache
        self._cache = JudgmentCache(cache) if cache is not None else None
        self._judges: list[ChatClient] = []

    @cached_property
    def judge(self) -> ChatClient:
        """The one judge that the `judge_*` settings name.

        Raises:
            SettingsError: its API key is missing.
        """
        config = self._settings.env
        return self.open_judge(config.chat_settings(retry_delay=config.retry_delay, identity=self._judge_identity))

    @cached_property
    def policy(self) -> Policy:
        """The policy in evaluation.

        Raises:
            SettingsError: its API key is missing.
        """
        config, openai = self._settings.env, self._settings.openai
        chat_settings = openai.chat_settings(config, max_concurrency=openai.num_requests_for_eval)
        return Policy(ChatClient(chat_settings, session=self.session), config)

    def open_judge(self, chat_settings: ChatSettings) -> ChatClient:
        """The client of a further judge."""
        self._judges.append(ChatClient(chat_settings, cache=self._cache, session=self.session))
        return self._judges[-1]

    @property
    def judge_cost(self) -> float:
        """US dollars that the judges have cost so far."""
        return sum(client.meter.usage.cost for client in self._judges)

    def close(self) -> None:
        """Close the judgment cache."""
        if self._cache is not None:
            self._cache.close()
