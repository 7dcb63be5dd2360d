"""`--group_size` and `--group_wait`: what they refuse, and for which mounts they hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym.server.core import Core
from judgegym.server.settings import JudgeMount, RewardServerSettings
from tests.core.server.running import running


def judges(**settings: Any) -> dict[str, JudgeMount]:
    return RewardServerSettings(**settings).mounted_judges()


def test_mount_that_sees_each_response_alone_is_named() -> None:
    with pytest.raises(
        SettingsError, match=r"^mounts\.safety\.group_size: the judge aspect .*alone"
    ):
        judges(judge="listwise", mounts={"safety": {"judge": "aspect", "group_size": 4}})


@pytest.mark.parametrize(
    ("judge", "most"), [("choice", 26), ("tournament", 64), ("arena_hard", 64), ("listwise", 256)]
)
def test_group_size_is_within_the_judges_own_limit(judge: Any, most: int) -> None:
    assert judges(judge=judge, group_size=most)[""].group_size == most
    with pytest.raises(
        SettingsError, match=f"^--group_size: .*at most {most} responses, found {most + 1}$"
    ):
        judges(judge=judge, group_size=most + 1)


@pytest.mark.parametrize("size", [1, 0, -8])
def test_group_of_one_is_none(size: int) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 2"):
        judges(judge="listwise", group_size=size)


@pytest.mark.parametrize("wait", [30, 31.5])
def test_wait_leaves_the_judge_a_part_of_the_deadline(wait: float) -> None:
    with pytest.raises(SettingsError, match=rf"^--group_wait: .*deadline of 30 s.*found {wait:g}$"):
        judges(judge="listwise", group_size=8, group_wait=wait, deadline=30)


def test_wait_is_half_of_the_deadline_if_not_set() -> None:
    plan = judges(judge="listwise", group_size=8, deadline=30)[""].cohort_limits(30)
    assert plan == (8, 15.0)
    assert judges(judge="listwise", deadline=30)[""].cohort_limits(30) is None


def test_mount_inherits_the_size_of_a_group_only_if_it_compares() -> None:
    mounts = {"safety": {"judge": "aspect"}, "best": {"judge": "choice"}, "own": {"group_size": 4}}
    found = judges(judge="listwise", group_size=8, group_wait=5, mounts=mounts)
    assert {name: mount.group_size for name, mount in found.items()} == {
        "": 8,
        "safety": None,
        "best": 8,
        "own": 4,
    }


async def test_core_of_a_process_refuses_the_same_in_one_line() -> None:
    mounts = {"m": JudgeMount(judge="rubric", group_size=8, judge_base_url="http://127.0.0.1:1/v1")}
    with pytest.raises(SettingsError, match=r"^judge 'm': group_size: the judge rubric .*alone"):
        await Core(mounts, deadline_s=10, max_pending=10).__aenter__()


@pytest.mark.parametrize("judge", ["tournament", "arena_hard", "listwise"])
async def test_judge_of_groups_with_self_critique_is_refused(judge: str) -> None:
    flags = (f"--judge={judge}", "--group_size=4", "--judge_critique_rounds=1")
    with pytest.raises(SettingsError, match="judge_critique_rounds"):
        async with running(*flags):
            pass


async def test_arena_hard_with_self_critique_judges_against_a_baseline_and_refuses_groups() -> None:
    async with running(
        "--judge=arena_hard", "--judge_critique_rounds=1", judge="[[A=B]]"
    ) as server:
        against = await server.post("/v1/score", {"prompt": "Q", "response": "A", "baseline": "B"})
        group = await server.post("/v1/score", {"prompt": "Q", "responses": ["A", "B"]})
    assert against.json["score"] == 0.5
    assert group.status == 422
    assert "judge_critique_rounds" in group.json["error"]["message"]


@pytest.mark.parametrize("judge", ["listwise", "tournament", "arena_hard", "choice"])
async def test_single_response_without_a_group_is_told_of_its_three_ways(judge: str) -> None:
    async with running(f"--judge={judge}") as server:
        answer = await server.post("/v1/score", {"prompt": "Q", "response": "A"})
    assert answer.status == 422
    assert "--group_size" in json.dumps(answer.json)
    assert "responses" in answer.json["error"]["message"]
    assert server.judge.requests == []
