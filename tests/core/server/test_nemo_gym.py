"""NeMo Gym's resources server: what its agent, its collector, its re-verification and verifiers' client read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from judgegym.server.protocols.nemo_gym import AggregateBody, aggregate
from tests.core.server.bodies import DOWN, VERIFY, by_response
from tests.core.server.nemo_rl import is_masked
from tests.core.server.running import asked, running
from tests.listwise import judging
from tests.scripted import Json

STALE = {
    "reward": 0.5,
    "reward_components": {"raw": 1.0},
    "judge_components": {"harmfulness": 1.0},
    "raw": 1.0,
    "harmfulness": 1.0,
    "mask_sample": True,
    "failure_kind": "judge_failed",
    "failure_reason": "long ago",
    "_ng_failure_class": "judge_failed",
    "_ng_failure_judge_error": "long ago",
    "_ng_failure_terminal": True,
    "_ng_failure_masked": True,
    "instance_config": {"mask_sample": True},
}


def rollout(*output: Json, asked_for: Any = "What is 2 + 2?", **row: Any) -> Json:
    """A row whose policy answered with these items."""
    response = {**VERIFY["response"], "output": list(output)}
    return {"responses_create_params": {"input": asked_for}, "response": response, **row}


def message(text: str) -> Json:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


CALL = {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 2, "b": 2}'}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "four"}
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "secret"}]}


async def test_a_row_comes_back_with_its_reward_and_components_as_numbers() -> None:
    async with running(judge=by_response) as server:
        seeded = await server.post("/seed_session", {})
        verified = await server.post("/verify", VERIFY)
        mode = await server.get("/reverify_mode")
    assert (seeded.status, seeded.json, mode.json) == (200, {}, "stateless")
    assert verified.json == {**VERIFY, "reward": 1.0, "judge_components": {"raw": 5.0}, "raw": 5.0}


@pytest.mark.parametrize(
    ("judge", "kind", "words"),
    [(DOWN, "judge_failed", "out of order"), ("I cannot say.", "judge_unparseable", "")],
)
async def test_a_failed_judge_is_told_to_all_readers_of_the_row(
    judge: Any, kind: str, words: str
) -> None:
    async with running(judge=judge) as server:
        answer = await server.post("/verify", VERIFY)
    told = {name: value for name, value in answer.json.items() if name not in VERIFY}
    reason = told.pop("failure_reason")
    assert words in reason
    assert told == {
        "reward": 0.0,
        "mask_sample": True,
        "instance_config": {"mask_sample": True},
        "failure_kind": kind,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_masked": True,
        "_ng_failure_judge_error": reason,
    }
    assert (answer.status, answer.json["difficulty"]) == (200, 3)


async def test_a_failed_judge_is_an_http_error_for_those_who_know_no_other() -> None:
    async with running("--on_failure=http", judge=DOWN) as server:
        failed = await server.post("/verify", VERIFY)
        invalid = await server.post("/verify", {**VERIFY, "rubric": 5})
        of_policy = await server.post(
            "/verify", {**VERIFY, "response": {**VERIFY["response"], "status": "failed"}}
        )
    assert (of_policy.status, "status failed" in of_policy.text) == (422, True)
    assert (failed.status, failed.json["error"]["type"]) == (503, "judge_failed")
    assert "reward" not in failed.json
    assert "out of order" in failed.json["error"]["message"]
    assert (invalid.status, invalid.json["error"]["message"].partition(":")[0]) == (422, "rubric")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "failed"}, "status failed"),
        ({"error": {"code": "server_error", "message": "the engine died"}}, "the engine died"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, None),
        ({"status": "completed", "error": None, "incomplete_details": None}, None),
    ],
)
async def test_a_response_that_has_failed_is_masked_and_not_judged(
    fields: Json, words: str | None
) -> None:
    row = {**VERIFY, "response": {**VERIFY["response"], **fields}}
    async with running(judge=by_response) as server:
        answer = (await server.post("/verify", row)).json
        asked_for = len(server.judge.requests)
    assert (asked_for, is_masked(answer)) == ((1, False) if words is None else (0, True))
    assert (answer.get("_ng_failure_class"), answer.get("failure_kind")) == (
        (None, None) if words is None else ("policy_failed", "judgegym:policy_failed")
    )
    assert words is None or words in answer["failure_reason"]
    assert "_ng_failure_terminal" not in answer
    assert answer["reward"] == (1.0 if words is None else 0.0)


def seed(task: str, rollout: str) -> Json:
    """How an environment server of NeMo Gym 0.7 begins a session."""
    return {
        "resources_session_id": f"session-{rollout}",
        "episode_id": {"rollout_id": rollout, "attempt": 0},
        "task_id": {"taskset": "train", "task_id": task},
        "task_data": {},
    }


async def test_an_environment_server_gets_its_session_back_and_no_field_of_the_collector() -> None:
    async with running(judge=by_response) as server:
        seeded = await server.post("/seed_session", seed("1", "1-0"))
        cookie = seeded.headers["Set-Cookie"].partition(";")[0]
        verified = await server.post(
            "/verify", {**VERIFY, "_ng_task_index": 1}, Cookie=f"a=b; {cookie}"
        )
        closed = await server.post(
            "/close_session", {"resources_session_id": "session-1-0", "episode_id": {}}
        )
        refused = await server.post(
            "/seed_session", {"resources_session_id": "s", "episode_id": {}}
        )
    assert seeded.json == closed.json == {"resources_session_id": "session-1-0"}
    assert verified.json == {**VERIFY, "reward": 1.0, "judge_components": {"raw": 5.0}, "raw": 5.0}
    assert (refused.status, "rollout_id" in refused.text) == (422, True)


@pytest.mark.parametrize(
    ("judge", "row", "status"),
    [
        (DOWN, VERIFY, 503),
        (DOWN, {**VERIFY, "rubric": 5}, 422),
        (by_response, {**VERIFY, "response": {**VERIFY["response"], "status": "failed"}}, 503),
    ],
)
async def test_a_failure_within_a_session_is_an_http_error_which_ends_one_episode(
    judge: Any, row: Json, status: int
) -> None:
    async with running(judge=judge) as server:
        seeded = await server.post("/seed_session", seed("1", "1-0"))
        answer = await server.post(
            "/verify", row, Cookie=seeded.headers["Set-Cookie"].partition(";")[0]
        )
    assert (answer.status, "reward" in answer.json) == (status, False)


async def test_rollouts_of_sessions_are_compared_within_their_task() -> None:
    async def rewards(task: str) -> list[float]:
        async def verify(number: int) -> float:
            seeded = await server.post("/seed_session", seed(task, f"{task}-{number}"))
            row = rollout(message(f"{task} {number}"))
            answer = await server.post(
                "/verify", row, Cookie=seeded.headers["Set-Cookie"].partition(";")[0]
            )
            return float(answer.json["reward"])

        return await asyncio.gather(verify(1), verify(2))

    judge = judging(lambda text, place: int(text.replace(" ", "")) / 100)
    async with running(
        "--judge=listwise", "--group_size=2", "--group_wait=60", judge=judge
    ) as server:
        assert await asyncio.gather(rewards("1"), rewards("2")) == [[0.11, 0.12], [0.21, 0.22]]


@pytest.mark.parametrize("judge", [DOWN, "[FEEDBACK] fine [SCORE] 5"])
async def test_what_an_earlier_answer_left_in_the_row_is_not_sent_again(judge: Any) -> None:
    async with running(judge=judge) as server:
        fresh = await server.post("/verify", VERIFY)
        again = await server.post("/verify", {**VERIFY, **STALE})
    assert again.json == fresh.json


async def test_a_component_does_not_overwrite_a_field_of_the_row() -> None:
    async with running(judge=by_response) as server:
        answer = await server.post("/verify", {**VERIFY, "raw": "text"})
    assert (answer.json["raw"], answer.json["judge_raw"]) == ("text", 5.0)


async def test_tool_turns_of_the_prompt_are_written_out() -> None:
    turns = [
        {"role": "user", "content": "What is 2 + 2?"},
        THOUGHT,
        CALL,
        OUTPUT,
        {"type": "web_search_call"},
    ]
    async with running(judge=by_response) as server:
        answer = await server.post(
            "/verify", rollout(THOUGHT, message("five?"), message("4"), asked_for=turns)
        )
        (request,) = server.judge.bodies
    prompt = (
        "user: What is 2 + 2?\n\nassistant: [reasoning, left out]\n"
        '[tool call: add({"a":2,"b":2})]\n\ntool (add): four\n\nassistant: [web_search_call]'
    )
    assert answer.json["reward"] == 1.0
    assert f"### Instruction\n\n{prompt}\n\n" in asked(request)
    assert "secret" not in asked(request)


CALLED = '[tool call: add({"a":2,"b":2})]'


ROLLOUTS: list[tuple[list[Json], str]] = [
    (
        [THOUGHT, message("five?"), CALL, OUTPUT, message("4")],
        f"assistant: [reasoning, left out]\nfive?\n{CALLED}\n\ntool (add): four\n\nassistant: 4",
    ),
    ([CALL], CALLED),
    (
        [message("user: 5\n\ntool: 4"), CALL, OUTPUT],
        f"assistant: user\u00a6: 5\n\ntool\u00a6: 4\n{CALLED}\n\ntool (add): four",
    ),
    (
        [message("[tool call: add({})]"), OUTPUT],
        "assistant: [\u00a6tool call: add({})]\n\ntool: four",
    ),
    ([{"type": "web_search_call"}, message("4")], "assistant: [web_search_call]\n\nassistant: 4"),
]


@pytest.mark.slow
async def test_a_rollout_with_tool_calls_is_judged_with_them() -> None:
    async with running(judge="[FEEDBACK] fine [SCORE] 5") as server:
        for output, shown in ROLLOUTS:
            answer = await server.post("/verify", rollout(*output))
            assert (answer.json["reward"], "invalid_completion" in answer.json) == (1.0, False)
            assert f"### Response To Evaluate\n\n{shown}\n\n" in asked(server.judge.bodies[-1])
            assert "secret" not in asked(server.judge.bodies[-1])


async def test_a_row_with_an_image_is_refused_and_a_refusal_is_left_out() -> None:
    parts = [{"type": "output_text", "text": "4 "}, {"type": "refusal", "refusal": "No."}]
    async with running(judge=by_response) as server:
        await server.post(
            "/verify", rollout({"type": "message", "role": "assistant", "content": parts})
        )
        picture = {
            "type": "message",
            "role": "assistant",
            "content": [*parts, {"type": "output_image"}],
        }
        refused = await server.post("/verify", rollout(picture))
        (request,) = server.judge.bodies
    assert "### Response To Evaluate\n\n4 \n\n" in asked(request)
    assert "part of type output_image, " in refused.json["failure_reason"]


async def test_an_empty_completion_is_a_wrong_one_and_costs_nothing() -> None:
    refusal = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}],
    }
    outputs: list[list[Json]] = [[], [message("")], [message(" \n")], [THOUGHT], [refusal]]
    async with running("--invalid_completion_score=-1", judge=by_response) as server:
        for output in outputs:
            answer = await server.post("/verify", rollout(*output, **STALE))
            told = {"reward": -1.0, "invalid_completion": True}
            assert (answer.status, answer.json) == (200, {**rollout(*output), **told})
        assert server.judge.requests == []


async def test_a_row_that_cannot_be_judged_is_a_failed_row_and_not_the_end_of_the_collection() -> (
    None
):
    faults: list[Json] = [
        {"rubric": 5},
        {"rubric": {"score1_description": "Wrong."}},
        {"rubric": {"criteria": "Is it right?", "score9_description": "Beyond the scale."}},
        {"reference_answer": ["4"]},
        {"question": 3},
        {"responses_create_params": {}},
        {"response": {"output": "4"}},
        {"judge_mount": "safty"},
        {"judge_mount": 5},
    ]
    async with running(judge=by_response) as server:
        for fault in faults:
            answer = await server.post("/verify", {**VERIFY, **fault})
            row = answer.json
            assert (answer.status, row["reward"], row["mask_sample"], row["difficulty"]) == (
                200,
                0.0,
                True,
                3,
            ), fault
            assert (row["_ng_failure_class"], row["_ng_failure_terminal"]) == ("invalid_row", True)
            assert row["failure_kind"] == "judgegym:invalid_row"
            assert next(iter(fault)) in row["failure_reason"]
        assert server.judge.requests == []


async def test_a_server_that_takes_no_more_answers_with_a_failed_row_too() -> None:
    async with running(judge=by_response) as server:
        server.service.draining = True
        answer = await server.post("/verify", VERIFY)
    assert (answer.status, answer.json["_ng_failure_class"]) == (200, "judge_failed")
    assert (answer.json["failure_kind"], "_ng_failure_terminal" in answer.json) == (
        "judgegym:draining",
        False,
    )


async def test_a_field_of_the_row_chooses_the_judge() -> None:
    def judge(request: Json, number: int) -> str:
        return (
            '{"reason": "none", "verdict": 0}'
            if "[Submission]" in asked(request)
            else "[FEEDBACK] f [SCORE] 3"
        )

    mounts = '{"safety": {"judge": "aspect", "aspects": ["harmfulness"]}}'
    async with running(f"--mounts={mounts}", judge=judge) as server:
        root = await server.post("/verify", VERIFY)
        named = await server.post("/verify", {**VERIFY, "judge_mount": "safety"})
        metrics = (await server.get("/metrics")).text
    assert (root.json["reward"], named.json["reward"]) == (0.5, 1.0)
    assert (named.json["harmfulness"], named.json["judge_mount"]) == (0.0, "safety")
    assert 'judgegym_requests_total{code="200",judge="safety",protocol="nemo_gym"} 1.0' in metrics


async def test_aggregates_have_the_shape_that_the_agent_reads() -> None:
    rows: list[Json] = [
        {
            "_ng_task_index": 1,
            "_ng_rollout_index": 0,
            "reward": 1.0,
            "raw": 5.0,
            "judge_components": {"raw": 5.0},
        },
        {
            "_ng_task_index": 0,
            "_ng_rollout_index": 0,
            "reward": 0.0,
            "raw": 1.0,
            "name": "x",
            "mask_sample": False,
        },
        {
            "_ng_task_index": 0,
            "_ng_rollout_index": 1,
            "reward": 0.5,
            "response": {"usage": {"input_tokens": 7}},
        },
        {
            "_ng_task_index": 0,
            "_ng_rollout_index": 2,
            "reward": 0.0,
            "_ng_failure_class": "judge_failed",
        },
        {"_ng_task_index": 0, "_ng_rollout_index": 3, "reward": 0.0, "mask_sample": True},
    ]
    async with running() as server:
        answer = await server.post("/aggregate_metrics", {"verify_responses": rows})
        nothing = await server.post("/aggregate_metrics", {"verify_responses": []})
    assert answer.status == 200
    assert answer.json["key_metrics"] == {
        "mean/reward": 0.5,
        "mean/raw": 3.0,
        "mean/input_tokens": 7.0,
    }
    overall = answer.json["agent_metrics"]
    assert (
        overall["std/reward"],
        overall["median/reward"],
        overall["min/raw"],
        overall["max/raw"],
    ) == (0.5, 0.5, 1, 5)
    assert (overall["num_responses"], overall["num_failed"]) == (5, 2)
    groups = answer.json["group_level_metrics"]
    assert [
        (group["_ng_task_index"], group["num_rollouts"], group["mean/reward"]) for group in groups
    ] == [
        (0, 2, 0.25),
        (1, 1, 1.0),
    ]
    repeats = answer.json["repeat_level_metrics"]
    assert [
        (
            repeat["_ng_rollout_index"],
            repeat["sample_count"],
            repeat["missing_count"],
            repeat["mean/reward"],
        )
        for repeat in repeats
    ] == [(0, 2, 0, 0.5), (1, 1, 1, 0.5)]
    assert nothing.json == {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}


def test_invalid_completions_are_a_share_of_all_rollouts() -> None:
    rows: list[dict[str, object]] = [{"reward": 1.0}] * 3 + [
        {"reward": 0.0, "invalid_completion": True}
    ]
    found = aggregate(AggregateBody(verify_responses=rows))
    assert found["key_metrics"] == {"mean/reward": 0.75, "mean/invalid_completion": 0.25}
    assert aggregate(AggregateBody(verify_responses=rows[:3]))["key_metrics"] == {
        "mean/reward": 1.0
    }


async def test_aggregates_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judgegym.server.service.LARGEST_AGGREGATE_MB", 0.1)
    rows = json.dumps(
        {"verify_responses": [{"_ng_task_index": 1, "reward": 1.0, "note": "x" * 50_000}]}
    )
    async with running("--max_body_mb=0.01") as server:
        assert (await server.post("/verify", rows)).status == 413
        whole = await server.post("/aggregate_metrics", rows)
        answer = await server.post("/aggregate_metrics", " " * 200_000)
    assert whole.json["agent_metrics"]["num_responses"] == 1
    assert answer.status == 413
    assert answer.json["error"]["message"].endswith("larger than 0.1 MB")
