"""NeMo Gym's own command with our resources server, spawned and external, as the README calls it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.core.offline.server import serving
from tests.core.server.running import running
from tests.core.server.served import as_process
from tests.listwise import judging
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.trainer import free_port
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.nemo_gym.gym import Gym, Project, project
from tests.trainers.loops.nemo_gym.policy import policy
from tests.trainers.loops.offline import OfflineJudge

REPEATS = 4
GROUP: Json = {"group": {"judge": "listwise", "group_size": REPEATS, "group_wait": 60}}
QUESTION = "Why is the sky blue during the day and red in the evening?"
TEXTS = [
    "It is {n}.",
    "The sky is blue during the day, says number {n}.",
    "Air scatters blue light more than red light, so the sky is blue during the day; in the "
    "evening the light has lost "
    "its blue, and the sky is red: answer {n}.",
    "Number {n}: red in the evening because sunlight then takes a longer path through air.",
]
pytestmark = pytest.mark.timeout(6 * trainers.PATIENCE_S)


class Judge:
    """The judge of the servers, which changes while they run."""

    def __init__(self) -> None:
        self.now: Callable[[Json, int], Reply | str] = OfflineJudge()

    def __call__(self, request: Json, number: int) -> Reply | str:
        return self.now(request, number)


def row(says: str, **fields: Any) -> Json:
    params = {"input": [{"role": "user", "content": QUESTION}], "metadata": {"says": says}}
    return {"responses_create_params": params, **fields}


def text_of(rollout: Json) -> str:
    return str(rollout["response"]["output"][-1]["content"][0]["text"])


async def ours(rollouts: list[Json]) -> list[float]:
    """The scores of `/v1/score` for the answers of rollouts, each of which is judged alone."""
    async with running(judge=OfflineJudge()) as server:
        bodies = [{"prompt": QUESTION, "response": text_of(each)} for each in rollouts]
        return [(await server.post("/v1/score", body)).json["score"] for body in bodies]


async def ours_of_group(rollouts: list[Json]) -> list[float]:
    """The scores of `/v1/score` for the answers of a group."""
    async with running("--judge=listwise", judge=by_number) as server:
        body = {"prompt": QUESTION, "responses": [text_of(each) for each in rollouts]}
        return [
            result["score"] for result in (await server.post("/v1/score", body)).json["results"]
        ]


by_number = judging(lambda text, place: int(re.findall(r"\d+", text)[-1]) / 100)
"""A judge of groups that scores each answer by the number in it, in whatever order it sees them."""


@asynccontextmanager
async def spawned(made: Project, judge_url: str, policy_url: str) -> AsyncIterator[None]:
    """The server that `gym` spawns."""
    port = free_port()
    block = "++judgegym.resources_servers.judgegym"
    command = example("NeMo Gym", "bash", 1).splitlines()[1]
    command = swap(
        command, ("http://127.0.0.1:8000/v1", policy_url), ("http://127.0.0.1:8001/v1", judge_url)
    )
    mounts = f"{block}.reward_server.mounts='{json.dumps(GROUP)}'"
    more = (f"{block}.port={port}", f"{block}.reward_server.judge_max_retries=0", mounts)
    async with made.started(command, *more) as said:
        assert f"All {made.gym.servers + 1} / {made.gym.servers + 1} servers ready" in said
        yield


@asynccontextmanager
async def external(made: Project, judge_url: str, policy_url: str) -> AsyncIterator[None]:
    """A server that runs already; `gym` starts the others."""
    flags = (
        "--for=nemo_gym",
        f"--judge_base_url={judge_url}",
        "--judge_model_name=judge",
        "--judge_max_retries=0",
    )
    with as_process(*flags, f"--mounts={json.dumps(GROUP)}") as url:
        command = example("NeMo Gym", "bash", 4)
        command = swap(
            command, ("http://127.0.0.1:8000/v1", policy_url), ("8400", url.rpartition(":")[2])
        )
        async with made.started(command) as said:
            assert f"All {made.gym.servers} / {made.gym.servers} servers ready" in said
            assert "DEPRECATED: agents without an environment server" not in said
            yield


FORMS = {"spawned": spawned, "external": external}


# Losses: NeMo Gym's collector | – | server | safe
@pytest.mark.parametrize("form", FORMS)
async def test_gym_collects_our_rewards_leaves_failures_out_and_resumes(
    form: str, gym: Gym, tmp_path: Path
) -> None:
    collect = example("NeMo Gym", "bash", 2)
    judge = Judge()
    async with policy() as policy_url, ScriptedEndpoint(judge) as endpoint:
        made = await project(gym, tmp_path)
        async with FORMS[form](made, endpoint.base_url, policy_url):
            made.write("rows.jsonl", [row(text) for text in TEXTS])
            code, said = await made.run(collect)
            assert code == 0, said
            clean = made.lines("rollouts.jsonl")
            assert [each["reward"] for each in clean] == await ours(clean)
            assert (len(clean), made.lines("rollouts_failures.jsonl")) == (4 * REPEATS, [])
            assert len({each["reward"] for each in clean}) > 1
            (metrics,) = json.loads((tmp_path / "rollouts_aggregate_metrics.json").read_text())
            assert metrics["key_metrics"]["mean/reward"] == pytest.approx(
                mean_reward(clean), abs=1e-12
            )
            assert (
                metrics["agent_metrics"]["num_failed"],
                len(metrics["group_level_metrics"]),
            ) == (0, 4)

            judge.now = planted = OfflineJudge(every_third_fails=True)
            code, said = await made.run(collect)
            assert code == 0, said
            kept, failed = made.lines("rollouts.jsonl"), made.lines("rollouts_failures.jsonl")
            assert (len(kept), len(failed)) == (11, 5)
            assert [each["reward"] for each in kept] == await ours(kept)
            assert all(planted.has_failed(text_of(each)) for each in failed)
            assert {(each["_ng_failure_class"], each["mask_sample"]) for each in failed} == {
                ("judge_failed", True)
            }
            assert all(each["failure_reason"] for each in failed)
            (metrics,) = json.loads((tmp_path / "rollouts_aggregate_metrics.json").read_text())
            assert metrics["key_metrics"]["mean/reward"] == pytest.approx(
                mean_reward(kept), abs=1e-12
            )
            assert metrics["agent_metrics"]["num_failed"] == (5 if gym.aggregates_failures else 0)

            judge.now = OfflineJudge()
            code, said = await made.run(collect.strip() + " --resume")
            assert code == 0, said
            whole = made.lines("rollouts.jsonl")
            assert "5 rows that still need to be run" in said
            assert (
                len({(each["_ng_task_index"], each["_ng_rollout_index"]) for each in whole})
                == 4 * REPEATS
            )
            assert [each["reward"] for each in whole] == await ours(whole)

            judge.now = by_number
            made.write("rows.jsonl", [row(text, judge_mount="group") for text in TEXTS])
            code, said = await made.run(collect.strip().replace("rollouts.jsonl", "groups.jsonl"))
            assert code == 0, said
            for task in range(len(TEXTS)):
                group = [
                    each for each in made.lines("groups.jsonl") if each["_ng_task_index"] == task
                ]
                group.sort(key=lambda each: each["_ng_rollout_index"])
                assert len(group) == REPEATS
                assert [each["reward"] for each in group] == await ours_of_group(group)
                assert len({each["reward"] for each in group}) == REPEATS


async def test_the_offline_start_of_the_page_gives_rollouts_that_differ_in_their_rewards(
    gym: Gym, tmp_path: Path
) -> None:
    start, collect = example("NeMo Gym", "bash", 3).splitlines()
    made = await project(gym, tmp_path)
    async with (
        serving() as stand_in,
        made.started(start.replace("http://127.0.0.1:8000", stand_in)),
    ):
        code, said = await made.run(collect)
    assert code == 0, said
    rollouts, rows = (
        made.lines("rollouts.jsonl"),
        made.lines("resources_servers/judgegym/data/example.jsonl"),
    )
    assert (len(rollouts), made.lines("rollouts_failures.jsonl")) == (REPEATS * len(rows), [])
    assert len({each["reward"] for each in rollouts}) > 1


def mean_reward(rollouts: list[Json]) -> float:
    return sum(each["reward"] for each in rollouts) / len(rollouts)
