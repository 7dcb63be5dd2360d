"""An environment of ours in Atropos' own hands: its registration, its workers, its `process`, its checkpoints."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.base import JudgedEnv
from judgegym.environments.training.atropos import AtroposEnv
from tests.core.environments.words import WordsEnv, opened
from tests.scripted import Json, Reply, Script, ScriptedEndpoint
from tests.serving import sampling
from tests.trainer import Group, Trainer, training

GROUP = 4


def every_other_right(request: Json, number: int, index: int) -> str:
    word: str = request["messages"][-1]["content"].partition(": ")[2]
    return word if index % 2 else "something else"


@asynccontextmanager
async def driven(
    path: Path,
    *flags: str,
    policy: Script | Reply | None = None,
    env_type: type[JudgedEnv[Any, Any, Any]] = WordsEnv,
) -> AsyncIterator[tuple[AtroposEnv, ScriptedEndpoint]]:
    argv = (
        f"--env.group_size={GROUP}",
        f"--env.data_dir_to_save_evals={path / 'evaluations'}",
        *flags,
    )
    script = policy or sampling(every_other_right)
    async with opened(script, *argv, verb="serve", env_type=env_type) as (env, endpoint):
        yield AtroposEnv(env), endpoint


async def join(env: AtroposEnv) -> None:
    """What `env_manager` does ahead of its loop, without its pause of five seconds."""
    await env.setup()
    await env.setup_wandb()
    await env.register_env()
    await env.get_server_info()


async def turn(env: AtroposEnv) -> None:
    """One turn of the loop of `env_manager`, and the end of the workers that it began."""
    await env.get_status()
    await env.env_step_checks()
    await env.add_train_workers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Atropos warns of a trainer without a longest sequence
        await asyncio.gather(*env.workers)


async def batches(trainer: Trainer, count: int = 1) -> list[Group]:
    return [group for batch in await trainer.take(count) for group in batch]


@pytest.mark.slow
async def test_its_workers_send_groups_to_the_real_api(tmp_path: Path) -> None:
    async with training(2 * GROUP) as trainer:
        flags = f"--env.rollout_server_url={trainer.url}", "--env.max_batches_offpolicy=1"
        async with driven(tmp_path, *flags) as (env, endpoint):
            await join(env)
            await turn(env)
            groups = await batches(trainer)
    assert env.wandb_prepend == "words_0"
    assert [group["scores"] for group in groups] == [[0.0, 1.0, 0.0, 1.0]] * 2
    assert all(
        len(sequences) == GROUP
        for group in groups
        for sequences in (group["tokens"], group["masks"])
    )
    assert all(
        len(logprobs) == GROUP for logprobs in (group["inference_logprobs"] for group in groups)
    )
    assert len({body["messages"][-1]["content"] for body in endpoint.bodies}) == 2
    assert env.backlog == []


async def test_a_row_whose_policy_failed_is_none_and_is_not_asked_again(tmp_path: Path) -> None:
    """The client has tried until the policy's deadline."""

    def script(request: Json, number: int) -> Reply:
        return Reply(status=500) if number == 1 else sampling(every_other_right)(request, number)

    async with driven(tmp_path, "--env.max_retries=0", policy=script) as (env, _):
        item = await env.get_next_item()
        assert await env.collect_trajectories(item) == (None, [])
        assert env.sampler_state["unfinished"] == []


@pytest.mark.slow
async def test_its_evaluation_is_one_of_ours_and_logged_with_the_next_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def policy(request: Json, number: int) -> Reply | str:
        way, _, word = request["messages"][-1]["content"].partition(": ")
        if "n" in request:
            return sampling(every_other_right)(request, number)
        return word if way == "forwards" else word[::-1]

    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "atroposlib.envs.base.wandb.log", lambda metrics, step: logged.append(metrics)
    )
    async with driven(tmp_path, policy=policy) as (env, _):
        env.config.use_wandb = True
        await env._run_evaluate()
        await env.collect_trajectories(await env.get_next_item())
        await env.wandb_log()
        await env.wandb_log()
    assert (tmp_path / "evaluations" / "step-0" / "metrics.json").exists()
    assert (logged[0]["eval/total_samples"], logged[0]["eval/step"]) == (8, 0)
    assert (logged[0]["train/right"], logged[0]["train/groups_judged"]) == (0.5, 1)
    assert "eval/total_samples" not in logged[1], "it is logged once"


async def test_its_checkpoint_holds_the_order_of_the_rows(tmp_path: Path) -> None:
    async with driven(tmp_path) as (env, _):
        env.checkpoint_dir, env.wandb_prepend, env.curr_step = str(tmp_path), "words_0", 3
        for _ in range(3):
            await env.collect_trajectories(await env.get_next_item())
        unfinished = await env.get_next_item()
        env.save_checkpoint(3)
        following = [(await env.get_next_item()).uid for _ in range(4)]
    async with driven(tmp_path) as (other, _):
        other.checkpoint_dir, other.wandb_prepend, other.curr_step = str(tmp_path), "words_0", 3
        other.load_checkpoint()
        assert [(await other.get_next_item()).uid for _ in range(5)] == [unfinished.uid, *following]
