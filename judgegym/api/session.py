"""A judge with the resources that it needs: its client, its cache and, offline, its stand-in.

Guarantees: nothing is opened before the first case; everything is closed by `close`, at the end of a `with` block, or
when the process ends; the judge always runs on the background loop of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Generic, TypeVar

from typing_extensions import Self

from judgegym.api.arguments import without_dashes
from judgegym.judges.config.judge import STAND_IN_IDENTITY, JudgeSettings
from judgegym.judges.config.keywords import settings_from_keywords
from judgegym.judges.core.background import BACKGROUND
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.answers.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.limits.budget import Budget

SettingsT = TypeVar("SettingsT", bound=JudgeSettings)
JudgeT = TypeVar("JudgeT")


async def stand_in_settings(
    stack: AsyncExitStack, settings: SettingsT, prompts: Sequence[str | PromptFormat] = ()
) -> SettingsT:
    """The settings with the URL of a stand-in as endpoint, which knows these prompts, too; `stack` stops it.

    Raises:
        SettingsError: no other process can load one of the prompts.
    """
    from judgegym.offline import StandIn  # late: only offline use starts a child process

    try:
        stand_in = await stack.enter_async_context(StandIn(prompts=prompts))
    except (ValueError, RuntimeError) as error:
        raise SettingsError(f"offline: {error}") from error
    return settings.model_copy(update={"judge_base_url": stand_in.base_url, "judge_api_key": None})


async def open_client(
    stack: AsyncExitStack,
    settings: JudgeSettings,
    *,
    identity: str = "",
    budget: Budget | None = None,
    retry_delay: float = 1.0,
) -> ChatClient:
    """A chat client for the judge's endpoint; `stack` closes it.

    Raises:
        SettingsError: the endpoint needs an API key and there is none, the judgment cache cannot be opened, or the
            budget is of dollars and the judge's price is not known.
    """
    cache = None
    if settings.judge_cache is not None:
        cache = JudgmentCache(settings.judge_cache)
        stack.callback(cache.close)
    chat_settings = settings.chat_settings(section="", identity=identity, retry_delay=retry_delay)
    return await stack.enter_async_context(ChatClient(chat_settings, cache=cache, budget=budget))


class JudgeSession(Generic[JudgeT]):
    """A judge that is opened when it is first asked for."""

    def __init__(
        self,
        settings: JudgeSettings,
        build: Callable[[ChatClient], JudgeT],
        *,
        offline: bool,
        offline_prompts: Sequence[str | PromptFormat] = (),
    ) -> None:
        """Set up the session without opening anything; `build` makes the judge from its client."""
        self._settings = settings
        self._build = build
        self._offline = offline
        self._offline_prompts = offline_prompts
        self._stack: AsyncExitStack | None = None
        self._judge: JudgeT | None = None
        self._opening = asyncio.Lock()

    async def opened(self) -> JudgeT:
        """The judge. To be run on the background loop.

        Raises:
            SettingsError: the judge cannot be opened as its settings say.
        """
        async with self._opening:
            if self._judge is None:
                stack = AsyncExitStack()
                try:
                    self._judge = self._build(await self._client(stack))
                except SettingsError as error:
                    await stack.aclose()
                    raise SettingsError(without_dashes(str(error), type(self._settings).model_fields)) from None
                except BaseException:  # any error, also a cancellation: close what is open, and raise it
                    await stack.aclose()
                    raise
                self._stack = stack
                BACKGROUND.at_exit(self.close)
            return self._judge

    async def _client(self, stack: AsyncExitStack) -> ChatClient:
        if not self._offline:
            return await open_client(stack, self._settings)
        settings = await stand_in_settings(stack, self._settings, self._offline_prompts)
        return await open_client(stack, settings, identity=STAND_IN_IDENTITY)

    async def close(self) -> None:
        """Close the client; the next case opens another. To be run on the background loop."""
        BACKGROUND.forget(self.close)
        stack, self._stack, self._judge = self._stack, None, None
        if stack is not None:
            await stack.aclose()


class WithSession(Generic[JudgeT]):
    """A judge that connects to its endpoint at the first call, until the end of the process or of `with`."""

    def __init__(
        self,
        settings_type: type[SettingsT],
        settings: Mapping[str, object],
        factory: Callable[[SettingsT, ChatClient], JudgeT],
        *,
        offline: bool,
        offline_prompts: Sequence[str | PromptFormat] = (),
    ) -> None:
        """Check the settings; connections are opened at the first call.

        Args:
            settings_type: the settings class of the judge.
            settings: the given settings by name.
            factory: makes the judge.
            offline: use the stand-in as the judge model, without key or network; its scores mean nothing.
            offline_prompts: prompts that are not of this project's judges, for the stand-in.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        self.settings = settings_from_keywords(settings_type, settings)
        own = self.settings
        self._session = JudgeSession[JudgeT](
            own, lambda client: factory(own, client), offline=offline, offline_prompts=offline_prompts
        )

    def close(self) -> None:
        """Close the endpoint's connections; the next call opens them again."""
        BACKGROUND.run(self._session.close())

    def __enter__(self) -> Self:
        """The judge."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the endpoint's connections."""
        self.close()
