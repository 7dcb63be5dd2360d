"""A judge with the resources that it needs: its client, its cache and, offline, its stand-in.

Guarantees: nothing is opened before the first case; everything is closed by `close`, at the end of a `with` block, or
when the process ends; the judge always runs on the background loop of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Generic, TypeVar

from judges.config.judge import JudgeSettings
from judges.core.background import BACKGROUND
from judges.core.judge import Judge
from judges.core.judgment import Judgment
from judges.llm.cache import JudgmentCache
from judges.llm.client import ChatClient

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")


async def stand_in_settings(stack: AsyncExitStack, settings: JudgeSettings) -> JudgeSettings:
    """The settings with the URL of a stand-in as endpoint; `stack` stops the stand-in."""
    from judges.offline import StandIn  # late: only offline use starts a child process

    stand_in = await stack.enter_async_context(StandIn())
    return settings.model_copy(update={"judge_base_url": stand_in.base_url, "judge_api_key": None})


async def open_client(stack: AsyncExitStack, settings: JudgeSettings, *, identity: str = "") -> ChatClient:
    """A chat client for the judge's endpoint; `stack` closes it.

    Raises:
        SettingsError: the endpoint needs an API key and there is none, or the judgment cache cannot be opened.
    """
    cache = None
    if settings.judge_cache is not None:
        cache = JudgmentCache(settings.judge_cache)
        stack.callback(cache.close)
    return await stack.enter_async_context(
        ChatClient(settings.chat_settings(section="", identity=identity), cache=cache)
    )


class JudgeSession(Generic[CaseT, DetailT]):
    """Judges cases on the background loop."""

    def __init__(
        self, settings: JudgeSettings, build: Callable[[ChatClient], Judge[CaseT, DetailT]], *, offline: bool
    ) -> None:
        """Set up the session without opening anything; `build` makes the judge from its client."""
        self._settings = settings
        self._build = build
        self._offline = offline
        self._stack: AsyncExitStack | None = None
        self._judge: Judge[CaseT, DetailT] | None = None
        self._opening = asyncio.Lock()

    async def judge(self, cases: Sequence[CaseT]) -> list[Judgment[DetailT]]:
        """Judge all cases at once. To be run on the background loop.

        Raises:
            SettingsError: the judge cannot be opened as its settings say.
        """
        judge = await self._opened()
        return list(await asyncio.gather(*(judge.judge(case) for case in cases)))

    async def _opened(self) -> Judge[CaseT, DetailT]:
        async with self._opening:
            if self._judge is None:
                stack = AsyncExitStack()
                try:
                    self._judge = self._build(await self._client(stack))
                except BaseException:  # any error, also a cancellation: close what is open, and raise it
                    await stack.aclose()
                    raise
                self._stack = stack
                BACKGROUND.at_exit(self.close)
            return self._judge

    async def _client(self, stack: AsyncExitStack) -> ChatClient:
        if not self._offline:
            return await open_client(stack, self._settings)
        # The port of a stand-in differs each time, but its answers do not: they stay in the cache under one identity.
        return await open_client(stack, await stand_in_settings(stack, self._settings), identity="--offline")

    async def close(self) -> None:
        """Close the client; the next case opens another. To be run on the background loop."""
        BACKGROUND.forget(self.close)
        stack, self._stack, self._judge = self._stack, None, None
        if stack is not None:
            await stack.aclose()
