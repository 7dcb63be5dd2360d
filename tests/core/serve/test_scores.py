"""What becomes of judgments on their way to the trainer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.arena import Arena, against_model, for_model, model_is_a, uid_of
from tests.scripted import Json, Reply
from tests.serving import answer, first_wins, judging, sampling, serve, which
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
        serve(arena, trainer.url, *flags, "--env.total_steps=1", judge=judging(sometimes_silent)) as served,
    ):
        (batch,) = await trainer.take()
        await served.ended()
        counted = {reason: served.counted(reason) for reason in ("judge_failed", "no_signal", "policy_failed")}
        games = Counter(
            (uid_of(body), which(body["messages"][1]["content"])[0]) for body in served.judge.bodies if model_is_a(body)
        )
    groups = {row(group): group for group in batch}
    assert sorted(groups) == ["row-0", "row-2", "row-5", "row-6", "row-7"]
    assert counted == {"judge_failed": 2, "no_signal": 1, "policy_failed": 0}
    for group in batch:
        assert [len(group[name]) for name in ("tokens", "masks", "scores", "inference_logprobs")] == [4] * 4
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


def first_malformed(request: Json, number: int, index: int) -> str:
    text = answer(request, number, index)
    return f"<think>{text}" if index == 0 else f"<think>Hm.</think>{text}"


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "reward"), [((), 0.0), (("--env.invalid_thinking_reward=-1.0",), -1.0)])
async def test_malformed_thinking_has_a_reward_of_its_own(arena: Arena, flags: tuple[str, ...], reward: float) -> None:
    def second_wins(uid: str, index: int, as_a: bool) -> str:
        assert index != 0, "the judge is not asked about it"
        return for_model(uid, as_a) if index == 1 else against_model(uid, as_a)

    async with (
        training(8) as trainer,
        serve(
            arena,
            trainer.url,
            "--env.thinking_mode=True",
            "--env.include_messages=True",
            *flags,
            policy=sampling(first_malformed),
            judge=judging(second_wins),
        ) as served,
    ):
        (batch,) = await trainer.take()
        systems = {body["messages"][0]["role"] for body in served.policy.bodies}
    assert systems == {"system"}
    for group in batch:
        assert group["scores"] == [reward, 1, -1, -1]
        assert group["overrides"] is None
        statuses = [turns[-1]["judgment"]["status"] for turns in group["messages"]]
        assert statuses == ["invalid_completion", "ok", "ok", "ok"]


@pytest.mark.slow
async def test_groups_without_a_signal_are_sent_if_wanted(arena: Arena) -> None:
    always = judging(lambda uid, index, as_a: for_model(uid, as_a))
    async with (
        training(8) as trainer,
        serve(arena, trainer.url, "--env.ensure_scores_are_not_same=False", judge=always),
    ):
        (batch,) = await trainer.take()
    assert [group["scores"] for group in batch] == [[1.0] * 4] * 2


async def test_short_answers_are_answers(arena: Arena) -> None:
    """`min_response_length` asks for another one in evaluate; in training each is what the policy did."""

    def a0_wins(request: Json, number: int) -> str:
        wins = "\na0\n" in request["messages"][1]["content"]
        return for_model("", model_is_a(request)) if wins else against_model("", model_is_a(request))

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


@pytest.mark.slow
async def test_groups_longer_than_the_trainer_wants_are_dropped(arena: Arena) -> None:
    """As in Atropos, one as long as it says is too long. Prompts have three tokens; completions here five or six."""

    def policy(request: Json, number: int) -> Reply:
        reply = sampling()(request, number)
        for choice in reply.body["choices"]:
            length = 5 if number % 2 == 0 else 6
            choice["token_ids"] = choice["token_ids"][:length]
            choice["logprobs"]["content"] = choice["logprobs"]["content"][:length]
        return reply

    async with (
        training(8, max_token_len=9) as trainer,
        serve(arena, trainer.url, "--env.include_messages=True", policy=policy) as served,
    ):
        (batch,) = await trainer.take()
        dropped = served.counted("too_long")
    assert {which(group["messages"][0][-1]["content"])[1] % 2 for group in batch} == {0}
    assert dropped > 0


@pytest.mark.slow
async def test_groups_are_kept_in_a_file_too(arena: Arena, tmp_path: Path) -> None:
    path = tmp_path / "kept" / "groups.jsonl"
    async with (
        training(8) as trainer,
        serve(arena, trainer.url, f"--env.data_path_to_save_groups={path}", "--env.total_steps=1") as served,
    ):
        (batch,) = await trainer.take()
        await served.ended()
    kept = path.read_text().splitlines()
    assert len(kept) >= 2
    for group in batch:
        assert sum(str(group["tokens"]).replace(" ", "") in line for line in kept) == 1
