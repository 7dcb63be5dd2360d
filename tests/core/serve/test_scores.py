"""What becomes of judgments on their way to the trainer."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.arena import Arena, against_model, for_model, model_is_a, uid_of
from tests.scripted import Json
from tests.serving import first_wins, judging, sampling, serve, which
from tests.trainer import Group, training

ZERO = {"set_advantage_to_zero": True}
SILENT = {  # the completions of a row's group for which the judge never has a verdict, in one of the two orders
    "row-0": {1},
    "row-1": {0, 1, 2, 3},
    "row-2": {2, 3},
    "row-3": {0, 1, 2},
}
EQUAL = "row-4"


def sometimes_silent(uid: str, index: int, as_a: bool) -> str:
    if as_a and index in SILENT.get(uid, ()):
        return "I cannot say."
    return for_model(uid, as_a) if uid == EQUAL else first_wins(uid, index, as_a)


def row(group: Group) -> str:
    """Which row a group is of."""
    return uid_of({"messages": [group["messages"][0][0]]})


@pytest.mark.slow
async def test_a_failed_judgment_is_no_score(arena: Arena) -> None:
    """Five of eight groups arrive, whole; the others have too few scores, or no signal, and are counted."""
    flags = "--env.include_messages=True", "--env.judge_reask=0", "--env.max_batches_offpolicy=1"
    async with (
        training(20) as trainer,
        serve(
            arena, trainer.url, *flags, "--env.total_steps=1", judge=judging(sometimes_silent)
        ) as served,
    ):
        (batch,) = await trainer.take()
        await served.ended()
        counted = {
            reason: served.counted(reason)
            for reason in ("judge_failed", "no_signal", "policy_failed")
        }
        games = Counter(
            (uid_of(body), which(body["messages"][1]["content"])[0])
            for body in served.judge.bodies
            if model_is_a(body)
        )
    groups = {row(group): group for group in batch}
    assert sorted(groups) == ["row-0", "row-2", "row-5", "row-6", "row-7"]
    assert counted == {"judge_failed": 2, "no_signal": 1, "policy_failed": 0}
    for group in batch:
        assert [
            len(group[name]) for name in ("tokens", "masks", "scores", "inference_logprobs")
        ] == [4] * 4
    assert groups["row-0"]["scores"] == pytest.approx([1, -1 / 3, -1, -1])
    assert groups["row-0"]["overrides"] == [{}, ZERO, {}, {}]
    assert groups["row-2"]["scores"] == [1, -1, 0, 0]
    assert groups["row-2"]["overrides"] == [{}, {}, ZERO, ZERO]
    for uid in ("row-5", "row-6", "row-7"):
        assert groups[uid]["scores"] == [1, -1, -1, -1]
        assert groups[uid]["overrides"] is None
    expected = {
        (f"row-{number}", index): 2 if index in SILENT.get(f"row-{number}", ()) else 1
        for number in range(8)
        for index in range(4)
    }
    assert games == expected, "what the judge failed at is judged once more, and nothing else is"


async def test_short_answers_are_answers(arena: Arena) -> None:
    """`min_response_length` asks for another one in evaluate; in training each is what the policy did."""

    def a0_wins(request: Json, number: int) -> str:
        wins = "\na0\n" in request["messages"][1]["content"]
        return (
            for_model("", model_is_a(request)) if wins else against_model("", model_is_a(request))
        )

    async with (
        training(8) as trainer,
        serve(
            arena,
            trainer.url,
            "--env.min_response_length=10",
            "--env.max_batches_offpolicy=1",
            policy=sampling(lambda request, number, index: f"a{index}"),
            judge=a0_wins,
        ) as served,
    ):
        (batch,) = await trainer.take()
    assert [group["scores"] for group in batch] == [[1, -1, -1, -1]] * 2
    assert {body["n"] for body in served.policy.bodies} == {4}
