"""Training by rubrics, and training a judge on gold scores: rubric-absolute's `serve` into the real rollout API."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.llm.errors import SettingsError
from tests.arena import Arena
from tests.command import in_process, write_lines
from tests.judged import Row
from tests.rubrics import giving, labelled, score, shown, task
from tests.scripted import Json, Script, refusing
from tests.serving import Served, Text, sampling, serve
from tests.trainer import Batch, training

GROUP = 4


def attempt(request: Json, number: int, index: int) -> str:
    return f"Attempt {index} at it."


def serving(
    path: Path, api: str, rows: list[Row], *flags: str, judge: Script, policy: Text = attempt
) -> AbstractAsyncContextManager[Served]:
    data = write_lines(path / "train.jsonl", rows)
    arena = Arena(path, [f"--env.train_dataset={data}", "--env.include_messages=True", *flags])
    return serve(arena, api, policy=sampling(policy), judge=judge, env_type=RubricAbsoluteEnv)


async def one_batch(
    path: Path, rows: list[Row], *flags: str, judge: Script, policy: Text = attempt
) -> Batch:
    """Two groups."""
    async with (
        training(2 * GROUP) as trainer,
        serving(path, trainer.url, rows, *flags, judge=judge, policy=policy) as served,
    ):
        (batch,) = await trainer.take()
        assert "--env.role=judge" not in flags or served.judge.requests == [], (
            "the policy is the only judge"
        )
    return batch


def unused(request: Json, number: int) -> str:
    raise AssertionError("an unexpected request")


@pytest.mark.parametrize(
    ("reward", "scores"),
    [("distance", [1, 0.75, 0, 0.5]), ("squared", [1, 15 / 16, 0, 0.75]), ("exact", [1, 0, 0, 0])],
)
async def test_a_policy_that_judges_is_rewarded_for_nearness(
    tmp_path: Path, reward: str, scores: list[float]
) -> None:
    def policy(request: Json, number: int, index: int) -> str:
        return (score(4), score(5), "I cannot say.", score(2))[index]

    flags = "--env.role=judge", f"--env.reward={reward}", "--env.samples_per_item=3"
    batch = await one_batch(tmp_path, [labelled(0, 4)], *flags, judge=unused, policy=policy)
    for group in batch:
        assert (
            shown({"messages": group["messages"][0][:-1]})["Response To Evaluate"] == "Response 0."
        )
        assert group["scores"] == scores
        assert group["overrides"] is None
        statuses = [turns[-1]["judgment"]["status"] for turns in group["messages"]]
        assert statuses == ["ok", "ok", "invalid_completion", "ok"]


async def test_a_judge_without_probabilities_ends_the_training(tmp_path: Path) -> None:
    """It is a setting to mend, and not a judge that may recover."""
    with pytest.raises(SettingsError, match="weighting=logprobs"):
        async with (
            training(2 * GROUP) as trainer,
            serving(
                tmp_path,
                trainer.url,
                [task(0)],
                "--env.weighting=logprobs",
                judge=giving(lambda i, r: 3),
            ) as served,
        ):
            await served.ended()


@pytest.mark.parametrize("role", ["judge", "policy"])
def test_without_usable_rows_it_does_not_begin(tmp_path: Path, role: str) -> None:
    rows = [task(0)] if role == "judge" else [task(0, rubric=None)]
    data = write_lines(tmp_path / "train.jsonl", rows)
    with refusing() as url:
        flags = (
            f"--openai.base_url={url}",
            f"--env.judge_base_url={url}",
            f"--env.rollout_server_url={url}",
        )
        argv = [
            "serve",
            *flags,
            f"--env.role={role}",
            f"--env.train_dataset={data}",
            "--env.steps_per_eval=-1",
        ]
        ended = in_process(*argv, env_type=RubricAbsoluteEnv)
    assert ended.code == 2, ended.said
    said = " ".join(ended.said.split())
    assert ("a gold score" if role == "judge" else "env.default_rubric") in said
    assert "Traceback" not in said
