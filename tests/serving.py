"""`serve` in this event loop, of Arena-Hard unless told otherwise: each answer says which request and choice it is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from judgegym.engine.completions import Clients
from judgegym.engine.metrics import Metrics
from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.training.connection import TrainerConnection
from judgegym.environments.training.group_file import resolve_paths
from judgegym.environments.training.rollout_api import RolloutApi
from judgegym.environments.training.serve import ServeRun
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.llm.http.exchange import open_session
from tests.arena import Arena, against_model, for_model, model_is_a, uid_of
from tests.command import PATIENCE_S
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion

PROMPT_IDS = [7, 8, 9]
_runs = itertools.count()
_ANSWER = re.compile(r"ANSWER (\d+) of request (\d+)")

Text = Callable[[Json, int, int], str]
"""What a policy writes, from the request, its number and the number of the choice."""

Verdict = Callable[[str, int, bool], "Reply | str"]
"""What a judge answers to one game, from the row's id, the number of the choice, and whether it is shown as A."""


def answer(request: Json, number: int, index: int) -> str:
    """A text from which `which` reads its request and its place in the group."""
    return f"ANSWER {index} of request {number}, about {uid_of(request)}"


def which(text: str) -> tuple[int, int]:
    """Place in the group, and number of the policy's request, of a text of `answer`."""
    found = _ANSWER.search(text)
    assert found is not None, text
    return int(found.group(1)), int(found.group(2))


def with_tokens(body: Json, number: int = 0) -> Json:
    """A chat completion as vLLM gives it with `return_token_ids` and `logprobs`; ids that no tokenizer here has."""
    for index, choice in enumerate(body["choices"]):
        ids = [100_000 * (number + 1) + 1000 * index + place for place in range(5 + index)]
        choice["token_ids"] = ids
        choice["logprobs"] = {
            "content": [{"token": "?", "logprob": -1 - place / 8} for place in range(len(ids))]
        }
    return {**body, "prompt_token_ids": PROMPT_IDS}


def sampling(text: Text = answer) -> Callable[[Json, int], Reply]:
    """A policy that returns what it sampled."""

    def script(request: Json, number: int) -> Reply:
        texts = [text(request, number, index) for index in range(request.get("n", 1))]
        return Reply(body=with_tokens(completion(*texts), number))

    return script


def first_wins(uid: str, index: int, as_a: bool) -> str:
    """A judge for which the first completion of each group wins and the others lose: 1, −1, −1, …"""
    return for_model(uid, as_a) if index == 0 else against_model(uid, as_a)


def judging(verdict: Verdict = first_wins) -> Callable[[Json, int], Reply | str]:
    """A judge by row, choice and order."""

    def script(request: Json, _: int) -> Reply | str:
        return verdict(
            uid_of(request),
            which(request["messages"][1]["content"])[0],
            model_is_a(request),
        )

    return script


@dataclass(frozen=True)
class Served:
    """A `serve` that runs, and its endpoints."""

    env: JudgedEnv[Any, Any, Any]
    connection: TrainerConnection
    serving: ServeRun
    run: asyncio.Task[None]
    policy: ScriptedEndpoint
    judge: ScriptedEndpoint

    async def ended(self) -> None:
        """Wait until it has ended by itself."""
        await asyncio.wait_for(asyncio.shield(self.run), PATIENCE_S)

    def counted(self, reason: str) -> float:
        """Groups that were dropped for this reason."""
        return self.serving.metrics.flush(max_token_len=-1).values.get(
            f"train/groups_dropped_{reason}", 0
        )


async def no_evaluation(step: int) -> Metrics:
    return Metrics({}, {})


@asynccontextmanager
async def serve(
    arena: Arena,
    api: str,
    *flags: str,
    policy: Script | ScriptedEndpoint | None = None,
    judge: Script | None = None,
    evaluate: Callable[[int], Awaitable[Metrics]] = no_evaluation,
    env_type: type[JudgedEnv[Any, Any, Any]] = ArenaHardEnv,
) -> AsyncIterator[Served]:
    """Serve while the block lasts: groups of four, retries without pauses, unless `flags` say otherwise.

    `policy` may be an endpoint of another kind.
    """
    async with (
        open_session() as session,
        policy
        if isinstance(policy, ScriptedEndpoint)
        else ScriptedEndpoint(policy or sampling()) as answering,
        ScriptedEndpoint(judge or judging()) as judging_,
    ):
        argv = [
            *arena.flags,
            f"--openai.base_url={answering.base_url}",
            f"--env.judge_base_url={judging_.base_url}",
            f"--env.rollout_server_url={api}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.group_size=4",
            "--env.retry_delay=0",
            *flags,
        ]
        settings: Any = load_settings(env_type, argv, verb="serve").settings
        resolve_paths(settings, lambda: arena.path / f"serve-{next(_runs)}")
        clients = Clients(settings, session)
        env = env_type(settings, clients, verb="serve")
        connection = TrainerConnection(RolloutApi(api, session), settings.env, env.spec.name)
        serving = ServeRun(env, connection, evaluate)
        run = asyncio.create_task(serving.run())
        try:
            yield Served(env, connection, serving, run, answering, judging_)
        finally:
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run
            clients.close()
