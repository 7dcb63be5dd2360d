"""Each server is asked in its published form; what it answers in another form is no score."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.reward_models.judge import RewardDetail, RewardModelJudge, RewardModelSettings
from judgegym.judges.reward_models.protocols import PROTOCOLS, RewardProtocol
from tests.core.judges.reward_models.servers import TOKENS, answer_of, reward_server
from tests.scripted import Reply, ScriptedEndpoint

Connect = Callable[..., Any]
ALL = tuple(PROTOCOLS)
PROMPT = "system: Be brief.\n\nuser: Why?"


def settings_of(protocol: RewardProtocol, **given: Any) -> RewardModelSettings:
    needs_text = PROTOCOLS[protocol].takes == "text" or (
        protocol != "vllm_score" and given.get("reward_batch", 1) > 1
    )
    tokenizer = {"reward_tokenizer": "none"} if needs_text else {}
    return RewardModelSettings(reward_protocol=protocol, **{**tokenizer, **given})


async def judged(
    client: Any, settings: RewardModelSettings, *responses: str, prompt: str = PROMPT
) -> list[Judgment[RewardDetail]]:
    judge = RewardModelJudge(settings, client)
    return list(
        await asyncio.gather(
            *(judge.judge(JudgeTask(prompt, (response,))) for response in responses)
        )
    )


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("protocol", ALL)
async def test_each_response_gets_its_own_number(
    connect: Connect, protocol: RewardProtocol, batch: int
) -> None:
    async with ScriptedEndpoint(reward_server(protocol, float)) as endpoint:
        found = await judged(
            connect(endpoint), settings_of(protocol, reward_batch=batch), "0.5", "-2", "4"
        )
    assert [each.score for each in found] == [0.5, -2.0, 4.0]
    assert {request.path for request in endpoint.requests} == {PROTOCOLS[protocol].path}
    assert len(endpoint.requests) == (3 if batch == 1 else 2)
    assert sum(each.calls[0].run.attempts for each in found) == len(endpoint.requests), (
        "a request counts once"
    )
    tokens = sum(each.calls[0].run.usage.prompt_tokens for each in found)
    assert tokens == (0 if protocol == "openrlhf" else 3 * TOKENS)
    assert all(request.json.get("use_activation", False) is False for request in endpoint.requests)


async def test_a_server_with_a_template_gets_the_turns_and_others_get_one_text_or_a_pair(
    connect: Connect,
) -> None:
    bodies = {}
    for protocol in ALL:
        async with ScriptedEndpoint(reward_server(protocol, lambda text: 1.0)) as endpoint:
            await judged(connect(endpoint), settings_of(protocol), "Since.")
        (bodies[protocol],) = endpoint.bodies
    turns = [("system", "Be brief."), ("user", "Why?"), ("assistant", "Since.")]
    for protocol in ("vllm_classify", "vllm_pooling"):
        assert [(each["role"], each["content"]) for each in bodies[protocol]["messages"]] == turns
    assert (bodies["vllm_score"]["text_1"], bodies["vllm_score"]["text_2"]) == (
        [PROMPT],
        ["Since."],
    )
    assert (
        bodies["sglang_classify"]["text"]
        == bodies["openrlhf"]["query"]
        == ["Be brief.\nWhy?\nSince."]
    )
    assert bodies["openrlhf"]["prompts"] == [PROMPT]


def spoilt(protocol: RewardProtocol) -> list[tuple[Any, Status, str]]:
    """Answers to a request for one response that hold no number of it."""
    items = "data" if protocol.startswith("vllm") else "rewards"
    nan = str(answer_of(protocol, [12345.0])).replace("'", '"').replace("12345.0", "NaN")
    return [
        (answer_of(protocol, [1.0, 2.0]), Status.JUDGE_FAILED, "2 items for 1 responses"),
        (answer_of(protocol, []), Status.JUDGE_FAILED, "0 items for 1 responses"),
        (
            {},
            Status.JUDGE_FAILED,
            "no 'embedding'" if protocol == "sglang_classify" else f"no list '{items}'",
        ),
        (nan, Status.UNPARSABLE, "no finite number"),
        (answer_of(protocol, [None]), Status.UNPARSABLE, "no finite number"),
        (answer_of(protocol, ["1.5"]), Status.UNPARSABLE, "no finite number"),
        (answer_of(protocol, [True]), Status.UNPARSABLE, "no finite number"),
        (answer_of(protocol, [[]]), Status.UNPARSABLE, "no finite number"),
    ]


@pytest.mark.parametrize("protocol", ALL)
async def test_an_answer_without_its_number_is_a_failed_judgment(
    connect: Connect, protocol: RewardProtocol
) -> None:
    for body, status, words in spoilt(protocol):
        async with ScriptedEndpoint(Reply(body=body)) as endpoint:
            (found,) = await judged(connect(endpoint), settings_of(protocol), "Since.")
        assert (found.score, found.status) == (None, status), body
        assert words in found.explanation
        assert len(endpoint.requests) == 1, "the same request would have the same answer"


async def test_a_response_without_a_number_takes_none_of_its_request_with_it(
    connect: Connect,
) -> None:
    numbers = {"1": 1.0, "?": None, "3": 3.0}
    async with ScriptedEndpoint(reward_server("openrlhf", numbers.__getitem__)) as endpoint:
        found = await judged(connect(endpoint), settings_of("openrlhf", reward_batch=3), *numbers)
    assert [each.score for each in found] == [1.0, None, 3.0]
    assert len(endpoint.requests) == 1


async def test_other_entries_of_data_are_refused(connect: Connect) -> None:
    for entry, words in (
        ({"index": 1, "score": 1.0}, "not one each"),
        ({"score": 1.0}, "not one each"),
        ({"index": 0}, "has no 'score'"),
    ):
        async with ScriptedEndpoint(Reply(body={"data": [entry]})) as endpoint:
            (found,) = await judged(connect(endpoint), settings_of("vllm_score"), "Since.")
        assert found.status is Status.JUDGE_FAILED
        assert words in found.explanation


async def test_what_passes_is_asked_again_and_what_does_not_names_its_path(
    connect: Connect,
) -> None:
    replies = iter((Reply(status=503), Reply(body="<html>"), Reply(status=500)))

    def busy_at_first(request: Any, number: int) -> Reply:
        return next(replies, None) or reward_server("vllm_classify", float)(request, number)

    async with ScriptedEndpoint(busy_at_first) as endpoint:
        (found,) = await judged(connect(endpoint), settings_of("vllm_classify"), "2")
        assert (found.score, found.calls[0].run.attempts) == (2.0, 4)
    async with ScriptedEndpoint(Reply(status=404, body={"detail": "Not Found"})) as endpoint:
        (found,) = await judged(connect(endpoint), settings_of("vllm_classify"), "2")
    assert "HTTP 404 after 1 request; last answer: Not Found (at /classify)" in found.explanation


async def test_a_base_url_may_name_the_path(connect: Connect) -> None:
    async with ScriptedEndpoint(reward_server("openrlhf", float)) as endpoint:
        url = endpoint.base_url.replace("/v1", "/get_reward")
        (found,) = await judged(connect(url), settings_of("openrlhf"), "2")
    assert found.score == 2.0
