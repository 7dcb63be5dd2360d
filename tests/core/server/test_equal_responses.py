"""Equal responses are judged once: of one request, of several in flight, alone or compared; their calls count once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges.core.tasks import JudgeTask
from judgegym.server import pending
from judgegym.server.core import Core
from judgegym.server.settings import JudgeMount
from tests.core.server.bodies import VERIFY
from tests.core.server.running import Running, running
from tests.scripted import Json, ScriptedEndpoint

TOKENS = 10
"""The prompt's tokens of each call, as the scripted endpoint counts them."""


def asked(request: Json) -> str:
    content: str = request["messages"][-1]["content"]
    return content


def numbered(verdict: Callable[[int], str]) -> Callable[[Json, int], str]:
    """A judge that says something else each time it is asked."""
    return lambda request, number: verdict(number)


JUDGES = {
    "rubric": numbered(lambda number: f"[FEEDBACK] number {number} [SCORE] {1 + number % 5}"),
    "aspect": numbered(lambda number: f'{{"reason": "number {number}", "verdict": {number % 2}}}'),
    "peer": numbered(lambda number: f'{{"reasoning": "number {number}", "score": {number}}}'),
    "arena_hard": numbered(lambda number: f"number {number} [[A>B]]"),
}


async def scored(server: Running, *responses: str, **fields: Any) -> list[Any]:
    answer = await server.post("/v1/score", {"prompt": "Q", "responses": list(responses), **fields})
    assert answer.status == 200, answer.text
    results: list[Any] = answer.json["results"]
    return results


def calls(results: list[Any]) -> list[int]:
    return [result["usage"]["judge_calls"] for result in results]


def told(result: Any) -> Any:
    """What a result says of the response, without what it cost."""
    return {name: value for name, value in result.items() if name not in ("usage", "shared")}


@pytest.mark.parametrize("judge", JUDGES)
async def test_equal_responses_of_a_request_have_one_judgment(judge: str) -> None:
    fields = {"baseline": "b"} if judge == "arena_hard" else {}
    async with running(f"--judge={judge}", judge=JUDGES[judge]) as server:
        one, other, *equal = await scored(server, "A", "B", "A", "A", **fields)
        metrics = (await server.get("/metrics")).text
        made = len(server.judge.requests)
    of_each = made // 2
    assert [told(each) for each in equal] == [told(one)] * 2
    assert calls([one, other, *equal]) == [of_each, of_each, 0, 0]
    assert sum(each["usage"]["prompt_tokens"] for each in (one, other, *equal)) == made * TOKENS
    assert [each["shared"] for each in (one, other, *equal)] == [False, False, True, True]
    assert f'judgegym_judge_calls_total{{judge=""}} {made}.0' in metrics
    assert 'judgegym_responses_total{judge="",status="ok"} 2.0' in metrics
    assert 'judgegym_equal_responses_total{judge=""} 2.0' in metrics


