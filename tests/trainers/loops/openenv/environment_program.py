"""Asks a served environment for rewards, over HTTP and with OpenEnv's client, and prints them.

Arguments: completions by row id as JSON, the README's example of a client. The environment
variables name the environment.
"""

import asyncio
import json
import sys

import httpx
from openenv.core.generic_client import GenericEnvClient

from judgegym_trainers.openenv.client import CompletionAction, SingleTurnClient

sys.path.insert(0, __file__.rpartition("/")[0])
from serving import serving

completions, example = json.loads(sys.argv[1]), sys.argv[2]
asked = [(uid, text) for uid, texts in completions.items() for text in texts]


async def with_client(url, uid, text):
    async with SingleTurnClient(base_url=url) as client:
        row = await client.reset(uid=uid, episode_id="mine")
        assert row.reward is None and not row.done and row.observation.messages
        result = await client.step(CompletionAction(completion=text))
        state = await client.state()
        assert result.done and state.done and state.step_count == 1 and state.episode_id == "mine"
        return [result.reward, result.metadata, result.observation.metadata == result.metadata]


async def over_http(http, uid, text):
    answer = await http.post("/step", json={"action": {"completion": text, "uid": uid}})
    body = answer.json()
    return [answer.status_code, body["reward"], body["done"], body["observation"]["metadata"]]


async def errors(url, http):
    async with GenericEnvClient(base_url=url) as client:
        said = []
        for ask in (
            lambda: client.step({"completion": "too early"}),
            lambda: client.reset(uid="nobody"),
            lambda: client.reset(index=-1),
            lambda: client.reset(split="holdout"),
        ):
            try:
                await ask()
            except RuntimeError as error:
                said.append(str(error))
    answer = await http.post("/step", json={"action": {"completion": "whose?"}})
    return [*said, answer.status_code, answer.json()["detail"]]


async def late(http):
    """A step whose time is over when it begins."""
    action = {"completion": "An answer that is late.", "uid": asked[0][0]}
    body = (await http.post("/step", json={"action": action, "timeout_s": 1e-9})).json()
    return [body["reward"], body["done"], body["metadata"]]


async def tasks(http, name):
    task = {"split": "train", "index": 1}
    return {
        "splits": (await http.get(f"/{name}/splits")).json(),
        "count": (await http.post(f"/{name}/num_tasks", json={"split": "eval"})).json(),
        "tasks": (await http.post(f"/{name}/tasks", json={"split": "train"})).json()["tasks"],
        "task": (await http.post(f"/{name}/task", json=task)).json()["task"],
        "beyond": (
            await http.post(f"/{name}/task", json={"split": "train", "index": 999})
        ).status_code,
        "row": (await http.post("/reset", json=task)).json()["observation"],
    }


async def main(app):
    with serving(app) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            name = (await http.get("/metadata")).json()["name"]
            seeds = [
                (await http.post("/reset", json={"seed": seed})).json()
                for seed in (1, 1, 2, 3, 4, 5)
            ]
            space = {"CompletionAction": CompletionAction, "SingleTurnClient": SingleTurnClient}
            exec(example.replace("http://127.0.0.1:8000", url), space)
            return {
                "client": await asyncio.gather(*(with_client(url, *each) for each in asked)),
                "http": await asyncio.gather(*(over_http(http, *each) for each in asked)),
                "example": await space["rollout"](lambda messages: messages[-1]["content"], 1),
                "seeds": [answer["observation"]["uid"] for answer in seeds],
                "same": seeds[0] == seeds[1],
                "health": (await http.get("/health")).json(),
                "schema": sorted((await http.get("/schema")).json()["action"]["properties"]),
                "state": (await http.get("/state")).json(),
                "errors": await errors(url, http),
                "tasks": await tasks(http, name),
                "late": await late(http),
            }


if __name__ == "__main__":
    from judgegym_trainers.openenv.app import app

    print(json.dumps(asyncio.run(main(app))))
