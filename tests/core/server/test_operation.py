"""How the server is run: in time, bounded, joined, guarded, logged, counted."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym.server.operation import JsonLines
from tests.command import PATIENCE_S
from tests.core.server.bodies import logs
from tests.core.server.running import Running, running
from tests.scripted import Json, Reply, ScriptedEndpoint, completion, in_turn

ASK = {"prompt": "Q", "response": "A"}
OPENRLHF = {"query": ["QA"], "prompts": ["Q"], "labels": [None]}
VERDICT = "[FEEDBACK] fine [SCORE] 5"


class Gate:
    """A judge that answers nobody until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, request: Json, number: int) -> str:
        await self.opened.wait()
        return VERDICT


async def test_a_number_arrives_in_time_and_the_judgment_goes_on(tmp_path: Path) -> None:
    """OpenRLHF's loop: each try gets its number within the deadline; once the judge is done, the real one.

    The last one joins the judgment that is under way, or finds it in the cache if that has just ended.
    """
    gate, flags = Gate(), ("--deadline=2", "--judge_deadline=900", f"--judge_cache={tmp_path / 'cache.sqlite'}")
    async with running(*flags, judge=gate) as server:
        tries = [await server.post("/get_reward", OPENRLHF) for _ in range(2)]
        gate.opened.set()
        last = await server.post("/get_reward", OPENRLHF)
        judged = len(server.judge.requests)
    assert [answer.status for answer in tries] == [503] * 2
    assert last.json == {"rewards": [1.0], "scores": [1.0], "extra_logs": logs(0.0)}
    assert judged == 1


async def test_equal_judgments_under_way_are_one() -> None:
    gate = Gate()
    async with running(judge=gate) as server:
        waiting = [asyncio.create_task(server.post("/v1/score", ASK)) for _ in range(20)]
        other = asyncio.create_task(server.post("/v1/score", {**ASK, "rubric": "Another?"}))
        await server.judge.arrived(2)
        gate.opened.set()
        answers = await asyncio.gather(*waiting, other)
    assert {answer.json["score"] for answer in answers} == {1.0}
    assert len(server.judge.requests) == 2


async def test_no_more_judgments_are_taken_than_allowed() -> None:
    gate = Gate()
    async with running("--max_pending=1", judge=gate) as server:
        first = asyncio.create_task(server.post("/v1/score", ASK))
        await server.judge.arrived(1)
        refused = await server.post("/v1/score", {**ASK, "response": "B"})
        joined = asyncio.create_task(server.post("/v1/score", ASK))
        unready = await server.get("/readyz")
        gate.opened.set()
        answers = await asyncio.gather(first, joined)
        ready = await server.get("/readyz")
    assert (refused.status, refused.headers["Retry-After"], refused.json["error"]["type"]) == (503, "1", "overloaded")
    assert [answer.status for answer in answers] == [200, 200]
    assert (unready.status, ready.status) == (503, 200)


@pytest.mark.parametrize("flags", [("--on_failure=score", "--fallback_score=0.5"), ()])
async def test_a_full_server_answers_openrlhf_with_a_number_only_where_one_is_chosen(flags: tuple[str, ...]) -> None:
    """Its client gives up after five refusals, and the run ends."""
    gate = Gate()
    async with running("--max_pending=1", *flags, judge=gate) as server:
        first = asyncio.create_task(server.post("/v1/score", ASK))
        await server.judge.arrived(1)
        full = await server.post("/get_reward", {**OPENRLHF, "query": ["QB"]})
        wrong = await server.post("/get_reward", {**OPENRLHF, "prompts": []})
        gate.opened.set()
        await first
        server.service.draining = True
        stopping = await server.post("/get_reward", OPENRLHF)
    flagged = {"rewards": [0.5], "scores": [0.5], "extra_logs": logs(1.0)}
    assert (full.status, full.json) == (200, flagged) if flags else full.status == 503
    assert (wrong.status, stopping.status) == (422, 503)


