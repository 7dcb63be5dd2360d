"""Examples of Hypothesis have no time limit: no test asserts a time. Assertions of helpers explain themselves.

Tests in this process do not wait for the disk: what they write need not outlive the machine.
Asynchronous ones run on the loop of commands.
"""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from judgegym.llm.client import ChatClient, ChatSettings
from judgegym.llm.cost.budget import Budget
from judgegym.llm.providers import ApiName
from judgegym.llm.refusals import request_fields
from judgegym.llm.types import Endpoint
from tests.chromium import browser  # noqa: F401  # a fixture: tests name it as an argument
from tests.forking import HEAD_START_S
from tests.scripted import ScriptedEndpoint

MODEL = "judge-model"
pytest_plugins = ("tests.gate",)

# What is ignored here, each child would ignore, too: SIGINT in the background of a script, SIGHUP
# under nohup.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
pytest.register_assert_rewrite("tests.conformance.lab")


@pytest.fixture(autouse=True, scope="session")
def _short_head_start() -> Iterator[None]:
    """Scripts that answer only when several requests have arrived need not wait long for the second one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_fields, "HEAD_START_S", HEAD_START_S)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_wait_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of commands, for all tests."""
    try:
        import uvloop
    except ImportError:  # as in an installation of the core alone
        return {"commands": asyncio.new_event_loop}
    return {"commands": uvloop.new_event_loop}


gc.disable()  # until all is imported and collected, which stays until the end


def pytest_collection_finish() -> None:
    """Take what was imported and collected out of the garbage collector's rounds."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _nothing_learned() -> None:
    """What a test has learned of its endpoints is not true of those of the next one, which may have their ports."""
    request_fields.forget_all()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the machine that runs the tests must not stand between them and their endpoints."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause that was asked for, in order; none of them takes any time."""
    asked: list[float] = []
    sleep = asyncio.sleep

    async def pass_at_once(seconds: float, result: Any = None) -> Any:
        if seconds > 0:
            asked.append(seconds)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", pass_at_once)
    return asked


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
        api: ApiName = "openai",
        model: str = MODEL,
        **settings: Any,
    ) -> ChatClient:
        secret = None if key is None else SecretStr(key)
        urls = [target if isinstance(target, str) else target.base_url for target in targets]
        settings = {
            "retry_delay_s": 0.0,
            "timeout_s": 30.0,
            "deadline_s": 60.0,
            "away_deadline_s": 0.3,
            **settings,
        }
        endpoints = tuple(Endpoint(url, model, secret, api=api) for url in urls)
        chat = ChatSettings(endpoints=endpoints, **settings)
        clients.append(ChatClient(chat, cache=cache, session=session, budget=budget))
        return clients[-1]

    yield build
    for client in clients:
        await client.close()
