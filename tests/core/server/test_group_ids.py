"""To which group a single response belongs, and which of the group it is, in the terms of each protocol."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.judges.core.tasks import JudgeTask
from judgegym.server.protocols.nemo_gym import VerifyBody
from judgegym.server.protocols.remote_rewards import RewardBody, SlimeBody
from tests.core.server.bodies import VERIFY, by_response
from tests.core.server.running import running
from tests.scripted import Json


def rollout(**fields: Any) -> JudgeTask:
    raw = {**VERIFY, **fields}
    return VerifyBody.model_validate(raw).tasks(raw)[0]


async def test_a_native_id_of_another_kind_or_beside_several_responses_is_refused() -> None:
    async with running(judge=by_response) as server:
        for fault in ({"group": True}, {"member": 1.5}, {"group": ["a"]}, {"member": ""}):
            answer = await server.post("/v1/score", {"prompt": "Q", "response": "4", **fault})
            assert (answer.status, answer.json["error"]["message"].partition(":")[0]) == (
                422,
                next(iter(fault)),
            )
        answer = await server.post(
            "/v1/score", {"prompt": "Q", "responses": ["4", "5"], "group": "a"}
        )
    assert answer.status == 422
    assert answer.json["error"]["message"].startswith("body: group and member: ")


@pytest.mark.parametrize(
    ("row", "group", "member"),
    [
        ({"_ng_task_index": 3, "_ng_rollout_index": 5}, "_ng_task_index=3 attempt=0", "5"),
        (
            {"_ng_task_index": 3, "_ng_rollout_index": 5, "_ng_attempt_index": 2},
            "_ng_task_index=3 attempt=2",
            "5",
        ),
        (
            {
                "_ng_group_id": "g",
                "_ng_group_attempt": 1,
                "_ng_rollout_index": 0,
                "_ng_attempt_index": 4,
            },
            "_ng_group_id=g attempt=1",  # the attempts at single rollouts do not part a group
            "0",
        ),
        ({"prompt_id": "p", "_rowidx": 7}, "p", "7"),
        ({"_ng_task_index": None, "_ng_rollout_index": True}, None, None),
    ],
)
def test_a_row_of_nemo_gym_names_its_group_and_rollout(
    row: Json, group: str | None, member: str | None
) -> None:
    item = rollout(**row)
    assert (item.group, item.member) == (group, member)


def test_the_principle_of_a_row_is_its_criteria_unless_it_has_a_rubric() -> None:
    assert rollout(principle="Be brief.").rubric == "Be brief."
    assert rollout(principle="Be brief.", rubric="Is it right?").rubric == "Is it right?"


LABELS = [
    ("L", None),
    ({"reference": "R", "group": 7}, "7"),
    ('{"rubric": "Is it right?", "group": "row 7"}', "row 7"),
    ('{"group": "of no label"}', None),
    (None, None),
]


@pytest.mark.parametrize(("label", "group"), LABELS)
def test_openrlhf_and_slime_send_no_ids_but_a_label_may_name_its_row(
    label: Any, group: str | None
) -> None:
    of_openrlhf = {"query": ["Q: 4", "Q: 5"], "prompts": ["Q: "] * 2, "labels": [label] * 2}
    of_slime = {"prompt": "Q", "response": "4", "label": label}
    items = [
        *RewardBody.model_validate(of_openrlhf).tasks(of_openrlhf),
        *SlimeBody.model_validate(of_slime).tasks(of_slime),
    ]
    assert [(item.group, item.member) for item in items] == [(group, None)] * 3


async def test_what_a_judge_is_not_shown_of_requests_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = {"prompt": "Q", "response": "4", "rubric": "R"}
    async with running() as server:
        for more in (
            {},
            {"criteria": ["Is it short?"]},
            {"criteria": ["Is it short?"], "context": "C"},
        ):
            assert (await server.post("/v1/score", {**body, **more})).status == 200
    said = [
        record.getMessage() for record in caplog.records if "is not shown" in record.getMessage()
    ]
    assert said == [
        f"requests have {name}, which the judge rubric is not shown"
        for name in ("criteria", "context")
    ]
