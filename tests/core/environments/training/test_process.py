"""`process`: the groups that `serve` would send, in a file."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.task_list import epoch_order
from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.arena import Arena, uid_of
from tests.command import Ended, in_process, serving
from tests.core.environments.training.test_sampler import rows
from tests.scripted import Json, Reply, Script, ScriptedEndpoint
from tests.serving import Verdict, first_wins, judging, sampling

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


def process(
    arena: Arena,
    *flags: str,
    policy: Script | ScriptedEndpoint | None = None,
    verdict: Verdict = first_wins,
) -> Run:
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


@pytest.mark.slow
def test_offline_answers_that_are_cut_off_have_no_end_token(tmp_path: Path) -> None:
    """The stand-in counts words and marks: none of its whole answers has exactly as many as the longest."""
    from transformers import AutoTokenizer

    longest = 125
    tokenizer: Any = AutoTokenizer.from_pretrained(BUNDLED_TOKENIZER)
    path = tmp_path / "groups.jsonl"
    flags = "--env.total_steps=3", "--env.group_size=4", f"--env.train_max_tokens={longest}"
    ended = in_process("process", "--offline", *flags, f"--env.data_path_to_save_groups={path}")
    assert ended.code == 0, ended.said
    cut_off = []
    for group in (json.loads(line) for line in path.read_bytes().splitlines()):
        for mask, turns in zip(group["masks"], group["messages"], strict=True):
            text = turns[-1]["content"]
            cut_off.append(len(re.findall(r"\w+|[^\w\s]", text)) == longest)
            generated = tokenizer.decode([token for token in mask if token != -100])
            assert generated == text + ("" if cut_off[-1] else "<|im_end|>")
    assert set(cut_off) == {True, False}


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_is_there_stays(arena: Arena) -> None:
    path = arena.path / "mine" / "groups.jsonl"
    path.parent.mkdir()
    path.write_text("mine")
    flags = (
        "--env.total_steps=1",
        f"--env.data_path_to_save_groups={path}",
        "--env.write_report=True",
    )
    assert process(arena, *flags).ended.code == 0
    assert process(arena, *flags).ended.code == 0
    assert path.read_text() == "mine"
    names = {
        f"groups{number}.{kind}" for number in ("_1", "_2") for kind in ("jsonl", "html", "run")
    }
    assert {each.name for each in path.parent.iterdir()} == {"groups.jsonl", *names}


@pytest.mark.parametrize("steps", ["0", "-1"])
def test_the_number_of_groups_is_needed(arena: Arena, steps: str) -> None:
    run = process(arena, f"--env.total_steps={steps}")
    assert run.ended.code == 2
    said = run.ended.err.replace("\n", " ")
    assert "--env.total_steps: " in said and f"groups, got {steps}" in said
    assert not run.policy.requests
    assert not (arena.path / "data").exists()


@pytest.mark.slow
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
    assert re.search("2 of 2 groups .*not be scored", run.ended.err)
    assert "the key is wrong" in run.ended.err
    assert not groups(arena)
    assert len({uid_of(body) for body in run.policy.bodies}) == 6


def run_of(arena: Arena) -> str:
    return f"--env.data_path_to_save_groups={arena.path / 'data' / 'arena_hard.jsonl'}"


@pytest.mark.slow
def test_the_command_that_resumes_names_the_file_that_was_free(arena: Arena) -> None:
    assert process(arena, "--env.total_steps=1").ended.code == 0
    run = process(arena, "--env.total_steps=1", verdict=lambda uid, index, as_a: Reply(status=400))
    assert run.ended.code == 1
    *_, command = run.ended.err.rstrip().splitlines()
    assert shlex.split(command)[-2:] == [
        "--env.data_path_to_save_groups=data/arena_hard_1.jsonl",
        "--resume",
    ]
    again = process(arena, "--env.total_steps=1", *shlex.split(command)[-2:])
    assert again.ended.code == 0, again.ended.said
    assert again.policy.requests == []
    assert groups(arena, "data/arena_hard_1.jsonl") == groups(arena)


@pytest.mark.slow
def test_without_keep_calls_a_complete_run_keeps_no_answers_and_is_not_resumed(
    arena: Arena,
) -> None:
    flags = "--env.total_steps=1", "--keep_calls=False"
    assert process(arena, *flags).ended.code == 0
    assert not list((arena.path / "data" / "arena_hard.run").glob("calls*"))
    run = process(arena, *flags, run_of(arena), "--resume")
    assert run.ended.code == 2
    assert "not kept (--keep_calls=False)" in run.ended.err.replace("\n", " ")
    assert not run.policy.requests
    assert len(groups(arena)) == 1
