"""Spans of the server: request, judgment and calls, in the trace of the caller, without texts unless asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from judgegym.judges.config.tracing import TraceMode, trace_process
from judgegym.llm import tracing
from judgegym.llm.errors import SettingsError
from tests.core.server.running import running
from tests.listwise import judging
from tests.scripted import Reply, completion, in_turn

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

ASK = {"prompt": "the secret question", "response": "the secret answer"}
VERDICT = "[FEEDBACK] a secret reason [SCORE] 5"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTEXT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@contextmanager
def collected(mode: TraceMode = "spans") -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with trace_process(mode, provider):
        yield exporter


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


async def test_request_judgment_and_call_are_one_trace_that_begins_at_the_caller() -> None:
    body = completion(VERDICT)
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": 8}
    with collected() as exporter:
        flags = "--judge_max_tokens=77", "--judge_temperature=0.5"
        async with running(*flags, judge=Reply(body=body)) as server:
            await server.post("/v1/score", ASK, **CONTEXT)
            await server.get("/metrics")
            sent = server.judge.requests[0].headers
    spans = by_name(exporter)
    request, judgment, call = (
        spans["POST /v1/score"],
        spans["judgment rubric"],
        spans["chat the-judge"],
    )
    assert len(spans) == 3
    assert {f"{span.context.trace_id:032x}" for span in spans.values()} == {TRACE}
    assert request.parent is not None and f"{request.parent.span_id:016x}" == PARENT
    assert judgment.parent is not None and judgment.parent.span_id == request.context.span_id
    assert call.parent is not None and call.parent.span_id == judgment.context.span_id
    assert (request.kind, judgment.kind, call.kind) == (
        SpanKind.SERVER,
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
    )
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/score",
        "http.response.status_code": 200,
    }
    assert judgment.attributes == {
        "gen_ai.evaluation.name": "rubric",
        "judgegym.judge": "",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "5",
    }
    told = dict(call.attributes or {})
    assert told.pop("server.port") and told.pop("server.address") == "127.0.0.1"
    told.pop("gen_ai.response.model", None)
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "the-judge",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 77,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": body["usage"]["completion_tokens"],
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.response.finish_reasons": ("stop",),
    }
    assert sent["traceparent"] == f"00-{TRACE}-{call.context.span_id:016x}-01"
    assert "secret" not in "".join(span.to_json() for span in spans.values())


async def test_texts_are_in_spans_where_they_are_asked_for() -> None:
    with collected("texts") as exporter:
        async with running(judge=VERDICT) as server:
            await server.post("/v1/score", ASK)
    spans = by_name(exporter)
    call, judgment = (
        spans["chat the-judge"].attributes or {},
        spans["judgment rubric"].attributes or {},
    )
    (asked,) = [
        each for each in json.loads(str(call["gen_ai.input.messages"])) if each["role"] == "user"
    ]
    assert "the secret answer" in asked["parts"][0]["content"]
    assert json.loads(str(call["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": VERDICT}],
            "finish_reason": "stop",
        }
    ]
    assert judgment["gen_ai.evaluation.explanation"] == "a secret reason"


async def test_failures_are_words_of_few_values() -> None:
    replies = in_turn(Reply(status=400, body={"error": "the secret answer is refused"}), VERDICT)
    with collected() as exporter:
        async with running(judge=replies) as server:
            await server.post("/get_reward", {"query": ["QA"], "prompts": ["Q"], "labels": [None]})
            await server.post("/v1/score", {"prompt": 5})
    spans = by_name(exporter)
    errors = {name: (span.attributes or {}).get("error.type") for name, span in spans.items()}
    assert errors == {
        "POST /get_reward": "503",
        "judgment rubric": "judge_failed",
        "chat the-judge": "400",
        "POST /v1/score": None,
    }
    assert spans["POST /get_reward"].status.status_code is StatusCode.ERROR
    assert (spans["POST /v1/score"].attributes or {})["http.response.status_code"] == 422
    assert "secret" not in "".join(span.to_json() for span in spans.values())


async def test_a_group_is_one_judgment_with_all_scores() -> None:
    with collected() as exporter:
        async with running(
            "--judge=listwise", judge=judging(lambda text, _: float(text))
        ) as server:
            await server.post("/v1/score", {"prompt": "Q", "responses": ["0.75", "0.25"]})
    judgment = by_name(exporter)["judgment listwise"].attributes or {}
    assert judgment["judgegym.scores"] == (0.75, 0.25)


async def test_off_makes_no_spans_and_a_provider_of_the_application_is_left_open() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with trace_process("off", provider):
        assert tracing.active is None
    with trace_process("spans", provider):
        assert tracing.active is not None
    provider.get_tracer("theirs").start_span("after").end()
    assert tracing.active is None
    assert [span.name for span in exporter.get_finished_spans()] == ["after"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ],
)
def test_variable_that_nothing_reads_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with (
        pytest.raises(SettingsError, match=f"{name}: expected .*found '{value}'"),
        trace_process("spans"),
    ):
        raise AssertionError
