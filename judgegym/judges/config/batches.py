"""The settings of batches, and a judge's client that uses them.

With these settings a judge's requests go through a provider's batch endpoint, for half the price.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import aiohttp
from pydantic import BaseModel

from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.fields import operational
from judgegym.judges.config.judge import JudgeSettings
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import BatchKind, BatchOptions, ChatSettings

BATCH_PRICE_SHARE = 0.5
"""The price of a request in a provider's batch, as a share of its live price (OpenAI,
Anthropic)."""
BATCH_VERBS = ("evaluate", "process")


class JudgeBatchSettings(BaseModel, use_attribute_docstrings=True):
    """Whether and how a judge's requests are sent in batches."""

    help_group: ClassVar[str] = "judge"

    judge_batch: BatchKind | None = operational(None, verbs=BATCH_VERBS, common=True)
    """Send the judge's requests in batches, which cost half and may take hours. openai: OpenAI's
    files and batches. anthropic: Anthropic's message batches (judge_api=anthropic). folder: files
    for vllm run-batch. If unset, requests are sent live."""
    judge_batch_folder: Path | None = operational(None, verbs=BATCH_VERBS)
    """Write batches to this folder as NAME.jsonl, and wait for NAME.out.jsonl there
    (judge_batch=folder)."""
    judge_batch_rows: int = operational(10_000, verbs=BATCH_VERBS, ge=1)
    """Keep at most this many rows or groups in progress; their requests form the batches."""
    judge_batch_lines: int = operational(50_000, verbs=BATCH_VERBS, ge=1, le=100_000)
    """Put at most this many requests into one batch."""
    judge_batch_retries: int = operational(3, verbs=BATCH_VERBS, ge=0)
    """Send a request again at most this many times if its line in a batch has no usable
    response."""
    judge_batch_fallback: Literal["batch", "live"] = operational("batch", verbs=BATCH_VERBS)
    """Choose how to send a request again whose batch expired, was cancelled or left it out: in the
    next batch, or live."""
    judge_batch_price: float | None = operational(None, verbs=BATCH_VERBS, ge=0, le=1)
    """Count a request in a batch with this share of its live price; if unset, 0.5, and 1 for a
    folder."""
    judge_batch_poll: float = operational(30.0, verbs=BATCH_VERBS, gt=0)
    """Check open batches every this many seconds."""
    judge_batch_quiet: float = operational(60.0, verbs=BATCH_VERBS, gt=0)
    """Send a batch after this many seconds without a new request, even if a row might still add
    one; it is sent immediately if all rows wait for batches."""

    def max_rows_in_progress(self, live: int) -> int:
        """Return how many rows may be in progress; `live` if requests are sent live."""
        if self.judge_batch is None:
            return live
        return self.judge_batch_rows

    @property
    def batch_share(self) -> float:
        """The price of a judge's request in a batch, as a share of its live price."""
        if self.judge_batch_price is not None:
            return self.judge_batch_price
        if self.judge_batch == "folder":
            return 1.0
        return BATCH_PRICE_SHARE

    def apply_batches(self, chat: ChatSettings) -> ChatSettings:
        """Return the client settings with batches, if the user has chosen them.

        Raises:
            SettingsError: the judge's endpoint does not support this kind of batch.
        """
        if self.judge_batch is None:
            return chat
        if chat.identity == STAND_IN_IDENTITY and self.judge_batch != "folder":
            raise SettingsError(
                f"--{chat.section}judge_batch: the stand-in of --offline has no batches; leave out "
                "one of the two"
            )
        if self.judge_batch == "folder" and self.judge_batch_folder is None:
            raise SettingsError(
                f"--{chat.section}judge_batch=folder needs --{chat.section}judge_batch_folder"
            )
        batch = BatchOptions(
            self.judge_batch,
            self.judge_batch_folder,
            share=self.batch_share,
            lines=self.judge_batch_lines,
            retries=self.judge_batch_retries,
            is_live_after=self.judge_batch_fallback == "live",
            poll_s=self.judge_batch_poll,
        )
        return configure_batch(chat, batch)


def configure_batch(chat: ChatSettings, batch: BatchOptions) -> ChatSettings:
    """Return the client settings with batches, and with the prices of batches.

    Raises:
        SettingsError: its endpoint cannot be asked in this kind of batch.
    """
    api, flag = chat.endpoints[0].api, f"--{chat.section}judge_batch={batch.kind}"
    expected_api = "anthropic" if batch.kind == "anthropic" else "openai"
    if api != expected_api:
        raise SettingsError(f"{flag}: expected judge_api={expected_api}, found judge_api={api}")
    if len(chat.endpoints) > 1:
        endpoint_count = len(chat.endpoints)
        raise SettingsError(
            f"{flag}: expected one base URL, found {endpoint_count}: a batch has one endpoint"
        )
    live = chat.prices
    batch = replace(batch, live_prices=live, live_concurrency=chat.max_concurrency)
    return replace(chat, batch=batch, prices=live.scale(batch.share))


async def open_client(
    stack: AsyncExitStack,
    settings: JudgeSettings,
    *,
    identity: str = "",
    session: aiohttp.ClientSession | None = None,
    budget: Budget | None = None,
    retry_delay: float = 1.0,
    make: Callable[..., ChatClient] = ChatClient,
    make_cache: Callable[[Path], JudgmentCache] = JudgmentCache,
) -> ChatClient:
    """Open a chat client for the judge's endpoint; `stack` closes it.

    `make` and `make_cache` create client and cache.

    Raises:
        SettingsError: the endpoint needs an API key and there is none, the judgment cache cannot be
            opened, or the budget is in dollars and the judge's price is unknown.
    """
    cache = None
    if settings.judge_cache is not None:
        cache = make_cache(settings.judge_cache)
        stack.callback(cache.close)
    chat = settings.chat_settings(section="", identity=identity, retry_delay=retry_delay)
    if isinstance(settings, JudgeBatchSettings):
        chat = settings.apply_batches(chat)
    return await stack.enter_async_context(make(chat, cache=cache, session=session, budget=budget))
