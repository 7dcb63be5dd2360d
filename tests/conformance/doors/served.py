"""The doors of the reward server: its first judge and a mount, through each protocol, and its gold judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp

from judgegym.judges.config.sources import load
from judgegym.llm.errors import SettingsError
from judgegym.server.http import listening
from judgegym.server.service import open_service
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.conformance.doors.commands import scores_of_gold
from tests.conformance.doors.door import Door, RefusedError, Scores, Visit
from tests.conformance.doors.judges import OTHER_PROMPT_FILE, QUESTIONS
from tests.core.server.bodies import VERIFY
from tests.core.server.running import PLACE, Answer, answer_of
from tests.scripted import Json


@asynccontextmanager
async def served(visit: Visit, *flags: str) -> AsyncIterator[Server]:
    """A reward server in this process.

    Raises:
        RefusedError: its settings are wrong.
    """
    try:
        loaded = load(
            RewardServerSettings, [*PLACE, *visit.place(), *flags], prog="test", reshape=add_preset
        )
        server = open_service(loaded)
        service = await server.__aenter__()
    except SettingsError as error:
        raise RefusedError(2, str(error)) from error
    try:
        async with aiohttp.ClientSession() as session, listening(service) as (_, port):
            yield Server(f"http://127.0.0.1:{port}", session)
    finally:
        await server.__aexit__(None, None, None)


class Server:
    """A server as trainers see it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session

    async def post(self, path: str, body: Json) -> Answer:
        async with self.session.post(self.url + path, json=body) as response:
            return await answer_of(response)


async def native(server: Server, mount: str, **more: Any) -> list[Answer]:
    bodies = [
        {"prompt": question, "response": text, **more} for question, text in QUESTIONS.items()
    ]
    return [await server.post(f"{mount}/v1/score", body) for body in bodies]


async def nemo_gym(server: Server, mount: str, **more: Any) -> list[Answer]:
    return [
        await server.post(f"{mount}/verify", {**_rollout(*each), **more})
        for each in QUESTIONS.items()
    ]


def _rollout(question: str, text: str) -> Json:
    output = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    asked = {"responses_create_params": {"input": [{"role": "user", "content": question}]}}
    return {**asked, "response": {**VERIFY["response"], "output": [output]}}


async def openrlhf(server: Server, mount: str, **more: Any) -> list[Answer]:
    queries = [f"{question} {text}" for question, text in QUESTIONS.items()]
    prompts = [f"{question} " for question in QUESTIONS]
    return [
        await server.post(f"{mount}/get_reward", {"query": queries, "prompts": prompts, **more})
    ]


async def slime(server: Server, mount: str, **more: Any) -> list[Answer]:
    bodies = [
        {"prompt": question, "response": text, **more} for question, text in QUESTIONS.items()
    ]
    return [await server.post(f"{mount}/slime", body) for body in bodies]


PROTOCOLS = {"native": native, "nemo_gym": nemo_gym, "openrlhf": openrlhf, "slime": slime}


def scores_of(protocol: str, answers: Sequence[Answer]) -> Scores:
    """The scores in the answers of a protocol."""
    assert [answer.status for answer in answers] == [200] * len(answers), [
        answer.text for answer in answers
    ]
    if protocol == "openrlhf":
        rewards: Scores = answers[0].json["rewards"]
        return rewards
    names = {"native": "score", "nemo_gym": "reward"}
    return [
        answer.json if protocol == "slime" else answer.json[names[protocol]] for answer in answers
    ]


def _first(protocol: str, visit: Visit) -> Scores:
    async def asked() -> Sequence[Answer]:
        async with served(visit, *visit.flags()) as server:
            return await PROTOCOLS[protocol](server, "")

    return scores_of(protocol, asyncio.run(asked()))


def _mount(protocol: str, visit: Visit) -> Scores:
    """A mount beside a rule."""

    async def asked() -> Sequence[Answer]:
        mounts = visit.flags(mounts={"own": visit.settings})
        async with served(
            visit, "--judge=rule", "--rule=length", "--rule_hard_limit=9", *mounts
        ) as server:
            if protocol == "nemo_gym":
                return await nemo_gym(server, "", judge_mount="own")
            return await PROTOCOLS[protocol](server, "/own")

    return scores_of(protocol, asyncio.run(asked()))


def _beside_a_prompt_file(visit: Visit) -> Scores:
    """A mount beside another prompt file, which it does not take over."""
    other = visit.folder / "other.yaml"
    other.write_text(OTHER_PROMPT_FILE, encoding="utf-8")

    async def asked() -> Sequence[Answer]:
        async with served(
            visit, f"--judge={other}", *visit.flags(mounts={"own": visit.settings})
        ) as server:
            return await native(server, "/own")

    return scores_of("native", asyncio.run(asked()))


def _beside(visit: Visit) -> Scores:
    """A mount by a rubric beside the judge under test, of which it takes over nothing."""

    async def asked() -> Sequence[Answer]:
        mounts = visit.flags(mounts={"rubric": {"judge": "rubric", "weighting": "none"}})
        async with served(visit, *visit.flags(), *mounts) as server:
            own = await native(server, "")
            other = await native(server, "/rubric", reference="It takes three days.")
        assert scores_of("native", other) == [1.0, 0.0] or visit.endpoint is None
        if visit.endpoint is not None:
            shown = [
                json.dumps(body)
                for body in visit.endpoint.bodies
                if "### Score Rubric" in json.dumps(body)
            ]
            assert all("It takes three days." in text for text in shown) and len(shown) >= len(
                QUESTIONS
            )
        return own

    return scores_of("native", asyncio.run(asked()))


def _gold(visit: Visit) -> Scores:
    """The gold judge of a judge by a rubric."""

    async def asked() -> None:
        flags = visit.flags(judge="rubric", gold_judge=visit.of_gold())
        async with served(
            visit, *flags, "--gold_share=1", f"--run_dir={visit.folder / 'watched'}"
        ) as server:
            await native(server, "")

    asyncio.run(asked())
    return scores_of_gold(visit.folder / "watched")


SERVED = (
    *(Door(f"server-{name}", partial(_first, name)) for name in PROTOCOLS),
    *(Door(f"mount-{name}", partial(_mount, name)) for name in PROTOCOLS),
    Door("server-beside-a-mount", _beside),
    Door("mount-beside-a-prompt-file", _beside_a_prompt_file),
    Door("server-gold-judge", _gold),
)
