"""The chat clients of one command: its judges, and the policy in evaluations."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import aiohttp

from judgegym.engine.completions import Policy
from judgegym.engine.settings import EnvSettings
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.types import ChatSettings


class Clients:
    """Opens each client at its first use. All share one HTTP session; the judges share one judgment cache."""

    def __init__(self, settings: EnvSettings[Any], session: aiohttp.ClientSession, *, judge_identity: str = "") -> None:
        """Open the judgment cache, if the settings name one.

        Args:
            settings: validated settings of the command, with the URLs of the stand-ins.
            session: the HTTP session of the process.
            judge_identity: the judge's endpoint in the keys of the judgment cache, instead of its URL.

        Raises:
            SettingsError: the judgment cache cannot be opened.
        """
        self.session = session
        self._settings = settings
        self._judge_identity = judge_identity
        cache = settings.env.judge_cache
        self._cache = JudgmentCache(cache) if cache is not None else None
        self._judges: list[ChatClient] = []
        self._policies: list[ChatClient] = []

    @cached_property
    def judge(self) -> ChatClient:
        """Return the client of the judge that the `judge_*` settings name.

        Raises:
            SettingsError: its API key is missing.
        """
        config = self._settings.env
        return self.open_judge(config.chat_settings(retry_delay=config.retry_delay, identity=self._judge_identity))

    @cached_property
    def policy(self) -> Policy:
        """Return the policy of evaluations.

        Raises:
            SettingsError: its API key is missing.
        """
        config, openai = self._settings.env, self._settings.openai
        chat_settings = openai.chat_settings(config, max_concurrency=openai.num_requests_for_eval)
        return Policy(self.open_policy(chat_settings), config)

    def open_judge(self, chat_settings: ChatSettings) -> ChatClient:
        """Open the client of another judge."""
        self._judges.append(ChatClient(chat_settings, cache=self._cache, session=self.session))
        return self._judges[-1]

    def open_policy(self, chat_settings: ChatSettings) -> ChatClient:
        """Open a client of the policy, whose answers are never cached."""
        self._policies.append(ChatClient(chat_settings, session=self.session))
        return self._policies[-1]

    @property
    def waiting(self) -> str | None:
        """Return which endpoints all their calls wait for, as in `ChatClient.waiting`; `None` if there is none."""
        found = (client.waiting for client in (*self._policies, *self._judges))
        return "; ".join(dict.fromkeys(sentence for sentence in found if sentence is not None)) or None

    @property
    def finish_reasons(self) -> dict[str, Counter[str]]:
        """Return how many choices of policies and judges ended with each finish reason."""
        roles = {"policy": self._policies, "judge": self._judges}
        return {role: sum((client.finish_reasons for client in found), Counter[str]()) for role, found in roles.items()}

    @property
    def notices(self) -> list[str]:
        """Return what a reader of the numbers must know of how the judges were asked."""
        found = (client.formats.words for client in self._judges)
        return list(dict.fromkeys(sentence for sentence in found if sentence is not None))

    def close(self) -> None:
        """Close the judgment cache."""
        if self._cache is not None:
            self._cache.close()
