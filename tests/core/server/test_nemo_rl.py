"""NeMo-RL reads NeMo Gym's rows by itself: a failed judge adds nothing to its loss, and no row ends its training."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.core.server.bodies import DOWN, VERIFY, by_response
from tests.core.server.nemo_rl import advantages, battle, check_components, is_masked
from tests.core.server.running import asked, running
from tests.core.server.test_group_protocols import rollout
from tests.scripted import Json, Reply

GATHERING = ("--judge=tournament", "--group_size=4")


@pytest.mark.parametrize("given", [None, {}, {"problem": 7}, {"problem": 7, "mask_sample": False}])
async def test_a_failed_judge_is_masked_where_it_reads_the_mask_and_nothing_of_the_request_is_lost(
    given: Any,
) -> None:
    row = VERIFY if given is None else {**VERIFY, "instance_config": given}
    async with running(judge=DOWN) as server:
        failed = (await server.post("/verify", row)).json
        refused = (await server.post("/verify", {**row, "rubric": 5})).json
    for each in (failed, refused):
        assert is_masked(each) and each["mask_sample"] is True
        assert each["instance_config"] == {**(given or {}), "mask_sample": True}


@pytest.mark.parametrize("given", [None, {"problem": 7}, {"problem": 7, "mask_sample": True}])
async def test_our_mask_goes_when_the_row_is_judged_and_that_of_another_stays(given: Any) -> None:
    row = VERIFY if given is None else {**VERIFY, "instance_config": given}
    replies: list[Reply | str] = [DOWN]
    async with running(judge=lambda body, number: replies[-1]) as server:
        failed = (await server.post("/verify", row)).json
        again = (await server.post("/verify", failed)).json
        replies.append("[FEEDBACK] fine [SCORE] 5")
        judged = (await server.post("/verify", again)).json
    assert is_masked(failed) and is_masked(again)
    assert judged.get("instance_config") == given
    assert (judged["reward"], "mask_sample" in judged) == (1.0, False)


@pytest.mark.parametrize(
    "given",
    [
        "text",
    ],
)
async def test_an_instance_config_that_is_no_object_stays_as_it_is(given: Any) -> None:
    async with running(judge=DOWN) as server:
        failed = (await server.post("/verify", {**VERIFY, "instance_config": given})).json
    assert (failed["instance_config"], failed["mask_sample"]) == (given, True)


ASPECTS = '--aspects=[{"name": "clear", "definition": "Is it clear?", "weight": 3}, "harmfulness"]'


@pytest.mark.parametrize("flags", [(), ("--judge=aspect", ASPECTS), ("--judge=aspect",)])
async def test_components_sum_to_the_reward_or_there_are_none(flags: tuple[str, ...]) -> None:
    def judge(request: Json, number: int) -> Reply | str:
        if "[Submission]" in asked(request):
            return '{"reason": "since", "verdict": 1}'
        return by_response(request, number)

    texts = ("4", "5", "", "FAIL")
    async with running(*flags, judge=judge) as server:
        rows = [
            (await server.post("/verify", rollout(text, number))).json
            for number, text in enumerate(texts)
        ]
    assert rows[0]["judge_components"]
    for row in rows:
        check_components(row)
        assert "reward_components" not in row


# Losses: NeMo-RL 0.7.0, or masking off | with a group's baseline | server with `group_size` | mean
# Losses: NeMo-RL, main, masking on | any | server with `group_size` | safe
async def test_a_failed_member_of_a_group_has_the_mean_of_the_others_as_its_placeholder() -> None:
    texts = ("a", "c", "b", "")
    async with running(*GATHERING, "--invalid_completion_score=0.25", judge=battle) as server:
        sent = (server.post("/verify", rollout(text, number)) for number, text in enumerate(texts))
        rows = [answer.json for answer in await asyncio.gather(*sent)]
    a, c, b, empty = (row["reward"] for row in rows)
    assert [is_masked(row) for row in rows] == [False, True, False, False]
    assert (empty, c) == (0.25, pytest.approx((a + b + empty) / 3))
    # The others have the advantages, but for one factor, that they would have without the failed
    # one.
    without = advantages([rows[0], rows[2], rows[3]])
    within = [each for place, each in enumerate(advantages(rows)) if place != 1]
    factors = {round(one / other, 9) for one, other in zip(within, without, strict=True)}
    assert (advantages(rows)[1], len(factors)) == (0.0, 1)


async def test_a_member_of_a_group_whose_policy_has_failed_takes_its_place_and_moves_no_baseline() -> (
    None
):
    texts = ("a", "d", "b", "e")
    sent = [rollout(text, number) for number, text in enumerate(texts)]
    sent[1]["response"] |= {"status": "failed"}
    async with running(*GATHERING, judge=battle) as server:
        rows = [
            answer.json
            for answer in await asyncio.gather(*(server.post("/verify", each) for each in sent))
        ]
        shown = "".join(asked(request) for request in server.judge.bodies)
    a, d, b, e = (row["reward"] for row in rows)
    assert [is_masked(row) for row in rows] == [False, True, False, False]
    assert d == pytest.approx((a + b + e) / 3)
    assert advantages(rows)[1] == 0.0
    assert "Answer|>\nd" not in shown


# Losses: NeMo-RL 0.7.0, or masking off | with a group's baseline
#   | server, another judge: the known mean, else `fallback_score` | score
# Losses: NeMo-RL, main, masking on | any | server, another judge, the failed one last | safe
@pytest.mark.parametrize("ids", [True, False])
async def test_a_failed_rollout_that_is_judged_by_itself_has_the_mean_of_those_that_are_known(
    ids: bool,
) -> None:
    """The judge sees each rollout alone, and the failed one ends last, after its retries."""
    others_are_judged = asyncio.Event()

    async def judge(request: Json, number: int) -> Reply | str:
        shown = asked(request).partition("### Response To Evaluate\n\n")[2]
        if not shown.startswith("FAIL"):
            return f"[FEEDBACK] f [SCORE] {5 if shown.startswith('a') else 3}"
        await others_are_judged.wait()
        return DOWN

    def row(text: str, number: int, prompt: str = "Why?") -> Json:
        whole = {**rollout(text, number), "question": prompt}
        return (
            whole
            if ids
            else {name: value for name, value in whole.items() if not name.startswith("_ng")}
        )

    async with running("--fallback_score=0.25", judge=judge) as server:
        failing = asyncio.create_task(server.post("/verify", row("FAIL", 3)))
        rows = [
            (await server.post("/verify", row(text, number))).json
            for number, text in enumerate(["a", "b", ""])
        ]
        others_are_judged.set()
        failed = (await failing).json
        stranger = (await server.post("/verify", row("FAIL", 0, "Another?"))).json
    assert [each["reward"] for each in rows] == [1.0, 0.5, 0.0]
    assert (is_masked(failed), failed["reward"]) == (True, 0.5)
    factors = {
        round(one / other, 9)
        for one, other in zip(advantages([*rows, failed]), advantages(rows), strict=False)
        if other
    }
    assert (len(factors), advantages([*rows, failed])[3]) == (1, 0.0)
    assert (is_masked(stranger), stranger["reward"]) == (True, 0.25)
