"""A bare aiohttp forwarder: the reward server's work without its rules.

    python -m benchmarks.reward_server.forwarder JUDGE_URL TEMPLATE

Reads the body of `/get_reward`, puts prompt and response into the judge's prompt (`TEMPLATE` is a
call of the reward server with placeholders for both, so that the bytes are the same), sends it,
reads one number, answers.
"""

from __future__ import annotations

import asyncio
import re
import sys

import aiohttp
import orjson
from aiohttp import web

from benchmarks.reward_server.processes import allow_descriptors
from judgegym.judges.core import event_loop

PROMPT, RESPONSE = "@@THE PROMPT@@", "@@THE RESPONSE@@"
_SCORE = re.compile(r"\[SCORE\]\s*(\d+)\s*$")


async def _serve(url: str, template: str) -> None:
    call = orjson.loads(template)
    system, user = call["messages"]
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def reward(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        query, prompt = body["query"][0], body["prompts"][0]
        shown = user["content"].replace(PROMPT, prompt).replace(RESPONSE, query[len(prompt) :])
        data = orjson.dumps({**call, "messages": [system, {"role": "user", "content": shown}]})
        headers = {"Content-Type": "application/json"}
        async with session.post(
            f"{url}/v1/chat/completions", data=data, headers=headers
        ) as response:
            answer = orjson.loads(await response.read())
        score = _SCORE.search(answer["choices"][0]["message"]["content"])
        value = 0.0 if score is None else (int(score[1]) - 1) / 4
        logs = {"judge_failed": [float(score is None)], "invalid_completion": [0.0]}
        told = orjson.dumps({"rewards": [value], "scores": [value], "extra_logs": logs})
        return web.Response(body=told, content_type="application/json")

    app = web.Application()
    app.router.add_post("/get_reward", reward)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(f"listens at http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    allow_descriptors()
    event_loop.run(_serve(sys.argv[1], sys.argv[2]))
