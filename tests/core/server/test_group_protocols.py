"""Groups through each protocol that sends one sample a request: its own score, and a flag where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.core.server.bodies import VERIFY
from tests.core.server.running import Answer, running
from tests.listwise import judging
from tests.scripted import Json

POINTS = {"good": 0.9, "fair": 0.5, "poor": 0.25}
FALLBACK = 0.125
judge = judging(lambda text, _: POINTS[text])
GATHERING = (
    "--judge=listwise",
    "--group_size=3",
    "--on_failure=score",
    f"--fallback_score={FALLBACK}",
)


@dataclass(frozen=True)
class Protocol:
    """How a sample is sent, and what the answer says: the reward, and whether it is flagged as failed."""

    path: str
    body: Callable[[str, int], Json]
    reward: Callable[[Answer], Any]
    is_flagged: Callable[[Answer], bool]
    without: Any
    """What stands in the place of a reward that is missing."""


def rollout(text: str, number: int) -> Json:
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    ids = {"_ng_task_index": 3, "_ng_rollout_index": number}
    return {**VERIFY, "response": {**VERIFY["response"], "output": [message]}, **ids}


PROTOCOLS = {
    "native": Protocol(
        "/v1/score",
        lambda text, number: {"prompt": "Q", "response": text, "group": "g", "member": number},
        lambda answer: answer.json["score"],
        lambda answer: bool(answer.json["status"] == "judge_failed"),
        None,
    ),
    "openrlhf": Protocol(
        "/get_reward",
        lambda text, number: {"query": [f"Q: {text}"], "prompts": ["Q: "], "labels": ["L"]},
        lambda answer: answer.json["rewards"][0],
        lambda answer: bool(answer.json["extra_logs"]["judge_failed"] == [1.0]),
        FALLBACK,
    ),
    "slime": Protocol(
        "/slime",
        lambda text, number: {"prompt": "Q", "response": text, "label": "L"},
        lambda answer: answer.json,
        lambda answer: "X-Judge-Failed" in answer.headers,
        FALLBACK,
    ),
    "nemo_gym": Protocol(
        "/verify",
        rollout,
        lambda answer: answer.json["reward"],
        lambda answer: bool(
            answer.json.get("_ng_failure_class") == "judge_failed" and answer.json["mask_sample"]
        ),
        FALLBACK,
    ),
}


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_each_sample_of_a_group_has_the_score_of_its_own_text(name: str) -> None:
    protocol = PROTOCOLS[name]
    async with running(*GATHERING, judge=judge) as server:
        bodies = [protocol.body(text, number) for number, text in enumerate(POINTS)]
        answers = await asyncio.gather(*(server.post(protocol.path, body) for body in bodies))
        asked_for = len(server.judge.requests)
    assert [protocol.reward(answer) for answer in answers] == list(POINTS.values())
    assert not any(protocol.is_flagged(answer) for answer in answers)
    assert asked_for == 1


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_a_sample_that_is_alone_is_flagged_and_not_scored(name: str) -> None:
    protocol = PROTOCOLS[name]
    async with running(*GATHERING, "--group_wait=0.1", judge=judge) as server:
        alone = await server.post(protocol.path, protocol.body("good", 0))
    assert (alone.status, protocol.reward(alone), protocol.is_flagged(alone)) == (
        200,
        protocol.without,
        True,
    )
    assert server.judge.requests == []


@pytest.mark.parametrize("name", ["native", "nemo_gym"])
async def test_a_sample_that_comes_too_late_is_flagged_and_not_scored(name: str) -> None:
    """The window in which a sample is late is as long as the wait: long enough for a slow machine, too."""
    protocol = PROTOCOLS[name]
    async with running(*GATHERING, "--group_wait=2", judge=judge) as server:
        bodies = [protocol.body(text, number) for number, text in enumerate(POINTS)]
        first, second = await asyncio.gather(
            *(server.post(protocol.path, body) for body in bodies[:2])
        )
        late = await server.post(protocol.path, bodies[2])
        metrics = (await server.get("/metrics")).text
    assert [protocol.reward(answer) for answer in (first, second)] == [0.9, 0.5]
    # NeMo Gym's row has the mean of the others, beside its mask.
    without = pytest.approx(0.7) if name == "nemo_gym" else protocol.without
    assert (late.status, protocol.reward(late), protocol.is_flagged(late)) == (200, without, True)
    assert 'judgegym_late_members_total{judge=""} 1.0' in metrics
    assert len(server.judge.requests) == 1


@pytest.mark.parametrize(
    "name", sorted(PROTOCOLS.keys() - {"native"})
)  # its result says so, at HTTP 200
async def test_only_what_may_succeed_is_to_be_sent_again(name: str) -> None:
    """Others of a group may come yet (503); that all are there, and one alone is not empty, stays so (422)."""
    protocol = PROTOCOLS[name]
    flags = ("--judge=listwise", "--group_size=2", "--on_failure=http")
    async with running(*flags, "--group_wait=0.1", judge=judge) as server:
        alone = await server.post(protocol.path, protocol.body("good", 0))
    async with running(*flags, judge=judge) as server:
        bodies = [protocol.body(text, number) for number, text in enumerate(["good", ""])]
        beside, empty = await asyncio.gather(*(server.post(protocol.path, body) for body in bodies))
        asked_for = len(server.judge.requests)
    assert (alone.status, alone.json["error"]["type"], alone.headers["Retry-After"]) == (
        503,
        "judge_failed",
        "1",
    )
    assert (beside.status, beside.json["error"]["type"], beside.headers.get("Retry-After")) == (
        422,
        "unusable",
        None,
    )
    assert beside.json["error"]["message"].startswith("2 of 2 members came")
    assert (empty.status, asked_for) == (200, 0)


async def test_several_samples_of_a_group_in_one_request_of_openrlhf_are_a_group() -> None:
    """Beside those of another prompt; lists of more than one sample are not what OpenRLHF sends, but what it may."""
    queries = [(prompt, text) for text in POINTS for prompt in ("Q: ", "P: ")]
    body = {
        "query": [prompt + text for prompt, text in queries],
        "prompts": [prompt for prompt, _ in queries],
        "labels": None,
    }
    async with running(*GATHERING, judge=judge) as server:
        answer = await server.post("/get_reward", body)
        asked_for = len(server.judge.requests)
    assert answer.json["rewards"] == [POINTS[text] for _, text in queries]
    assert asked_for == 2


async def test_rows_of_groups_cannot_be_verified_again_one_by_one() -> None:
    mounts = (
        '--mounts={"alone": {"judge": "rubric"}, "whole": {"judge": "listwise", "group_size": '
        "null}}"
    )
    async with running(*GATHERING, mounts, judge=judge) as server:
        modes = [
            (await server.get(f"{mount}/reverify_mode")).json for mount in ("", "/alone", "/whole")
        ]
    assert modes == ["unsupported", "stateless", "stateless"]


@pytest.mark.parametrize("kind", ["listwise", "tournament", "arena_hard"])
async def test_blank_baseline_is_none_and_no_response_wins_against_it(kind: str) -> None:
    async with running(f"--judge={kind}", judge="never asked") as server:
        answer = await server.post(
            "/v1/score", {"prompt": "Q", "response": "good", "baseline": " \n"}
        )
    assert (answer.status, answer.json["error"]["type"]) == (422, "unusable")
    assert server.judge.requests == []