class Gate:
    """A judge that answers when it is opened, and says which call this is."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, request: Json, number: int) -> str:
        await self.opened.wait()
        return f"[FEEDBACK] number {number} [SCORE] {1 + number % 5}"


async def test_other_protocols_join_equal_rows_in_flight() -> None:
    gate = Gate()
    slime = {"prompt": "Q", "response": "A", "label": None}
    rewards = {"query": ["QA", "QB", "QA"], "prompts": ["Q"] * 3, "labels": [None] * 3}
    async with running(judge=gate) as server:
        posted = [
            ("/slime", slime),
            ("/slime", slime),
            ("/get_reward", rewards),
            *[("/verify", VERIFY)] * 2,
        ]
        tasks = [asyncio.create_task(server.post(path, body)) for path, body in posted]
        await server.judge.arrived(3)
        gate.opened.set()
        one, same, batch, row, again = await asyncio.gather(*tasks)
        assert len(server.judge.requests) == 3, "A, B, and the row of NeMo Gym"
    first, _, last = batch.json["rewards"]
    assert one.json == same.json == first == last
    assert row.json["reward"] == again.json["reward"]


async def test_equal_responses_count_once_against_the_limit_of_pending_judgments() -> None:
    async with running("--max_pending=2") as server:
        assert [each["score"] for each in await scored(server, "A", "B", "A", "A")] == [0.75] * 4
        rows = {"query": ["QC", "QD", "QC"], "prompts": ["Q"] * 3, "labels": None}
        assert (await server.post("/get_reward", rows)).json["rewards"] == [0.75] * 3
        refused = await server.post("/v1/score", {"prompt": "Q", "responses": ["E", "F", "G"]})
    assert refused.status == 503


def longer(request: Json, number: int) -> str:
    """The longer answer wins."""
    text = asked(request)
    first = text.partition("Assistant A's Answer|>\n")[2].partition("\n<|The End")[0]
    second = text.partition("Assistant B's Answer|>\n")[2].partition("\n<|The End")[0]
    return "[[A>B]]" if len(first) > len(second) else "[[B>A]]"


async def test_equal_responses_are_one_player_and_each_pair_of_others_has_two_games() -> None:
    async with running("--judge=arena_hard", judge=longer) as server:
        results = await scored(server, "aa", "aaa", "aa", "a", "")
        made = len(server.judge.requests)
        alone = await scored(server, "same", "same")
        assert len(server.judge.requests) == made, "equal responses are not compared by a judge"
    assert made == 3 * 2
    middle, best, same, worst, empty = [each["score"] for each in results]
    assert middle == same == pytest.approx(0.5)
    assert best > 0.75
    assert worst == pytest.approx(1 - best)
    assert empty is None
    assert [each["components"].get("looks") for each in results] == [4.0] * 4 + [None]
    assert calls(results) == [made, 0, 0, 0, 0]
    assert [each["shared"] for each in results] == [False, False, True, False, False]
    assert [each["score"] for each in alone] == [0.5, 0.5]
    assert calls(alone) == [0, 0]


async def test_equal_requests_one_after_the_other_are_paid_once() -> None:
    async with running(judge=JUDGES["rubric"]) as server:
        first, *others = [(await scored(server, "A"))[0] for _ in range(5)]
        other = (await scored(server, "B"))[0]
        metrics = (await server.get("/metrics")).text
        assert len(server.judge.requests) == 2
    assert [told(each) for each in others] == [told(first)] * 4
    assert calls([first, *others, other]) == [1, 0, 0, 0, 0, 1]
    assert [each["shared"] for each in (first, *others)] == [False, True, True, True, True]
    assert 'judgegym_judge_calls_total{judge=""} 2.0' in metrics


@pytest.mark.parametrize(
    ("limit", "value"), [("_MOST_BYTES", 4000), ("_KEPT_S", 0.0)], ids=["size", "time"]
)
async def test_what_is_kept_is_bounded(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    monkeypatch.setattr(pending, limit, value)
    async with running(judge=JUDGES["rubric"]) as server:
        for response in "ABCA":  # two of them fit
            await scored(server, response)
        assert len(server.judge.requests) == 4


async def test_a_judgment_is_paid_by_one_request_whenever_others_ask_for_it() -> None:
    """Requests come at turns of the event loop, also between a judgment's end and the response to the first request."""
    async with ScriptedEndpoint(lambda request, number: "[FEEDBACK] Good. [SCORE] 4") as endpoint:
        mount = JudgeMount(judge="rubric", rubric="Is it right?", judge_base_url=endpoint.base_url)
        async with Core({"": mount}, deadline_s=60.0, max_pending=100_000) as core:
            for number in range(24):
                task = JudgeTask(prompt="Why?", responses=(f"Because of {number}.",))
                scoring = [asyncio.create_task(core.score("", [task]))]
                while not scoring[0].done():
                    for _ in range(2 + number % 3):
                        await asyncio.sleep(0)
                    scoring.append(asyncio.create_task(core.score("", [task])))
                judgments = [(await judged)[0][0] for judged in scoring]
                assert {judgment.score for judgment in judgments} == {0.75}
                assert [judgment.shared for judgment in judgments].count(False) == 1
                assert sum(judgment.judge_calls for judgment in judgments) == 1
        assert len(endpoint.requests) == 24
