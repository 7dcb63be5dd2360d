"""How the server is run: in time, bounded, joined, guarded, logged, counted."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from tests.command import PATIENCE_S
from tests.core.server.bodies import DOWN, logs
from tests.core.server.running import running
from tests.scripted import Json, Reply, ScriptedEndpoint, completion, in_turn
from tests.trainer import until

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

    The last one joins the judgment that is under way, or finds it in the cache if that has just
    ended.
    """
    gate, flags = (
        Gate(),
        ("--deadline=2", "--judge_deadline=900", f"--judge_cache={tmp_path / 'cache.sqlite'}"),
    )
    async with running(*flags, judge=gate) as server:
        tries = [await server.post("/get_reward", OPENRLHF) for _ in range(2)]
        gate.opened.set()
        last = await server.post("/get_reward", OPENRLHF)
        judged = len(server.judge.requests)
    assert [answer.status for answer in tries] == [503] * 2
    assert last.json == {"rewards": [1.0], "scores": [1.0], "extra_logs": logs(0.0)}
    assert judged == 1


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
    assert (refused.status, refused.headers["Retry-After"], refused.json["error"]["type"]) == (
        503,
        "1",
        "overloaded",
    )
    assert [answer.status for answer in answers] == [200, 200]
    assert (unready.status, ready.status) == (503, 200)


@pytest.mark.parametrize("flags", [("--on_failure=score", "--fallback_score=0.5"), ()])
async def test_a_full_server_answers_openrlhf_with_a_number_only_where_one_is_chosen(
    flags: tuple[str, ...],
) -> None:
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
        async with running(
            cache, url
        ) as server:  # another one, which keeps no judgment of the first
            again = await server.post("/v1/score", ASK)
            metrics = (await server.get("/metrics")).text
        assert len(judge.requests) == 1
    assert (first.json["cached"], again.json["cached"]) == (False, True)
    assert first.json["score"] == again.json["score"] == 1.0
    assert 'judgegym_cache_hits_total{judge=""} 1.0' in metrics


TOKENS = '--tokens={"trainer-a": "open-sesame", "trainer-b": "swordfish"}'


async def test_an_open_address_needs_tokens() -> None:
    with pytest.raises(SettingsError, match=r"0\.0\.0\.0.*token"):
        async with running("--host=0.0.0.0") as server:
            server.service.settings.check_access()
    for flags in (
        ["--host=0.0.0.0", "--insecure"],
        ["--host=0.0.0.0", TOKENS],
        ["--host=localhost"],
    ):
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
        (
            '{"prompt": "Q", "response": "A", "rubric": {"score1_description": "bad"}}',
            422,
            "criteria",
        ),
        (
            '{"prompt": "Q", "response": "A", "rubric": {"criteria": "?", "score٣_description": '
            '"bad"}}',
            422,
            "score٣",
        ),
        (
            '{"prompt": "Q", "response": "A", "rubric": {"criteria": "C", "score9_description": '
            '"x"}}',
            422,
            "score 9",
        ),
        ("x" * (2 * 1024 * 1024), 413, "larger"),
    ]
    async with running("--max_body_mb=1", judge=VERDICT) as server:
        for body, status, words in cases:
            answer = await server.post("/v1/score", body)
            assert answer.status == status, body[:80]
            assert words in answer.json["error"]["message"]
    assert server.judge.requests == []


async def test_lists_that_do_not_fit() -> None:
    async with running() as server:
        for lists in ({"prompts": []}, {"labels": []}, {"query": [1]}, {"prompts": "Q"}):
            answer = await server.post("/get_reward", {**OPENRLHF, **lists})
            assert (answer.status, answer.json["error"]["type"]) == (422, "invalid"), lists


async def test_half_a_character_is_no_fault_of_the_request() -> None:
    """Python's own JSON writes lone surrogates, and a text that is cut at a token may end in one."""
    async with running(judge=VERDICT) as server:
        answer = await server.post(
            "/get_reward", '{"query": ["Q\\ud83d"], "prompts": ["Q"], "labels": [null]}'
        )
    assert (answer.status, answer.json["rewards"]) == (200, [1.0])


async def test_metrics_and_the_last_judgments() -> None:
    answers = {"A": VERDICT, "B": "I cannot say."}

    def judge(request: Json, number: int) -> str | Reply:
        shown = request["messages"][-1]["content"]
        return next(answer for name, answer in answers.items() if f"Evaluate\n\n{name}" in shown)

    async with running(
        "--judge_price_input=1000000", "--judge_price_output=0", judge=judge
    ) as server:
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


