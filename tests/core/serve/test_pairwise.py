"""Training a judge on preference data: pairwise judgement's `serve` into the real rollout API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.arena import Arena
from tests.command import write_lines
from tests.pairwise import PLAIN, Row, choice_row, gold, pairwise, shown
from tests.scripted import Json, refusing
from tests.serving import Served, Text, sampling, serve
from tests.trainer import Trainer, training, until

GROUP = 4


TRAIN = [choice_row(number, wrong=1) for number in range(2)]


def train_flags(path: Path, *, data: Path | None) -> list[str]:
    """Flags of a `serve` that needs no network to find out that it cannot run."""
    flags = [
        f"--env.eval_dataset={write_lines(path / 'eval.jsonl', TRAIN)}",
        "--env.steps_per_eval=-1",
    ]
    return flags if data is None else [*flags, f"--env.train_dataset={data}"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, ["--env.train_dataset", "preference data"]),
        (
            [{"prompt": "Why?", "chosen": "same", "rejected": "same"}],
            ["none of the 1 rows", "identical texts"],
        ),
    ],
)
def test_without_usable_preferences_it_does_not_begin(
    tmp_path: Path, rows: list[Row] | None, words: list[str]
) -> None:
    data = None if rows is None else write_lines(tmp_path / "train.jsonl", rows)
    with refusing() as url:
        flags = [
            f"--openai.base_url={url}",
            f"--env.rollout_server_url={url}",
            *train_flags(tmp_path, data=data),
        ]
        ended = pairwise("serve", *flags)
    assert ended.code == 2, ended.said
    assert [word for word in words if word not in " ".join(ended.said.split())] == []
    assert "Traceback" not in ended.said


@asynccontextmanager
async def judging(
    path: Path, api: str, rows: Sequence[Row], text: Text, *flags: str
) -> AsyncIterator[Served]:
    """Serve in this process, one group after the other, with a policy that writes `text`."""
    data = write_lines(path / "train.jsonl", rows)
    arena = Arena(path, [f"--env.train_dataset={data}", "--env.max_num_workers=1", PLAIN])
    async with serve(
        arena, api, *flags, policy=sampling(text), env_type=PairwiseJudgementEnv
    ) as served:
        yield served


def verdict(letter: str | None) -> str:
    return "I cannot say." if letter is None else f"The best is [[{letter}]]"


def four_kinds(request: Json, number: int, index: int) -> str:
    """The right answer, always A, the wrong answer, none at all: two of four choose alike in both orders."""
    right = gold(request)
    wrong = next(letter for letter in shown(request) if letter != right)
    return verdict((right, "A", wrong, None)[index])


async def test_right_letter_is_worth_one_and_anything_else_nothing(tmp_path: Path) -> None:
    """All rollouts of a group are of one order of the answers."""
    async with (
        training(2 * GROUP) as trainer,
        judging(tmp_path, trainer.url, TRAIN, four_kinds, "--env.include_messages=True"),
    ):
        (batch,) = await trainer.take()
    for group in batch:
        conversations = [turns[:-1] for turns in group["messages"]]
        assert conversations == [conversations[0]] * GROUP
        right = gold({"messages": conversations[0]})
        assert [turns[-1]["content"] for turns in group["messages"]][::2] == [
            verdict(right),
            verdict("B" if right == "A" else "A"),
        ]
        assert group["scores"] == [1.0, float(right == "A"), 0.0, 0.0]


async def test_the_swapped_twin_is_a_group_of_its_own(tmp_path: Path) -> None:
    async with (
        training(4 * GROUP) as trainer,
        judging(tmp_path, trainer.url, TRAIN, four_kinds, "--env.swap_consistency=True") as served,
    ):
        await until(lambda: queued(trainer, 4), "each row and its twin")
        values = served.serving.metrics.flush(max_token_len=-1).values
        asked = [shown(body) for body in served.policy.bodies]
    assert values["train/swap_consistency_rate"] == 0.5
    assert {tuple(answers.values()) for answers in asked} == {
        order
        for number in range(2)
        for order in orders(f"RIGHT answer {number}", f"wrong answer {number}.0")
    }


async def queued(trainer: Trainer, count: int) -> bool:
    return await trainer.queued() >= count


def orders(one: str, two: str) -> set[tuple[str, str]]:
    return {(one, two), (two, one)}


def harder_and_harder(request: Json, number: int, index: int) -> str:
    """Three of four are right about row 0, two about row 1, one about row 2."""
    right = gold(request)
    row = int(shown(request)[right].rpartition(" ")[2])
    return verdict(right if index < 3 - row else None)


@pytest.mark.slow
async def test_groups_outside_the_pass_rates_are_counted_and_not_sent(tmp_path: Path) -> None:
    """In each epoch one of three groups is sent: with the second one, a whole epoch is through."""
    flags = "--env.min_pass_rate=0.4", "--env.max_pass_rate=0.6", "--env.include_messages=True"
    rows = [choice_row(number) for number in range(3)]
    async with (
        training(GROUP) as trainer,
        judging(tmp_path, trainer.url, rows, harder_and_harder, *flags) as served,
    ):
        batches = await trainer.take(2)
        dropped = {
            reason: served.counted(reason) for reason in ("pass_rate", "no_signal", "judge_failed")
        }
    assert dropped.pop("pass_rate") >= 2
    assert dropped == {"no_signal": 0, "judge_failed": 0}
    for group in (group for batch in batches for group in batch):
        assert group["scores"] == [1.0, 1.0, 0.0, 0.0]
        assert "Question 1:" in group["messages"][0][-2]["content"]
