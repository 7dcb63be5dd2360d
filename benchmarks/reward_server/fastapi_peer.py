"""The peer as users write it today: FastAPI, AsyncOpenAI, one coroutine a response.

    python -m benchmarks.reward_server.fastapi_peer JUDGE_URL TEMPLATE

The same prompt as the reward server's (`TEMPLATE`, as for the forwarder), sent by the client that
everybody takes. Its packages are those that atroposlib brings; nothing of ours needs them.
"""

# No `from __future__ import annotations`: FastAPI reads the annotations of a function inside a
# function.
import asyncio
import json
import re
import socket
import sys

import uvicorn
from fastapi import FastAPI
from openai import AsyncOpenAI
from pydantic import BaseModel

from benchmarks.reward_server.forwarder import PROMPT, RESPONSE


class Body(BaseModel):
    """What the trainer sends."""

    query: list[str]
    prompts: list[str]
    labels: list[str | None] | None = None


def app(url: str, template: str) -> FastAPI:
    """The application."""
    call = json.loads(template)
    system, user = call["messages"]
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
    served = FastAPI()

    async def score(query: str, prompt: str) -> float:
        shown = user["content"].replace(PROMPT, prompt).replace(RESPONSE, query[len(prompt) :])
        answer = await client.chat.completions.create(
            **{**call, "messages": [system, {"role": "user", "content": shown}]}
        )
        found = re.search(r"\[SCORE\]\s*(\d+)\s*$", answer.choices[0].message.content or "")
        return (int(found.group(1)) - 1) / 4 if found else 0.0

    @served.post("/get_reward")
    async def get_reward(body: Body) -> dict[str, object]:
        tasks = (
            score(query, prompt) for query, prompt in zip(body.query, body.prompts, strict=True)
        )
        scores = await asyncio.gather(*tasks)
        logs = {"judge_failed": [0.0] * len(scores), "invalid_completion": [0.0] * len(scores)}
        return {"rewards": scores, "scores": scores, "extra_logs": logs}

    return served


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(f"listens at http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app(sys.argv[1], sys.argv[2]), log_level="warning", backlog=4096)
    uvicorn.Server(config).run(sockets=[listening])
