"""`process`: the groups that `serve` would send, in a file."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from environments.data.rows import epoch_order
from environments.settings import BUNDLED_TOKENIZER
from tests.arena import Arena, for_model, uid_of
from tests.command import Ended, as_process, in_process, serving
from tests.environments.training.test_sampler import rows
from tests.scripted import Json, Reply, Script, ScriptedEndpoint
from tests.serving import Verdict, answer, first_wins, judging, sampling

Groups = list[dict[str, Any]]


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.chdir(tmp_path)
    return Arena(tmp_path).rows(8)


@dataclass(frozen=True)
class Run:
    ended: Ended
    policy: ScriptedEndpoint
    judge: ScriptedEndpoint


def process(arena: Arena, *flags: str, policy: Script | None = None, verdict: Verdict = first_wins) -> Run:
    with ExitStack() as stack:
        answers = stack.enter_context(serving(policy or sampling()))
        judges = stack.enter_context(serving(judging(verdict)))
        ended = in_process(
            "process",
            *arena.flags,
            f"--openai.base_url={answers.base_url}",
            f"--env.judge_base_url={judges.base_url}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.retry_delay=0",
            *flags,
        )
    return Run(ended, answers, judges)


def groups(arena: Arena, name: str = "data/arena_hard.jsonl") -> Groups:
    return [json.loads(line) for line in (arena.path / name).read_bytes().splitlines()]


def uids(found: Groups) -> list[str]:
    return [uid_of({"messages": [group["messages"][0][0]]}) for group in found]


def order(count: int) -> list[str]:
    return [row.uid for row in epoch_order(rows(8), seed=0, epoch=0)][:count]


def test_offline_as_a_process(tmp_path: Path) -> None:
    flags = "--env.total_steps=3", "--env.group_size=2", "--env.train_max_tokens=100"
    ended = as_process("process", "--offline", *flags, cwd=tmp_path)
    assert ended.code == 0, ended.said
    found = [json.loads(line) for line in (tmp_path / "data" / "arena_hard.jsonl").read_bytes().splitlines()]
    assert [len(group["tokens"]) for group in found] == [2, 2, 2]
    assert all(len(group["inference_logprobs"]) == len(group["messages"]) == 2 for group in found)
    assert len(set(uids_of_prompts(found))) == 3
    assert (tmp_path / "data" / "arena_hard.html").stat().st_size > 1000
    assert "data/arena_hard.html" in ended.out
    assert "no benchmark result" in ended.out
    assert "train/winrate" in ended.out


def uids_of_prompts(found: Groups) -> list[str]:
    return [group["messages"][0][0]["content"] for group in found]


def test_groups_stand_in_the_order_of_their_rows(arena: Arena) -> None:
    """The first row's answer is held back until a group behind it is written and the last one is begun."""
    last_begun = asyncio.Event()

    async def held(request: Json, number: int) -> Reply:
        if number == 4:
            last_begun.set()
        if uid_of(request) == order(1)[0]:
            await last_begun.wait()
        return sampling()(request, number)

    run = process(arena, "--env.total_steps=4", "--env.max_num_workers=3", policy=held)
    assert run.ended.code == 0, run.ended.said
    assert uids(groups(arena)) == order(4)
    assert [body["n"] for body in run.policy.bodies] == [4] * 4


def test_model_text_is_no_markup(arena: Arena) -> None:
    evil = "<script>alert(1)</script>"
    policy = sampling(lambda request, number, index: answer(request, number, index) + evil)
    run = process(arena, "--env.total_steps=1", policy=policy)
    assert run.ended.code == 0, run.ended.said
    page = (arena.path / "data" / "arena_hard.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 4
    assert all(turns[-1]["content"].endswith(evil) for turns in groups(arena)[0]["messages"])


def test_what_is_there_stays(arena: Arena) -> None:
    path = arena.path / "mine" / "groups.jsonl"
    path.parent.mkdir()
    path.write_text("mine")
    flags = "--env.total_steps=1", f"--env.data_path_to_save_groups={path}"
    assert process(arena, *flags).ended.code == 0
    assert process(arena, *flags).ended.code == 0
    assert path.read_text() == "mine"
    names = {f"groups{number}.{kind}" for number in ("_1", "_2") for kind in ("jsonl", "html")}
    assert {each.name for each in path.parent.iterdir()} == {"groups.jsonl", *names}


@pytest.mark.parametrize("steps", ["0", "-1"])
def test_the_number_of_groups_is_needed(arena: Arena, steps: str) -> None:
    run = process(arena, f"--env.total_steps={steps}")
    assert run.ended.code == 2
    assert f"--env.total_steps: process needs the number of groups, got {steps}" in run.ended.err.replace("\n", " ")
    assert not run.policy.requests
    assert not (arena.path / "data").exists()


@pytest.mark.parametrize(
    ("flags", "kept"), [((), order(3)), (("--env.ensure_scores_are_not_same=True",), order(4)[1:])]
)
def test_groups_without_a_signal_are_kept_unless_told_otherwise(
    arena: Arena, flags: tuple[str, ...], kept: list[str]
) -> None:
    equal = order(1)[0]

    def verdict(uid: str, index: int, as_a: bool) -> str:
        return for_model(uid, as_a) if uid == equal else first_wins(uid, index, as_a)

    run = process(arena, "--env.total_steps=3", "--env.max_num_workers=1", *flags, verdict=verdict)
    assert run.ended.code == 0, run.ended.said
    assert sorted(uids(groups(arena))) == sorted(kept)


def test_a_group_that_cannot_be_scored_is_another_rows(arena: Arena) -> None:
    failing = order(1)[0]

    def verdict(uid: str, index: int, as_a: bool) -> Reply | str:
        return Reply(status=400) if uid == failing else first_wins(uid, index, as_a)

    run = process(arena, "--env.total_steps=2", "--env.max_num_workers=1", verdict=verdict)
    assert run.ended.code == 0, run.ended.said
    assert uids(groups(arena)) == order(3)[1:]


@pytest.mark.parametrize("broken", ["judge", "policy"])
def test_too_few_groups(arena: Arena, broken: str) -> None:
    """It gives up each group after three rows, says so and fails."""
    refuses = Reply(status=400, body={"error": {"message": "the key is wrong"}})
    run = process(
        arena,
        "--env.total_steps=2",
        policy=(lambda request, number: refuses) if broken == "policy" else None,
        verdict=(lambda uid, index, as_a: refuses) if broken == "judge" else first_wins,
    )
    assert run.ended.code == 1
    assert "2 of 2 groups could not be scored" in run.ended.err
    assert "the key is wrong" in run.ended.err
    assert not groups(arena)
    assert len({uid_of(body) for body in run.policy.bodies}) == 6
