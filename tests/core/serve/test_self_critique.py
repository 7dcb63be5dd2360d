"""Training a candidate before frozen peers: `serve` of peer evaluation into the real rollout API."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.arena import Arena
from tests.command import write_lines
from tests.peers import REFUSED, Asked, Minds, Said, asked, peer, queries
from tests.scripted import Json, ScriptedEndpoint, refusing
from tests.serving import Served, sampling, serve
from tests.trainer import Group, training, until

GROUP = 4
NAMES = ("ann", "bob")
Scoring = Callable[[str, int], Said]
"""A judge's score, from its name and the rollout's place in the group."""


def rollout(request: Json, number: int, index: int) -> str:
    return f"ROLLOUT {index} of {request['messages'][-1]['content']}"


def place(it: Asked) -> int:
    """Which of the group is judged."""
    found = re.match(r"ROLLOUT (\d)", it.response)
    assert found is not None
    return int(found[1])


def lenient_ann(name: str, index: int) -> Said:
    """60, 70, 80, 90 of ann before her critique takes ten points away; 40, 50, 60, 70 of bob."""
    return (60 if name == "ann" else 40) + 10 * index


def minds(scoring: Scoring, critique: Callable[[Asked], Said] | None = None) -> Minds:
    return Minds(
        judgment=lambda it: scoring(it.model, place(it)),
        critique=critique or (lambda it: it.score - 10 if it.model == "ann" else it.score),
    )


@asynccontextmanager
async def peers(
    path: Path,
    api: str,
    script: Minds,
    *flags: str,
    text: Callable[[Json, int, int], str] = rollout,
) -> AsyncIterator[tuple[Served, ScriptedEndpoint]]:
    """Serve one query, one group after the other, before ann and bob."""
    data = write_lines(path / "train.jsonl", queries(1))
    arena = Arena(
        path,
        [f"--env.train_dataset={data}", "--env.max_num_workers=1", "--env.include_messages=True"],
    )
    async with ScriptedEndpoint(script) as endpoint:
        named = json.dumps([{"name": name, "base_url": endpoint.base_url} for name in NAMES])
        async with serve(
            arena,
            api,
            f"--env.judges={named}",
            *flags,
            policy=sampling(text),
            env_type=SelfCritiqueEnv,
        ) as served:
            yield served, endpoint


async def first_group(
    path: Path, script: Minds, *flags: str, **how: Callable[[Json, int, int], str]
) -> tuple[Group, list[Asked]]:
    """The first group that a trainer gets, and what the peers were asked of it."""
    async with (
        training(GROUP) as trainer,
        peers(path, trainer.url, script, *flags, **how) as (_, endpoint),
    ):
        ((group,),) = await trainer.take()
        return group, [asked(body) for body in endpoint.bodies]


def zeroed(group: Group) -> list[bool]:
    """Which rollouts have no advantage."""
    return [bool(each.get("set_advantage_to_zero")) for each in group["overrides"] or [{}] * GROUP]


@pytest.mark.slow
async def test_a_judge_that_fails_on_one_rollout_is_taken_into_account(tmp_path: Path) -> None:
    """Bob's 60 for the third rollout becomes the 65 that both would have given, and no zero or sixty."""

    def scoring(name: str, index: int) -> Said:
        return REFUSED if (name, index) == ("ann", 2) else lenient_ann(name, index)

    group, _ = await first_group(tmp_path, minds(scoring))
    assert group["scores"] == pytest.approx([0.45, 0.55, 0.65, 0.75])
    assert zeroed(group) == [False] * GROUP


@pytest.mark.slow
async def test_judges_that_failed_on_a_rollout_are_asked_once_more(tmp_path: Path) -> None:
    """The second answers count like any other; they do not fit an additive table, so that an adjustment would show."""
    failing = {("ann", 2), ("bob", 2), ("bob", 1)}

    def scoring(name: str, index: int) -> Said:
        if (name, index) in failing:
            failing.remove((name, index))
            return "I cannot say."
        return (30, 30, 90, 60)[index] if name == "ann" else 40

    group, _ = await first_group(tmp_path, minds(scoring, lambda it: it.score))
    assert not failing
    assert group["scores"] == pytest.approx([0.35, 0.35, 0.65, 0.5])


