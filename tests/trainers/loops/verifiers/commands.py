"""verifiers' own commands, run with a policy that streams, and what they leave on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from judgegym.offline.faults import send_completion
from judgegym.offline.request import make_completion, parse_request
from tests.core.offline.server import serving
from tests.trainers.loops import trainers
from tests.trainers.plugins.scoring_server import answering

PLUGINS = Path(__file__).parent / "plugins"


@dataclass(frozen=True)
class Attempt:
    """A trace, as verifiers has saved it.

    Attributes:
        data: the task's.
        reply: what the policy said last.
        ok: whether verifiers takes it for a success.
        rewards: by name; `None` is none.
        metrics: by name.
        errors: what went wrong.
        judge_calls: what the judges were asked and said.
    """

    data: Mapping[str, Any]
    reply: str
    ok: bool
    rewards: Mapping[str, float | None]
    metrics: Mapping[str, float]
    errors: Sequence[str]
    judge_calls: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, trace: Mapping[str, Any]) -> Attempt:
        rewards = {name: found and found["score"] for name, found in trace["rewards"].items()}
        sampled = [
            node["message"].get("content") or "" for node in trace["nodes"] if node.get("sampled")
        ]
        errors = [error["message"] for error in trace["errors"]]
        calls = trace["info"].get("judge_calls", [])
        data = trace["task"]["data"]
        return cls(
            data,
            sampled[-1].strip() if sampled else "",
            trace["ok"],
            rewards,
            trace["metrics"],
            errors,
            calls,
        )


@dataclass(frozen=True)
class Episode:
    """An episode: a rollout, or the attempts of a group."""

    ok: bool
    attempts: Sequence[Attempt]


async def command(name: str, *arguments: object) -> str:
    """Run one of verifiers' commands to its good end; returns what it logged."""
    place = trainers.place_of("verifiers") / "bin"
    ended = await trainers.run_with(
        str(place / "python"), place / name, *arguments, modules=PLUGINS
    )
    assert ended.code == 0, ended.err
    return ended.err


async def evaluated(folder: Path, policy: str, *arguments: object) -> list[Episode]:
    """`vf-eval` with a policy at this URL; its episodes, in the order of the tasks."""
    offline = (
        "--client.base-url",
        policy,
        "--client.api-key-var",
        "HOME",
        "--env.agent.runtime.type",
        "subprocess",
    )
    where = ("--no-push", "--no-rich", "-o", folder, "--run.name", "run", "--clean")
    await command("vf-eval", *arguments, "-m", "policy", *offline, *where)
    return episodes(folder / "run")


def episodes(folder: Path) -> list[Episode]:
    """The episodes of a run, in the order of the tasks."""
    lines = [json.loads(line) for line in (folder / "traces.jsonl").read_text().splitlines()]
    lines.sort(key=lambda line: line["task"]["data"]["idx"])
    return [Episode(line["ok"], [Attempt.of(trace) for trace in line["traces"]]) for line in lines]


def attempts(found: Sequence[Episode]) -> list[Attempt]:
    """All attempts of some episodes."""
    return [attempt for episode in found for attempt in episode.attempts]


@asynccontextmanager
async def stand_in() -> AsyncIterator[str]:
    """The base URL of the stand-in as policy: equal requests have equal answers."""
    async with serving() as root:
        yield f"{root}/v1"


_ANSWERS = (  # the stand-in's judge thinks differently of them
    "No idea.",
    "{question}",
    "{question} Since air scatters the blue light of the sun far more than its red light, in all "
    "directions.",
)


@asynccontextmanager
async def talker() -> AsyncIterator[str]:
    """The base URL of a policy that says something else each time that it is asked the same, and streams it."""
    asked = Counter[str]()

    async def answer(http: web.Request) -> web.StreamResponse:
        request = parse_request(await http.read())
        question = request.messages[-1].content
        asked[question] += 1
        said = asked[question]
        text = _ANSWERS[(said - 1) % len(_ANSWERS)].format(question=question)
        done = send_completion(request, make_completion(request, [f"{text} ({said})"]))
        return web.Response(body=done.body, headers=done.headers)

    async with answering(answer, path="/v1/chat/completions") as url:
        yield f"{url}/v1"
