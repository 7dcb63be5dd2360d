"""Judges of groups over HTTP, and cohorts: protocols, faults of the judge, the end of the server, the page."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.core.server.group_judges import arena_judge, listwise_judge
from tests.core.server.running import Answer, Running, asked, running
from tests.scripted import Json
from tests.trainer import until

FLAGS = ("--judge=listwise", "--group_size=3", "--deadline=20", "--group_wait=15")
SHORT = (*FLAGS[:2], "--deadline=20", "--group_wait=2")


def said(member: int, quality: float, cohort: str = "0-0") -> str:
    return f"cohort {cohort} member {member} quality {quality}"


def body(member: int, quality: float = 0.5, **fields: Any) -> Json:
    return {"prompt": "Q", "response": said(member, quality), "member": member, **fields}


async def posted(server: Running, *bodies: Json, path: str = "/v1/score") -> list[Answer]:
    return await asyncio.gather(*(server.post(path, each) for each in bodies))


def scores(answers: list[Answer]) -> list[Any]:
    return [answer.json["score"] for answer in answers]


async def test_responses_of_two_clients_share_no_group() -> None:
    """Two training runs over the same prompts, each with its own token, and the same ids."""
    tokens = {"trainer-a": "xyzzy", "trainer-b": "swordfish"}
    async with running(*SHORT, f"--tokens={json.dumps(tokens)}", judge=listwise_judge) as server:
        paths = [f"/token/{token}/v1/score" for token in tokens.values()]
        firsts = asyncio.gather(
            *(posted(server, body(0, 0.1), body(1, 0.7), path=path) for path in paths[:1])
        )
        other = await posted(server, body(2, 0.4), path=paths[1])
        (together,) = await firsts
    assert scores(together) == [0.1, 0.7]
    assert scores(other) == [None]
    assert "1 of 3 members came" in other[0].json["explanation"]


async def test_baseline_is_an_anchor_and_one_response_is_enough_with_it() -> None:
    baseline = said(9, 0.4)
    async with running(*SHORT, judge=listwise_judge) as server:
        alone = await server.post("/v1/score", body(0, 0.8, baseline=baseline))
    async with running("--judge=listwise", judge=listwise_judge) as server:
        group = await server.post(
            "/v1/score", {"prompt": "Q", "responses": [said(0, 0.2)], "baseline": baseline}
        )
    assert alone.json["score"] == pytest.approx(0.7)
    assert group.json["results"][0]["score"] == pytest.approx(0.4)
    assert alone.json["components"] == {
        "own": 0.8,
        "looks": 1.0,
        "position": alone.json["components"]["position"],
    }


async def test_rubric_levels_reference_and_context_reach_the_judge_of_groups() -> None:
    rubric = {"criteria": "Is it kind?", "score5_description": "Very kind."}
    fields = {"rubric": rubric, "reference": "The reference.", "context": "The context."}
    expected = "Is it kind?\nScore 5: Very kind.", "The reference.", "The context."
    responses = [said(0, 0.1), said(1, 0.2)]
    for judge, script in (("listwise", listwise_judge), ("tournament", arena_judge)):
        async with running(f"--judge={judge}", judge=script) as server:
            answer = await server.post(
                "/v1/score", {"prompt": "Q", "responses": responses, **fields}
            )
        assert {each["status"] for each in answer.json["results"]} == {"ok"}
        for request in server.judge.bodies:
            shown = asked(request)
            assert [text for text in expected if text not in shown] == []


async def test_rubric_of_the_server_is_that_of_requests_without_one() -> None:
    async with running("--judge=listwise", "--rubric=Is it short?", judge=listwise_judge) as server:
        await server.post("/v1/score", {"prompt": "Q", "responses": [said(0, 0.1), said(1, 0.2)]})
    assert "Is it short?" in asked(server.judge.bodies[0])


async def test_too_many_responses_of_a_request_are_refused() -> None:
    async with running("--judge=tournament") as server:
        answer = await server.post(
            "/v1/score", {"prompt": "Q", "responses": [f"text {n}" for n in range(65)]}
        )
        refused = await server.post(
            "/v1/score", {"prompt": "Q", "responses": [f"text {n}" for n in range(257)]}
        )
    assert (refused.status, "at most 256" in refused.text) == (422, True)
    assert answer.status == 422
    assert "at most 64" in answer.json["error"]["message"]


async def test_choice_of_a_cohort_is_the_best_of_all() -> None:
    def judge(request: Json, number: int) -> str:
        shown = asked(request)
        return f"[[{'ABC'[shown[: shown.index('BEST')].count('The Start of Assistant') - 1]}]]"

    async with running("--judge=choice", *FLAGS[1:], judge=judge) as server:
        answers = await posted(
            server, *({"prompt": "Q", "response": text} for text in ("one", "BEST", "two"))
        )
    assert scores(answers) == [0.0, 1.0, 0.0]


async def test_games_of_a_tournament_begin_while_members_arrive() -> None:
    """The third member is sent when the games of the first two have begun."""
    async with running("--judge=tournament", *FLAGS[1:], judge=arena_judge) as server:
        waiting = asyncio.ensure_future(posted(server, body(0, 0.1), body(1, 0.9)))
        await server.judge.arrived(2)
        answers = [*await posted(server, body(2, 0.4)), *await waiting]
    middle, worst, best = scores(answers)
    assert worst < middle < best
    assert len(server.judge.requests) == 6


async def test_responses_of_another_prompt_label_rubric_or_group_are_another_cohort() -> None:
    """The first would be judged with the others, and nobody would be alone."""
    others = {"prompt": "P"}, {"reference": "R"}, {"rubric": "S"}, {"group": "7"}, {"group": "8"}
    bodies = [body(0), *({**body(number), **other} for number, other in enumerate(others, 1))]
    async with running(*SHORT, judge=listwise_judge) as server:
        answers = await posted(server, *bodies)
    assert [answer.json["explanation"].partition(" members")[0] for answer in answers] == [
        "1 of 3"
    ] * 6
    assert server.judge.requests == []


async def test_page_and_metrics_show_each_member_once_and_the_cohorts() -> None:
    async with running(*FLAGS, judge=listwise_judge) as server:
        await posted(server, *(body(member) for member in range(3)))
        await posted(server, body(0))
        waiting = asyncio.ensure_future(posted(server, {**body(0), "prompt": "P"}))
        await until(lambda: server.service.core.pending == 1, "it waits")
        metrics = (await server.get("/metrics")).text
        recent = (await server.get("/v1/recent")).json["judgments"]
        server.service.drain()
        await waiting
    assert sorted(each["response"] for each in recent) == [said(member, 0.5) for member in range(3)]
    for line in (
        'judgegym_cohorts_open{judge=""} 1.0',
        'judgegym_cohorts_closed_total{how="full",judge=""} 1.0',
        'judgegym_responses_total{judge="",status="ok"} 3.0',
        'judgegym_equal_responses_total{judge=""} 1.0',
        'judgegym_judge_calls_total{judge=""} 1.0',
        "judgegym_in_flight 1.0",
    ):
        assert line in metrics
