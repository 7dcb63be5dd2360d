"""What the tests of the judges share: clients of scripted endpoints."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from judges.llm.client import ChatClient, ChatSettings
from judges.llm.limits.budget import Budget
from judges.llm.replicas import Endpoint
from tests.scripted import ScriptedEndpoint

MODEL = "judge-model"


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., ChatClient]]:
    """Builds clients of scripted endpoints or base URLs, which retry without pauses unless told otherwise."""
    clients: list[ChatClient] = []

    def build(
        *targets: ScriptedEndpoint | str,
        key: str | None = None,
        cache: Any = None,
        session: Any = None,
        budget: Budget | None = None,
        **settings: Any,
    ) -> ChatClient:
        secret = None if key is None else SecretStr(key)
        urls = [target if isinstance(target, str) else target.base_url for target in targets]
        settings = {"retry_delay_s": 0.0, "timeout_s": 30.0, "deadline_s": 60.0, "away_deadline_s": 0.3, **settings}
        endpoints = tuple(Endpoint(url, MODEL, secret) for url in urls)
        chat = ChatSettings(endpoints=endpoints, **settings)
        clients.append(ChatClient(chat, cache=cache, session=session, budget=budget))
        return clients[-1]

    yield build
    for client in clients:
        await client.close()
