"""How TRL makes batches: several steps and iterations over one, evaluations with groups of another size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.server.running import running
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge
from tests.trainers.loops.trl.asked import (
    environment,
    environments_rewards,
    logged,
    servers_scores,
    single,
)

TEXTS = [
    f"Turns strings such as 1h30m into {'seconds, ' * number}and so on." for number in range(8)
]
ROWS = [
    {"prompt": "How do I turn 1h30m into seconds?", "baseline": f"{number} functions"}
    for number in range(2)
]
SETTINGS = {
    "steps_per_generation": 2,
    "num_iterations": 2,
    "max_steps": 4,
    "num_generations_eval": 2,
    "per_device_eval_batch_size": 4,
    "eval_strategy": "steps",
    "eval_steps": 4,
}


@pytest.mark.timeout(150)
async def test_a_batch_is_judged_once_and_evaluations_in_groups_of_their_own_size(
    tmp_path: Path,
) -> None:
    judge = OfflineJudge()
    async with running(
        '--mounts={"games": {"judge": "tournament", "schedule": "circular"}}', judge=judge
    ) as server:
        listwise = environment("arena_hard", server.judge.base_url, group_judge="listwise")
        shape = {
            "per_device": 4,
            "generations": 4,
            "texts": TEXTS,
            "config": SETTINGS,
            "evaluate": True,
        }
        games = {"games": {"url": server.url, "mount": "games", "group_size": 4}}
        runs = {
            "server": {**shape, "reward": games, "rows": ROWS},
            "compared": {**shape, "environment": listwise, "door": "reward", "rows": 2},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        assert ended.code == 0, ended.err
        groups = [TEXTS[:4], TEXTS[4:]]
        scores = [
            await servers_scores(server, {**row, "responses": group}, "/games/v1/score")
            for row, group in zip(ROWS, groups, strict=True)
        ]
        rewards = single(await environments_rewards(listwise, groups))
        small = [TEXTS[:2], TEXTS[2:4]]
        evaluated = [
            await servers_scores(server, {**row, "responses": group}, "/games/v1/score")
            for row, group in zip(ROWS, small, strict=True)
        ]
        evaluated_rewards = single(await environments_rewards(listwise, small))
    server_run, compared = ended.result["server"], ended.result["compared"]
    assert logged(server_run, "games")[:8] == single(
        [score for of_row in scores for score in of_row]
    )
    assert logged(compared, "arena_hard")[:8] == rewards
    assert evaluated_mean(server_run, "games") == pytest.approx(
        sum(map(sum, evaluated)) / 4, rel=1e-6
    )
    assert evaluated_mean(compared, "arena_hard") == pytest.approx(
        sum(evaluated_rewards) / 4, rel=1e-6
    )


def evaluated_mean(run: dict, name: str) -> float:
    entry = next(entry for entry in run["log"] if "eval_reward" in entry)
    return float(entry[f"eval_rewards/{name}/mean"])


@pytest.mark.timeout(150)
async def test_the_examples_train(tmp_path: Path) -> None:
    judge = OfflineJudge()
    async with running('--mounts={"best": {"judge": "listwise"}}', judge=judge) as server:
        endpoint = (
            f'"judge_base_url": "{server.judge.base_url}", "judge_model_name": "m", '
            '"judge_api_key": "k"'
        )
        functions = swap(
            example("TRL"),
            ('{"invalid_thinking_reward"', f'{{{endpoint}, "invalid_thinking_reward"'),
            ("http://127.0.0.1:8400", server.url),
        )
        factory = functions.partition("reward =")[0] + example("TRL", number=1)
        shape = {"per_device": 4, "generations": 4, "texts": [*TEXTS[:3], ""]}
        runs = {
            "functions": {**shape, "example": functions},
            "factory": {**shape, "example": factory, "door": "factory"},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        assert ended.code == 0, ended.err
        settings = {"invalid_thinking_reward": -1.0}
        arena = environment("arena_hard", server.judge.base_url, **settings)
        rewards = await environments_rewards(arena, [shape["texts"]])
        prompt = ended.result["functions"]["tables"][0][0]["prompt"]
        body = {"prompt": prompt, "responses": shape["texts"]}
        helpful = await servers_scores(server, body)
        best = await servers_scores(server, body, "/best/v1/score")
    functions_run, factory_run = ended.result["functions"], ended.result["factory"]
    assert (logged(functions_run, "arena_hard"), logged(factory_run, "arena_hard")) == (
        rewards,
        single(rewards),
    )
    assert rewards[3] == -1.0
    assert logged(functions_run, "helpful") == [*helpful[:3], 0.0]  # the last is empty
    assert logged(functions_run, "best") == [*best[:3], 0.0]
    parts = zip(rewards, [*helpful[:3], 0.0], [*best[:3], 0.0], strict=True)
    sums = [one + (two + three) / 2 for one, two, three in parts]
    assert logged(functions_run, "combined") == pytest.approx(sums, rel=1e-6)
    assert (functions_run["sockets"], factory_run["open"]) == (0, 0)