async def test_a_body_that_is_declared_to_be_endless_is_refused_before_it_is_sent() -> None:
    async with running(judge=VERDICT) as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{")
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), PATIENCE_S)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_judgment_that_was_paid_for_is_cached(tmp_path: Path) -> None:
    cache = f"--judge_cache={tmp_path / 'cache.sqlite'}"
    async with ScriptedEndpoint(VERDICT) as judge:
        url = f"--judge_base_url={judge.base_url}"
        async with running(cache, url) as server:
            first = await server.post("/v1/score", ASK)
        async with running(cache, url) as server:  # another one, which keeps no judgment of the first
            again = await server.post("/v1/score", ASK)
            metrics = (await server.get("/metrics")).text
        assert len(judge.requests) == 1
    assert (first.json["cached"], again.json["cached"]) == (False, True)
    assert first.json["score"] == again.json["score"] == 1.0
    assert 'judgegym_cache_hits_total{judge=""} 1.0' in metrics


TOKENS = '--tokens={"trainer-a": "open-sesame", "trainer-b": "swordfish"}'


async def test_tokens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="judgegym.server.service"):
        async with running(TOKENS, judge=VERDICT) as server:
            statuses = [
                (await server.post("/v1/score", ASK, **headers)).status
                for headers in (
                    {},
                    {"Authorization": "Bearer wrong"},
                    {"Authorization": "Bearer "},
                    {"Authorization": "Basic open-sesame"},
                    {"Authorization": "Bearer swordfish"},
                    {"Authorization": "bearer open-sesame"},
                )
            ]
            closed = [(await server.get(path)).status for path in ("/metrics", "/v1/recent", "/reverify_mode")]
            opened = [(await server.get(path)).status for path in ("/", "/healthz", "/readyz", "/openapi.json")]
    assert statuses == [401, 401, 401, 401, 200, 200]
    assert (closed, opened) == ([401] * 3, [200] * 4)
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert [line["caller"] for line in lines if line.get("path") == "/v1/score"][-2:] == ["trainer-b", "trainer-a"]
    logged = json.dumps(lines)
    assert "swordfish" not in logged
    assert "open-sesame" not in logged


async def test_an_open_address_needs_tokens() -> None:
    with pytest.raises(SettingsError, match=r"0\.0\.0\.0.*token"):
        async with running("--host=0.0.0.0") as server:
            server.service.settings.check_access()
    for flags in (["--host=0.0.0.0", "--insecure"], ["--host=0.0.0.0", TOKENS], ["--host=localhost"]):
        async with running(*flags) as server:
            server.service.settings.check_access()


