"""Who may call: tokens in a header, in the user part of the URL, in the path; and that no token is shown."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from urllib.parse import quote

import aiohttp
import pytest

from judgegym.server.operation import JsonFormatter
from tests.core.server.running import running

ASK = {"prompt": "Q", "response": "A"}
TOKEN = "open-sesame"
TOKENS = f'--tokens={{"trainer-a": "{TOKEN}", "trainer-b": "swordfish"}}'
OPENRLHF = {"query": ["QA"], "prompts": ["Q"], "labels": [None]}


def basic(user: str, password: str = "") -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


async def test_the_token_of_a_header_and_of_a_urls_user_part() -> None:
    headers = [
        basic(TOKEN),
        basic("trainer-a", TOKEN),
        basic("anybody", "swordfish"),
        basic("trainer-a"),
        basic(""),
        basic(TOKEN[:-1]),
        {"Authorization": "Basic !"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"bearer {TOKEN}"},
        {"Authorization": "Bearer swordfish"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {},
    ]
    async with running(TOKENS) as server:
        statuses = [(await server.post("/v1/score", ASK, **each)).status for each in headers]
        with_user = server.url.replace("://", f"://{TOKEN}@")
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{with_user}/get_reward", json=OPENRLHF) as answer,
        ):
            sent = answer.status
        closed = [
            (await server.get(path)).status for path in ("/metrics", "/v1/recent", "/reverify_mode")
        ]
        opened = [
            (await server.get(path)).status
            for path in ("/", "/healthz", "/readyz", "/openapi.json")
        ]
    assert (closed, opened) == ([401] * 3, [200] * 4)
    assert statuses == [200] * 3 + [401] * 5 + [200] * 2 + [401] * 3
    assert sent == 200


async def test_a_token_in_a_path_is_not_needed_where_none_is() -> None:
    async with running() as server:
        answer = await server.post("/token/anything/v1/score", ASK)
    assert answer.status == 200


@pytest.mark.slow
async def test_no_token_is_shown_anywhere(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = "päss word%41"
    tokens = json.dumps({"a": TOKEN, "b": odd})
    paths = [
        f"/token/{TOKEN}/slime",
        f"/token/{quote(odd)}/slime",
        f"/token/{TOKEN}/nothing/here",
        f"/token/{TOKEN}",
        f"//token/{TOKEN}/slime",
        f"/%74oken/{TOKEN}/slime",
        f"/safety/token/{TOKEN}/slime",
    ]
    with caplog.at_level(logging.DEBUG):
        async with running(f"--tokens={tokens}") as server:
            answers = [await server.post(path, ASK) for path in paths]
            answers += [await server.get(f"/token/{TOKEN}/slime")]
            answers += [await server.post("/slime", "{", **basic(TOKEN))]
            answers += [
                await server.get(path, **basic(TOKEN))
                for path in ("/v1/recent", "/metrics", "/openapi.json")
            ]
            answers += [await server.get("/"), await server.get("/readyz")]
    assert [answer.status for answer in answers[:3]] == [200, 200, 401]
    lines = "".join(
        JsonFormatter().format(record)
        for record in caplog.records
        if record.name.startswith("judgegym")
    )
    out = capfd.readouterr()
    shown = "".join(
        [lines, out.out, out.err, *(answer.text + str(dict(answer.headers)) for answer in answers)]
    )
    assert '"path":"/token/…/slime"' in lines and '"caller":"a"' in lines
    assert TOKEN not in shown
    assert "päss" not in shown
