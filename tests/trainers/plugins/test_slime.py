"""slime's reward function: a group in one request, a sample with its ids; no score means no part in the loss."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from judgegym.llm.errors import SettingsError
from judgegym_trainers.slime import close, reward
from tests.core.server.running import asked, running
from tests.scripted import Json
from tests.trainers.judges import best
from tests.trainers.judges import good_or_bad as score
from tests.trainers.plugins.scoring_server import answering


@dataclass
class Sample:
    response: str
    prompt: Any = "Why?"
    label: Any = None
    metadata: dict[str, object] = field(default_factory=dict)
    group_index: int | None = 4
    index: int | None = None
    status: Any = "completed"
    remove_sample: bool = False


def group(*responses: str, **fields: Any) -> list[Sample]:
    return [Sample(response, index=number, **fields) for number, response in enumerate(responses)]


def arguments(url: str | None = None, *, group_rm: bool = True, **given: Any) -> SimpleNamespace:
    known: dict[str, Any] = {
        "rm_url": url,
        "group_rm": group_rm,
        "reward_key": None,
        "eval_reward_key": None,
    }
    return SimpleNamespace(**{**known, **given})


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    await close()


async def test_a_group_is_compared_in_one_request() -> None:
    samples = group(
        "bad",
        "good<|im_end|>",
        "worse",
        prompt="<|im_start|>user\nWhy?<|im_end|>\n",
        label="Since.",
    )
    async with running("--judge=choice", judge=best) as server:
        rewards = await reward(arguments(f"{server.url}/slime"), samples, evaluation=False)
        (request,) = server.judge.bodies
    assert rewards == [0.0, 1.0, 0.0]
    assert "Why?" in asked(request) and "<|im" not in asked(request)
    assert [sample.remove_sample for sample in samples] == [False] * 3
    assert {sample.metadata["judge_status"] for sample in samples} == {"ok"}


async def test_fields_of_the_metadata_and_the_label_reach_the_judge() -> None:
    samples = group(
        "good",
        "bad",
        label={"reference": "Since.", "rubric": None},
        metadata={"rubric": "Is it good?"},
    )
    async with running(judge=score) as server:
        assert await reward(arguments(server.url), samples) == [1.0, 0.0]
        shown = [asked(request) for request in server.judge.bodies]
    assert all("Is it good?" in text and "Since." in text for text in shown)


async def test_a_sample_without_a_score_gets_the_mean_of_the_others_and_is_kept_out_of_the_loss() -> (
    None
):
    assert await reward(arguments("http://127.0.0.1:1"), []) == []
    samples = group("good", "FAIL", "bad", "", "good")
    async with running(judge=score) as server:
        settings = {"invalid_completion_score": -1.0}
        rewards = await reward(arguments(server.url, judgegym=settings), samples)
    assert rewards == [1.0, 0.25, 0.0, -1.0, 1.0]
    assert [sample.remove_sample for sample in samples] == [False, True, False, False, False]
    assert samples[1].metadata["judge_status"] == "unparsable"
    assert samples[3].metadata["judge_status"] == "invalid_completion"


class Status(Enum):
    """slime's states of a sample."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"


async def test_a_sample_that_is_no_whole_answer_or_removed_is_not_judged_and_moves_no_baseline() -> (
    None
):
    samples = group("good", "bad", "half of", "", "good")
    samples[2].status, samples[3].status, samples[4].remove_sample = (
        Status.ABORTED,
        Status.FAILED,
        True,
    )
    async with running(judge=score) as server:
        rewards = await reward(arguments(server.url, reward_key="judge"), samples)
        assert len(server.judge.requests) == 2
        samples[2].status = Status.COMPLETED  # slime has generated it again
        again = await reward(arguments(server.url), samples)
    assert [each["judge"] for each in rewards] == [1.0, 0.0, 0.5, 0.5, 0.5]
    assert {each["judge_failed"] for each in rewards} == {0.0}
    assert again == [1.0, 0.0, 0.0, pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert [sample.remove_sample for sample in samples] == [False, False, False, True, True]
    assert "status is failed" in str(samples[3].metadata["judge_explanation"])


async def test_several_samples_of_one_rollout_are_refused_with_group_rm() -> None:
    samples: list[Any] = [group("good", "bad"), group("good")]
    with pytest.raises(SettingsError, match=r"--group-rm: .*several samples"):
        await reward(arguments("http://127.0.0.1:1"), samples)


async def test_a_group_without_any_score_gets_the_fallback_and_is_kept_out_of_the_loss() -> None:
    samples = group("a", "b")
    async with running("--judge=choice", judge="nobody") as server:
        given = {"fallback_score": 0.5, "url": server.url}
        assert await reward(arguments(judgegym=given), samples) == [0.5, 0.5]
    assert all(sample.remove_sample for sample in samples)


async def test_a_single_sample_with_reward_keys_gets_a_mapping_and_the_fallback() -> None:
    sample = Sample("FAIL")
    args = arguments(group_rm=False)
    async with running(judge=score) as server:
        args.rm_url = server.url
        assert await reward(args, sample) == 0.0
        args.reward_key, args.eval_reward_key = "judge", "eval"
        assert await reward(args, Sample("good")) == {
            "judge": 1.0,
            "eval": 1.0,
            "judge_failed": 0.0,
        }
    assert (sample.remove_sample, sample.metadata["judge_status"]) == (True, "unparsable")


async def test_a_single_sample_names_its_group_and_itself() -> None:
    bodies: list[Json] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"score": 0.5, "status": "ok"})

    async with answering(answer) as url:
        args = arguments(url, group_rm=False)
        assert await reward(args, Sample("good", index=33)) == 0.5
        assert await reward(args, [Sample("good", index=34), Sample("bad", group_index=None)]) == [
            0.5,
            0.5,
        ]
        await close()
    ids = sorted((str(body.get("group")), str(body.get("member"))) for body in bodies)
    assert ids == [("4", "33"), ("4", "34"), ("None", "None")]
    assert all("responses" not in body for body in bodies)


async def test_samples_of_different_prompts_are_no_group() -> None:
    samples = [Sample("a", prompt="P"), Sample("b", prompt="Q")]
    async with running("--judge=choice", judge=best) as server:
        await reward(arguments(server.url), group("good", "bad"))
        assert await reward(arguments(server.url), samples) == [0.0, 0.0]
    assert re.search("differ .*prompt", str(samples[0].metadata["judge_explanation"]))
    assert all(sample.remove_sample for sample in samples)