async def test_a_body_that_cannot_be_meant() -> None:
    cases: list[tuple[Any, int, str]] = [
        ("{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        ("[]", 422, "object"),
        ('{"prompt": "Q"}', 422, "response"),
        ('{"prompt": 5, "response": "A"}', 422, "prompt"),
        ('{"prompt": "Q", "response": "A", "responses": ["B"]}', 422, "either"),
        ('{"prompt": "Q", "response": "A", "rubric": {"score1_description": "bad"}}', 422, "criteria"),
        ('{"prompt": "Q", "response": "A", "rubric": {"criteria": "?", "score٣_description": "bad"}}', 422, "score٣"),
        ('{"prompt": "Q", "response": "A", "rubric": {"criteria": "C", "score9_description": "x"}}', 422, "score 9"),
        ("x" * (2 * 1024 * 1024), 413, "larger"),
    ]
    async with running("--max_body_mb=1", judge=VERDICT) as server:
        for body, status, words in cases:
            answer = await server.post("/v1/score", body)
            assert answer.status == status, body[:80]
            assert words in answer.json["error"]["message"]
    assert server.judge.requests == []


@pytest.mark.slow
async def test_a_body_of_50_mb_is_refused() -> None:
    async with running(judge=VERDICT) as server:
        answer = await server.post("/get_reward", b'{"query": ["' + b"x" * (50 * 1024 * 1024) + b'"]}')
    assert (answer.status, answer.json["error"]["type"]) == (413, "too_large")


async def test_lists_that_do_not_fit() -> None:
    async with running() as server:
        for lists in ({"prompts": []}, {"labels": []}, {"query": [1]}, {"prompts": "Q"}):
            answer = await server.post("/get_reward", {**OPENRLHF, **lists})
            assert (answer.status, answer.json["error"]["type"]) == (422, "invalid"), lists


async def test_half_a_character_is_no_fault_of_the_request() -> None:
    """Python's own JSON writes lone surrogates, and a text that is cut at a token may end in one."""
    async with running(judge=VERDICT) as server:
        answer = await server.post("/get_reward", '{"query": ["Q\\ud83d"], "prompts": ["Q"], "labels": [null]}')
    assert (answer.status, answer.json["rewards"]) == (200, [1.0])


async def test_metrics_and_the_last_judgments() -> None:
    answers = {"A": VERDICT, "B": "I cannot say."}

    def judge(request: Json, number: int) -> str | Reply:
        shown = request["messages"][-1]["content"]
        return next(answer for name, answer in answers.items() if f"Evaluate\n\n{name}" in shown)

    async with running("--judge_price_input=1000000", "--judge_price_output=0", judge=judge) as server:
        await server.post("/v1/score", {"prompt": "Q", "responses": ["A", "B"]})
        metrics = (await server.get("/metrics")).text
        recent = (await server.get("/v1/recent")).json["judgments"]
    for line in (
        'judgegym_requests_total{code="200",judge="",protocol="native"} 1.0',
        'judgegym_responses_total{judge="",status="ok"} 1.0',
        'judgegym_responses_total{judge="",status="unparsable"} 1.0',
        'judgegym_judge_failures_total{cause="unparsable",judge=""} 1.0',
        'judgegym_score_bucket{judge="",le="0.9"} 0.0',
        'judgegym_score_count{judge=""} 1.0',
        'judgegym_judge_call_seconds_count{judge=""} 4.0',
        'judgegym_judge_attempts_total{judge=""} 4.0',
        'judgegym_judge_calls_total{judge=""} 4.0',  # the one without a score was drawn again, twice
        'judgegym_cost_usd_total{judge=""} 40.0',
        "judgegym_in_flight 0.0",
    ):
        assert line in metrics
    assert {each["response"]: each["result"]["score"] for each in recent} == {"A": 1.0, "B": None}


async def test_cached_prompt_tokens_are_counted_priced_and_told() -> None:
    body = completion(VERDICT)
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": 8}
    prices = ("--judge_price_input=1000000", "--judge_price_output=0", "--judge_price_cached_input=500000")
    async with running(*prices, judge=Reply(body=body)) as server:
        answer = await server.post("/v1/score", {"prompt": "Q", "response": "A"})
        metrics = (await server.get("/metrics")).text
    usage = answer.json["usage"]
    assert (usage["prompt_tokens"], usage["cached_prompt_tokens"], usage["cost_usd"]) == (10, 8, 6.0)
    assert 'judgegym_prompt_tokens_total{judge=""} 10.0' in metrics
    assert 'judgegym_cached_prompt_tokens_total{judge=""} 8.0' in metrics


async def test_requests_that_are_sent_again_are_attempts_of_one_call() -> None:
    replies = in_turn(Reply(status=429, headers={"Retry-After": "0"}), Reply(status=500), VERDICT)
    async with running("--judge_max_retries=2", judge=replies) as server:
        await server.post("/v1/score", ASK)
        metrics = (await server.get("/metrics")).text
    assert 'judgegym_judge_calls_total{judge=""} 1.0' in metrics
    assert 'judgegym_judge_attempts_total{judge=""} 3.0' in metrics


@pytest.mark.slow
async def test_an_empty_completion_is_no_failure_of_the_judge() -> None:
    async with running(judge=VERDICT) as server:
        await server.post("/v1/score", {"prompt": "Q", "responses": ["", "A"]})
        metrics = (await server.get("/metrics")).text
    assert 'judgegym_responses_total{judge="",status="invalid_completion"} 1.0' in metrics
    assert "judgegym_judge_failures_total{" not in metrics


async def test_cost_without_a_price_has_no_series_and_is_null(tmp_path: Path) -> None:
    def judge(request: Json, number: int) -> str | Reply:
        return Reply(status=400) if "Evaluate\n\nFAIL" in request["messages"][-1]["content"] else VERDICT

    async with running(f"--judge_cache={tmp_path / 'cache.sqlite'}", judge=judge) as server:
        await server.post("/v1/score", {"prompt": "Q", "responses": ["FAIL", ""]})
        answer = await server.post("/v1/score", {"prompt": "Q", "responses": ["A"]})
        await server.post("/v1/score", {"prompt": "Q", "responses": ["A"]})  # from the cache
        metrics = (await server.get("/metrics")).text
    assert [result["usage"]["cost_usd"] for result in answer.json["results"]] == [None]
    assert "judgegym_judge_calls_total" in metrics
    assert "judgegym_cost_usd_total{" not in metrics


async def test_a_response_whose_cost_is_not_known_is_counted_beside_the_cost_of_the_others() -> None:
    unknown = completion(VERDICT)
    del unknown["usage"]
    prices = "--judge_price_input=1000000", "--judge_price_output=0"
    async with running(*prices, judge=in_turn(VERDICT, Reply(body=unknown), VERDICT)) as server:
        for number in range(3):
            await server.post("/v1/score", {"prompt": "Q", "response": f"{number}"})
        metrics = (await server.get("/metrics")).text
    assert 'judgegym_cost_usd_total{judge=""} 20.0' in metrics
    assert 'judgegym_unpriced_responses_total{judge=""} 1.0' in metrics


async def test_a_failure_that_is_told_before_the_judgment_is_counted() -> None:
    """The judgment ends well after its caller was told a failure."""
    gate = Gate()
    async with running("--deadline=0.2", "--judge_deadline=900", judge=gate) as server:
        late = await server.post("/v1/score", ASK)
        gate.opened.set()
        judged = await server.post("/v1/score", ASK)
        metrics = (await server.get("/metrics")).text
    assert (late.json["status"], judged.json["status"]) == ("judge_failed", "ok")
    assert 'judgegym_responses_total{judge="",status="ok"} 1.0' in metrics
    assert 'judgegym_unjudged_answers_total{cause="late",judge=""} 1.0' in metrics
    assert re.findall(r"judgegym_judge_failures_total({.*)", metrics) == ['{cause="late",judge=""} 1.0']


async def test_a_judge_that_raises_is_one_failure() -> None:
    async with running("--weighting=logprobs", judge=VERDICT) as server:
        answer = await server.post("/v1/score", ASK)
        again = await server.get("/healthz")
    assert (answer.status, answer.json["score"], answer.json["status"]) == (200, None, "judge_failed")
    assert "logprobs" in answer.json["explanation"]
    assert again.status == 200


async def test_nothing_new_is_taken_while_stopping() -> None:
    async with running(judge=VERDICT) as server:
        server.service.draining = True
        refused = await server.post("/v1/score", ASK)
        unready = await server.get("/readyz")
        alive = await server.get("/healthz")
    assert (refused.status, unready.status, alive.status) == (503, 503, 200)


async def many(server: Running, count: int) -> list[int]:
    answers = await asyncio.gather(
        *(server.post("/get_reward", {**OPENRLHF, "query": [f"Q{number}"]}) for number in range(count))
    )
    return [answer.status for answer in answers]


@pytest.mark.slow
async def test_hundreds_at_once() -> None:
    async with running("--judge_max_concurrency=300", judge=VERDICT) as server:
        assert await many(server, 300) == [200] * 300
        assert server.service.core.pending == 0
    assert len(server.judge.requests) == 300


async def test_a_long_text_among_the_last_judgments_is_cut_with_a_word() -> None:
    async with running(judge=VERDICT) as server:
        await server.post("/v1/score", {"prompt": "Q" * 4000, "response": "A" * 4001})
        (recent,) = (await server.get("/v1/recent")).json["judgments"]
    assert recent["prompt"] == "Q" * 4000
    assert recent["response"] == "A" * 4000 + "… (4001 characters, cut here)"
