"""NeMo Gym's own agent and collector, with the reward server as its resources server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.core.server.nemo_rl import check_components, is_masked
from tests.core.server.running import asked, running
from tests.listwise import judging, shown_answers
from tests.scripted import Json
from tests.trainers.judges import best
from tests.trainers.loops import trainers
from tests.trainers.loops.nemo_gym.gym import Gym

REASONING = {
    "id": "s1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I think."}],
}
CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "search",
    "arguments": '{"for": "cats"}',
    "id": "f1",
}

CALLED = '[tool call: search({"for":"cats"})]'


def judge(request: Json, number: int) -> str:
    text = asked(request)
    if "verdict" in text:
        return '{"reason": "since", "verdict": 0}'
    response = text.partition("### Response To Evaluate\n\n")[2]
    if CALLED in response:
        return "[SCORE] 5"
    return (
        "I cannot say."
        if response.startswith("FAIL")
        else f"[SCORE] {5 if response.startswith('good') else 1}"
    )


def row(says: Any, **fields: Any) -> Json:
    params = {
        "input": [{"role": "user", "content": "Why?"}],
        "metadata": {"says": json.dumps(says)},
    }
    return {"responses_create_params": params, **fields}


async def collect(
    gym: Gym,
    url: str,
    directory: Path,
    rows: list[Json],
    repeats: int = 1,
    server: str = "legacy_agent",
) -> trainers.Ended:
    parts = urlsplit(url)
    return await gym.run(
        "program.py", str(parts.hostname), str(parts.port), directory, rows, str(repeats), server
    )


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_rollouts_failures_and_metrics_as_the_collector_has_them(
    gym: Gym, tmp_path: Path
) -> None:
    rows = [
        row("good", rubric="Is it good?", reference_answer="Since."),
        row("bad"),
        row("FAIL"),
        row([REASONING, CALL]),
        row("good", judge_mount="safety"),
        row("good", rubric=5),
    ]
    mounts = '--mounts={"safety": {"judge": "aspect", "aspects": ["coherence"]}}'
    async with running(mounts, judge=judge) as server:
        ended = await collect(gym, server.url, tmp_path, rows, repeats=2)
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert ended.code == 0, ended.err
    kept, failed = lines(tmp_path / "rollouts.jsonl"), lines(tmp_path / "rollouts_failures.jsonl")
    by_task = {each["_ng_task_index"]: each for each in kept}
    assert {task: each["reward"] for task, each in by_task.items()} == {
        0: 1.0,
        1: 0.0,
        3: 1.0,
        4: 0.0,
    }
    assert len(kept) == 8
    assert {each["_ng_task_index"]: each["_ng_failure_class"] for each in failed} == {
        2: "judge_failed",
        5: "invalid_row",
    }
    assert all(each["mask_sample"] is True and each["failure_reason"] for each in failed)
    assert all(is_masked(each) for each in failed) and not any(is_masked(each) for each in kept)
    for each in (*kept, *failed):
        check_components(each)
    assert "### Score Rubric\n\nIs it good?" in shown
    (aggregate,) = json.loads((tmp_path / "rollouts_aggregate_metrics.json").read_text())
    assert aggregate["key_metrics"]["mean/reward"] == 0.5  # of the eight rollouts with a reward
    assert aggregate["agent_metrics"]
    assert aggregate["group_level_metrics"]


async def test_a_session_of_an_environment_server_ends_with_a_reward_or_as_a_failed_episode(
    gym: Gym, tmp_path: Path
) -> None:
    rows = [row("good"), row("bad"), row("FAIL"), row("good", rubric=5), row({"status": "failed"})]
    if "single_agent_turn_legacy" not in gym.environment_servers:
        pytest.skip(f"NeMo Gym {gym.version} has no environment servers")
    async with running(judge=judge) as server:
        ended = await collect(
            gym, server.url, tmp_path, rows, repeats=2, server="single_agent_turn_legacy"
        )
    assert ended.code == 0, ended.err
    kept, failed = lines(tmp_path / "rollouts.jsonl"), lines(tmp_path / "rollouts_failures.jsonl")
    rewards = [(each["_ng_task_index"], each["reward"], each["raw"]) for each in kept]
    assert sorted(rewards) == [
        (0, 1.0, 5.0),
        (0, 1.0, 5.0),
        (1, 0.0, 1.0),
        (1, 0.0, 1.0),
    ]
    # What another rollout can mend is tried again, a row that no judge can score is not.
    ends = {
        (each["_ng_task_index"], each["_ng_failure_class"], each["_ng_failure_terminal"])
        for each in failed
    }
    assert (len(failed), ends) == (
        6,
        {(task, "environment_server_failed", task == 3) for task in (2, 3, 4)},
    )
    (aggregate,) = json.loads((tmp_path / "rollouts_aggregate_metrics.json").read_text())
    assert aggregate["key_metrics"]["mean/reward"] == 0.5
    assert [each["mean/reward"] for each in aggregate["repeat_level_metrics"]] == [0.5, 0.5]


async def test_rollouts_of_sessions_are_compared_within_their_task(
    gym: Gym, tmp_path: Path
) -> None:
    if "single_agent_turn_legacy" not in gym.environment_servers:
        pytest.skip(f"NeMo Gym {gym.version} has no environment servers")
    rows = [row("one {n}"), row("other {n}")]
    async with running(
        "--judge=listwise", "--group_size=4", "--group_wait=60", judge=of_number
    ) as server:
        ended = await collect(
            gym, server.url, tmp_path, rows, repeats=4, server="single_agent_turn_legacy"
        )
        groups = [
            {answer.text.partition(" ")[0] for answer in shown_answers(body)}
            for body in server.judge.bodies
        ]
    assert ended.code == 0, ended.err
    kept = lines(tmp_path / "rollouts.jsonl")
    assert (len(kept), sorted(map(sorted, groups))) == (8, [["one"], ["other"]])
    assert [each["reward"] for each in kept] == [number_in(said(each)) / 100 for each in kept]


# Losses: NeMo Gym's collector | – | server, a failed response | safe
async def test_a_rollout_whose_policy_has_failed_is_left_out_and_not_judged(
    gym: Gym, tmp_path: Path
) -> None:
    filtered = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    rows = [row("good"), row({"status": "failed"}), row({"status": "cancelled"}), row(filtered)]
    async with running(judge=judge) as server:
        ended = await collect(gym, server.url, tmp_path, rows)
        asked_for = len(server.judge.requests)
    assert ended.code == 0, ended.err
    kept, failed = lines(tmp_path / "rollouts.jsonl"), lines(tmp_path / "rollouts_failures.jsonl")
    assert ([each["reward"] for each in kept], asked_for) == ([1.0], 1)
    assert [each["_ng_failure_class"] for each in failed] == ["policy_failed"] * 3
    assert all(is_masked(each) and "_ng_failure_terminal" not in each for each in failed)


async def test_compare_as_the_client_of_its_genrm_server_reads_it(gym: Gym) -> None:
    async with running("--judge=choice", judge=best) as server:
        parts = urlsplit(server.url)
        texts = ["bad", "good", "", "worse"]
        ended = await gym.run("compare.py", str(parts.hostname), str(parts.port), texts)
    assert ended.code == 0, ended.err
    assert ended.result["rewards"] == ended.result["whole"]["rewards"] == [0.0, 1.0, 0.0, 0.0]
    assert ended.result["metrics"]["judge_failed"] == 0.0
    assert len(ended.result["whole"]["comparison_results"]) == 4


def of_number(request: Json, number: int) -> str:
    """Scores an answer by the number in it; gives no verdict on a group in which one is to fail."""
    if any("FAIL" in answer.text for answer in shown_answers(request)):
        return "I cannot say."
    return judging(lambda text, place: number_in(text) / 100)(request, number)


def number_in(text: str) -> float:
    return float(text.rpartition(" ")[2])


def said(each: Json) -> str:
    return str(each["response"]["output"][-1]["content"][0]["text"])


async def test_each_rollout_of_a_group_is_rewarded_by_its_own_answer(
    gym: Gym, tmp_path: Path
) -> None:
    rows = [
        row("one {n}"),
        row("FAIL {n}"),
        row("other {n}"),
        row("third {n}"),
    ]  # one prompt, several tasks
    async with running(
        "--judge=listwise", "--group_size=8", "--group_wait=60", judge=of_number
    ) as server:
        ended = await collect(gym, server.url, tmp_path, rows, repeats=8)
        groups = [
            [answer.text for answer in shown_answers(request)] for request in server.judge.bodies
        ]
        metrics = (await server.get("/metrics")).text
    assert ended.code == 0, ended.err
    kept, failed = lines(tmp_path / "rollouts.jsonl"), lines(tmp_path / "rollouts_failures.jsonl")
    assert [each["reward"] for each in kept] == [number_in(said(each)) / 100 for each in kept]
    assert sorted((each["_ng_task_index"], each["_ng_rollout_index"]) for each in kept) == [
        (task, rollout) for task in (0, 2, 3) for rollout in range(8)
    ]
    assert all(each["own"] == each["reward"] and 1 <= each["position"] <= 8 for each in kept)
    # The judge saw the eight of a task, and nothing else, in one call.
    assert {frozenset(text.partition(" ")[0] for text in group) for group in groups} == {
        frozenset({word}) for word in ("one", "FAIL", "other", "third")
    }
    assert all(len(group) == 8 for group in groups)
    assert len([group for group in groups if not group[0].startswith("FAIL")]) == 3
    # Without a verdict there are eight failed rows, and the collection goes on.
    assert [each["_ng_failure_class"] for each in failed] == ["judge_failed"] * 8
    assert {(each["_ng_task_index"], each["mask_sample"]) for each in failed} == {(1, True)}
    assert 'judgegym_cohorts_closed_total{how="full",judge=""} 4.0' in metrics