PRICED = ("--judge_price_input=1000000", "--judge_price_output=0")
UNKNOWN, CACHED = completion(VERDICT), completion(VERDICT)
del UNKNOWN["usage"]
CACHED["usage"]["prompt_tokens_details"] = {"cached_tokens": 8}
COUNTED: dict[str, tuple[tuple[str, ...], list[Reply | str], list[str], str]] = {
    "requests that are sent again are attempts of one call": (
        ("--judge_max_retries=2",),
        [Reply(status=429, headers={"Retry-After": "0"}), Reply(status=500), VERDICT],
        ["A"],
        'judge_calls_total{judge=""} 1.0, judge_attempts_total{judge=""} 3.0',
    ),
    "cached prompt tokens have their price": (
        (*PRICED, "--judge_price_cached_input=500000"),
        [Reply(body=CACHED)],
        ["A"],
        'prompt_tokens_total{judge=""} 10.0, cached_prompt_tokens_total{judge=""} 8.0, '
        'cost_usd_total{judge=""} 6.0',
    ),
    "a response whose cost is not known is counted beside the cost of the others": (
        PRICED,
        [VERDICT, Reply(body=UNKNOWN), VERDICT],
        ["A", "B", "C"],
        'cost_usd_total{judge=""} 20.0, unpriced_responses_total{judge=""} 1.0',
    ),
    "an empty completion is no failure of the judge": (
        (),
        [VERDICT],
        ["", "A"],
        'responses_total{judge="",status="invalid_completion"} 1.0, '
        'responses_total{judge="",status="ok"} 1.0',
    ),
}


@pytest.mark.parametrize(("flags", "replies", "responses", "lines"), COUNTED.values(), ids=COUNTED)
async def test_what_is_counted(
    flags: tuple[str, ...], replies: list[Reply | str], responses: list[str], lines: str
) -> None:
    async with running(*flags, judge=in_turn(*replies)) as server:
        for response in responses:
            answer = await server.post("/v1/score", {"prompt": "Q", "response": response})
        metrics = (await server.get("/metrics")).text
    assert [line for line in lines.split(", ") if f"judgegym_{line}\n" not in metrics] == []
    assert "judgegym_judge_failures_total{" not in metrics
    assert answer.json["status"] == "ok"


@pytest.mark.parametrize("then", [VERDICT, DOWN], ids=["judged", "failed"])
async def test_a_failure_that_is_told_before_the_judgment_ends_is_counted_once(
    then: Reply | str,
) -> None:
    opened = asyncio.Event()

    async def judge(request: Json, number: int) -> Reply | str:
        await opened.wait()
        return then

    async with running(
        "--deadline=0.2", "--judge_deadline=900", "--judge_timeout=300", judge=judge
    ) as server:
        late = await server.post("/v1/score", ASK)
        opened.set()

        async def ended() -> bool:
            return "judgegym_responses_total{" in (await server.get("/metrics")).text

        await until(ended, "the judgment has ended")
        metrics = (await server.get("/metrics")).text
    assert late.json["status"] == "judge_failed"
    assert 'judgegym_unjudged_answers_total{cause="late",judge=""} 1.0' in metrics
    assert re.findall(r"judgegym_judge_failures_total({.*)", metrics) == [
        '{cause="late",judge=""} 1.0'
    ]


async def test_cost_without_a_price_has_no_series_and_is_null(tmp_path: Path) -> None:
    def judge(request: Json, number: int) -> str | Reply:
        return (
            Reply(status=400)
            if "Evaluate\n\nFAIL" in request["messages"][-1]["content"]
            else VERDICT
        )

    async with running(f"--judge_cache={tmp_path / 'cache.sqlite'}", judge=judge) as server:
        await server.post("/v1/score", {"prompt": "Q", "responses": ["FAIL", ""]})
        answer = await server.post("/v1/score", {"prompt": "Q", "responses": ["A"]})
        await server.post("/v1/score", {"prompt": "Q", "responses": ["A"]})  # from the cache
        metrics = (await server.get("/metrics")).text
    assert [result["usage"]["cost_usd"] for result in answer.json["results"]] == [None]
    assert "judgegym_judge_calls_total" in metrics
    assert "judgegym_cost_usd_total{" not in metrics


async def test_a_judge_that_raises_is_one_failure() -> None:
    async with running("--weighting=logprobs", judge=VERDICT) as server:
        answer = await server.post("/v1/score", ASK)
        again = await server.get("/healthz")
    assert (answer.status, answer.json["score"], answer.json["status"]) == (
        200,
        None,
        "judge_failed",
    )
    assert "logprobs" in answer.json["explanation"]
    assert again.status == 200
