"""The same promises, whichever way the server is started; Ray Serve's are in tests/trainers/loops/ray."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.core.server.bindings import BINDINGS
from tests.core.server.bodies import by_response
from tests.core.server.promises import PROMISES, SETTINGS
from tests.core.server.running import Reached


@pytest.mark.slow("command-serves_many_at_once")
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_what_the_server_promises(
    binding: str, promise: Callable[[Reached], Awaitable[None]]
) -> None:
    async with BINDINGS[binding](SETTINGS, by_response) as server:
        await promise(server)
