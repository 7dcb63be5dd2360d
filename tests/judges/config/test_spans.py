"""Quick spans are what the SDK makes and encodes."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from judgegym.judges.config.spans import EncodedSpans, QuickTracer
from judgegym.llm.tracing import SpanTracer

CARRIER = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b,c=d"}


def made(provider: TracerProvider) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    tracing = SpanTracer(QuickTracer(provider, SimpleSpanProcessor(exporter), "1"), has_texts=False)
    with tracing.span("outer", {"s": "é", "n": 1}, kind=SpanKind.SERVER, carrier=CARRIER) as outer:
        outer.attributes["f"] = 1.0
        with pytest.raises(ZeroDivisionError), tracing.span("inner", {"t": ("a", "b"), "u": (0.5, 1.0), "n": 1.5}):
            raise ZeroDivisionError("a text")
    with tracing.span("alone", {}, kind=SpanKind.CLIENT):
        pass
    return exporter


def test_quick_spans_are_encoded_as_the_sdk_encodes_them() -> None:
    spans = made(TracerProvider()).get_finished_spans()
    assert [span.name for span in spans] == ["inner", "outer", "alone"]
    inner, outer, alone = spans
    assert inner.parent == outer.context and alone.parent is None
    assert outer.parent is not None and outer.parent.is_remote
    assert inner.status.status_code is StatusCode.ERROR
    assert dict(inner.attributes or {})["error.type"] == "ZeroDivisionError"
    many = [*spans, *spans[::-1]] * 10  # each length takes one byte, two or more
    for some in (spans, spans[::-1], many):
        assert ExportTraceServiceRequest.FromString(EncodedSpans(some).SerializeToString()) == encode_spans(some)


def test_spans_that_are_not_sampled_are_not_kept_and_carry_the_trace_on() -> None:
    assert made(TracerProvider(sampler=ALWAYS_OFF)).get_finished_spans() == ()
    tracer = QuickTracer(TracerProvider(sampler=ALWAYS_OFF), SimpleSpanProcessor(InMemorySpanExporter()), "1")
    with SpanTracer(tracer, has_texts=False).span("outer", {}, carrier=CARRIER):
        current = trace.get_current_span().get_span_context()
    assert (f"{current.trace_id:032x}", current.trace_flags.sampled) == (CARRIER["traceparent"].split("-")[1], False)