@pytest.mark.slow
async def test_what_no_judge_could_score_gets_the_mean_and_no_advantage(tmp_path: Path) -> None:
    def scoring(name: str, index: int) -> Said:
        return REFUSED if index == 1 else lenient_ann(name, index)

    group, _ = await first_group(tmp_path, minds(scoring))
    others = [0.45, 0.65, 0.75]
    assert group["scores"] == pytest.approx([0.45, sum(others) / 3, 0.65, 0.75])
    assert zeroed(group) == [False, True, False, False]


@pytest.mark.slow
async def test_adjusted_rewards_stay_on_the_scale(tmp_path: Path) -> None:
    """Bob, forty below ann, is alone in giving the last one 90: as both would, it were 110."""

    def scoring(name: str, index: int) -> Said:
        if (name, index) == ("ann", 3):
            return REFUSED
        return 90 if index == 3 else 80 + index if name == "ann" else 40 + index

    group, _ = await first_group(tmp_path, minds(scoring, lambda it: it.score))
    assert group["scores"] == pytest.approx([0.6, 0.61, 0.62, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda name, index: (name == "ann") == (index < 2), id="no judge in common"),
    ],
)
async def test_a_group_that_cannot_be_compared_is_not_sent(
    tmp_path: Path, fails: Callable[[str, int], bool]
) -> None:
    def scoring(name: str, index: int) -> Said:
        return REFUSED if fails(name, index) else lenient_ann(name, index)

    async with (
        training(GROUP) as trainer,
        peers(tmp_path, trainer.url, minds(scoring)) as (served, _),
    ):
        dropped = 0.0

        async def counted() -> bool:
            nonlocal dropped
            dropped += served.counted("judge_failed")
            return dropped > 0

        await until(counted, "a dropped group")
        assert await trainer.queued() == 0
        assert await trainer.poll() is None


@pytest.mark.slow
async def test_without_peers_the_judge_of_the_settings_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_lines(tmp_path / "train.jsonl", queries(1))
    # The metrics are read here: `serve` must not log them first, when the trainer's step has gone
    # on.
    monkeypatch.setattr("judgegym.environments.training.serve.MIN_GROUPS_LOGGED", 1_000_000)
    arena = Arena(tmp_path, [f"--env.dataset={data}", "--env.judge_model_name=judy"])
    script = minds(lenient_ann, lambda it: it.score + 5)
    async with (
        training(GROUP) as trainer,
        serve(
            arena, trainer.url, policy=sampling(rollout), judge=script, env_type=SelfCritiqueEnv
        ) as served,
    ):
        ((group,),) = await trainer.take()
        values = served.serving.metrics.flush(max_token_len=-1).values
        models = {asked(body).model for body in served.judge.bodies}
    assert group["scores"] == pytest.approx([0.45, 0.55, 0.65, 0.75])
    assert models == {"judy"}
    assert values["train/score_by_judy"] == pytest.approx(60)
    assert values["train/missing_cell_rate"] == 0


def test_serve_says_what_is_missing(tmp_path: Path) -> None:
    with refusing() as url:
        flags = (
            f"--openai.base_url={url}",
            f"--env.rollout_server_url={url}",
            "--env.steps_per_eval=-1",
        )
        without_data = peer("serve", *flags)
        data = write_lines(tmp_path / "rows.jsonl", queries(1))
        without_key = peer("serve", *flags, f"--env.dataset={data}")
    assert (without_data.code, without_key.code) == (2, 2), without_data.said + without_key.said
    assert "--env.dataset" in without_data.said
    assert "judge_api_key_env" in without_key.said
