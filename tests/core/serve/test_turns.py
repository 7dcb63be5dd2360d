"""`serve` of an environment with follow-ups, into the real rollout API."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.arena import Arena
from tests.serving import serve
from tests.talks import TalkEnv, Talker, says
from tests.trainer import Batch, training

GROUP = 4
_NO_TOKENIZER = ("--env.tokenizer_name=none/here",)
"""Nobody looks for it: the endpoint's own ids need none."""


async def batch_of(path: Path, talker: Talker, sequences: int, *flags: str) -> Batch:
    """A batch of one group after the other."""
    arena = Arena(path, ["--env.include_messages=True", "--env.max_num_workers=1"])
    async with (
        training(sequences) as trainer,
        serve(arena, trainer.url, *_NO_TOKENIZER, *flags, policy=talker, env_type=TalkEnv),
    ):
        (batch,) = await trainer.take()
    return batch


def scores_of(group: dict[str, Any]) -> list[float]:
    return [round(score, 9) for score in group["scores"]]


def masked(group: dict[str, Any]) -> list[int]:
    marks = [
        each.get("set_advantage_to_zero", False) for each in group["overrides"] or [{}] * GROUP
    ]
    return [number for number, mark in enumerate(marks) if mark]


async def test_a_conversation_is_one_sequence_where_its_tokens_allow(tmp_path: Path) -> None:
    """Rollout a ends after one turn, b after two; what was sampled is trained, and nothing else."""
    talker = Talker(says(1, 2))
    batch = await batch_of(tmp_path, talker, 2 * GROUP)
    assert [len(group["tokens"]) for group in batch] == [GROUP, GROUP]
    for group in batch:
        assert list(talker.spans(group)) == [
            ["a1 is worth 0, goodbye"],
            ["b1 is worth 1", "b2 is worth 1, goodbye"],
            ["c1 is worth 2", "c2 is worth 2", "c3 is worth 2"],
            ["d1 is worth 3", "d2 is worth 3", "d3 is worth 3"],
        ]
        assert scores_of(group) == [0.0, 0.1, 0.2, 0.3]
        assert masked(group) == []
        first, second, *_ = group["messages"]
        assert [each["role"] for each in first] == ["user", "assistant"]
        assert [each["content"] for each in second[1:]] == [
            "b1 is worth 1",
            "Go on after 1.",
            "b2 is worth 1, goodbye",
        ]
        assert [each["role"] for each in second] == ["user", "assistant", "user", "assistant"]
        assert ["judgment" in each for each in second] == [False, False, False, True]


async def test_a_template_that_changes_earlier_turns_makes_a_group_of_each_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All groups have the API's size and the same scores; who has ended before stands in without advantage."""
    talker = Talker(says(1, 2, thinks=True), forgets=True)
    file = tmp_path / "groups.jsonl"
    caplog.set_level(logging.WARNING)
    batch = await batch_of(tmp_path, talker, 6 * GROUP, f"--env.data_path_to_save_groups={file}")
    assert [len(group["tokens"]) for group in batch] == [GROUP] * 6
    for turns in (batch[:3], batch[3:]):
        assert len({group["messages"][0][0]["content"] for group in turns}) == 1, (
            "the turns of one row"
        )
        assert [scores_of(group) for group in turns] == [[0.0, 0.1, 0.2, 0.3]] * 3
        assert [masked(group) for group in turns] == [[], [0], [0, 1]]
        assert [[texts[0] for texts in talker.spans(group)] for group in turns] == [
            [
                "hm~a1 is worth 0, goodbye",
                "hm~b1 is worth 1",
                "hm~c1 is worth 2",
                "hm~d1 is worth 3",
            ],
            [
                "hm~a1 is worth 0, goodbye",
                "hm~b2 is worth 1, goodbye",
                "hm~c2 is worth 2",
                "hm~d2 is worth 3",
            ],
            [
                "hm~a1 is worth 0, goodbye",
                "hm~b2 is worth 1, goodbye",
                "hm~c3 is worth 2",
                "hm~d3 is worth 3",
            ],
        ]
    (said,) = (
        each.getMessage() for each in caplog.records if "does not begin" in each.getMessage()
    )
    first = (
        len("row-0") + 3
    )  # the role, the text and the end of the question, and the role of the answer
    assert "turn 2 does not begin" in said
    assert f"token {first} was {ord('h')} and is {ord('b')}." in said
    assert [json.loads(line)["tokens"] for line in file.read_bytes().splitlines()][:6] == [
        group["tokens"] for group in batch
    ]


async def test_a_reward_by_turn_compares_the_same_turn_of_the_rollouts(tmp_path: Path) -> None:
    """In the second turn all are worth the same, so that its group has no signal and is not sent."""
    worth = {1: "0123", 2: "5555", 3: "0062"}
    talker = Talker(says(2, worth=lambda turn, name: int(worth[turn]["abcd".index(name)])))
    batch = await batch_of(tmp_path, talker, 4 * GROUP, "--env.reward_by=turn")
    for first, third in (batch[:2], batch[2:]):
        assert (scores_of(first), masked(first)) == ([0.0, 0.1, 0.2, 0.3], [])
        mean = round((0.0 + 0.6 + 0.2) / 3, 9)
        assert (scores_of(third), masked(third)) == ([mean, 0.0, 0.6, 0.2], [0])
        assert list(talker.spans(third))[1:] == [
            ["b3 is worth 0"],
            ["c3 is worth 6"],
            ["d3 is worth 2"],
        ]
