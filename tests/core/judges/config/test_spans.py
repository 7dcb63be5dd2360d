"""Quick spans are encoded as the SDK encodes its own."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import cast

import pytest

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.trace import SpanKind

from judgegym.judges.config.spans import QuickTracer
from judgegym.judges.config.tracing import trace_process
from judgegym.llm import tracing as spans
from judgegym.llm.tracing import SpanTracer

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CARRIER = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "a=b,c=d", "baggage": "who=me"}


class Sent(SpanExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: object) -> SpanExportResult:
        self.spans.extend(cast("list[ReadableSpan]", spans))
        return SpanExportResult.SUCCESS


def quick(sampler: Sampler | None = None) -> tuple[QuickTracer, Sent]:
    sent = Sent()
    return QuickTracer(
        TracerProvider(sampler), SimpleSpanProcessor(sent), "1", has_texts=False
    ), sent


def make_spans(tracing: SpanTracer) -> dict[str, str]:
    """Make three spans, and return the headers of a call within the second."""
    carried: dict[str, str] = {}
    with tracing.span("outer", {"s": "é", "n": 1}, kind=SpanKind.SERVER, carrier=CARRIER) as outer:
        outer.attributes["f"] = 1.0
        with (
            pytest.raises(ZeroDivisionError),
            tracing.span("inner", {"t": ("a", "b"), "u": (0.5, 1.0), "n": 1.5}),
        ):
            carried |= tracing.headers({"Content-Type": "application/json"})
            raise ZeroDivisionError("a text")
    with tracing.span("alone", {}, kind=SpanKind.CLIENT):
        pass
    return carried


def plain(request: ExportTraceServiceRequest) -> tuple[list[Span], ExportTraceServiceRequest]:
    """The spans without what differs between two runs, and the rest of the message."""
    spans = list(request.resource_spans[0].scope_spans[0].spans)
    ids = {span.span_id: bytes([number]) for number, span in enumerate(spans)}
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        span.start_time_unix_nano = span.end_time_unix_nano = 0
        span.parent_span_id, span.span_id = (
            ids.get(span.parent_span_id, span.parent_span_id),
            ids[span.span_id],
        )
        if span.trace_id.hex() != TRACE:
            span.trace_id = b""
    del request.resource_spans[0].scope_spans[0].spans[:]
    return spans, request


def test_quick_spans_are_encoded_as_the_sdk_encodes_its_own() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    make_spans(SpanTracer(provider.get_tracer("judgegym", "1"), has_texts=False))
    theirs = encode_spans(exporter.get_finished_spans())
    tracing, sent = quick()
    make_spans(tracing)
    encoded = tracing.encode(sent.spans).SerializePartialToString()
    ours = ExportTraceServiceRequest.FromString(encoded)
    assert [span.name for span in ours.resource_spans[0].scope_spans[0].spans] == [
        "inner",
        "outer",
        "alone",
    ]
    assert plain(ours) == plain(theirs)
    assert tracing.encode(exporter.get_finished_spans()) == encode_spans(
        exporter.get_finished_spans()
    )


def test_calls_carry_the_trace_on_with_state_and_baggage() -> None:
    tracing, sent = quick()
    carried = make_spans(tracing)
    inner = (
        ExportTraceServiceRequest.FromString(tracing.encode(sent.spans))
        .resource_spans[0]
        .scope_spans[0]
        .spans[0]
    )
    assert carried == CARRIER | {
        "Content-Type": "application/json",
        "traceparent": f"00-{TRACE}-{inner.span_id.hex()}-01",
    }
    assert "traceparent" not in tracing.headers({})


def test_half_a_character_does_not_lose_a_batch() -> None:
    tracing, sent = quick()
    with tracing.span("a", {"label": "x\ud83d"}):
        pass
    (span,) = (
        ExportTraceServiceRequest.FromString(tracing.encode(sent.spans))
        .resource_spans[0]
        .scope_spans[0]
        .spans
    )
    assert span.attributes[0].value.string_value == "x?"


def test_spans_that_are_not_sampled_are_not_kept_and_carry_the_trace_on() -> None:
    tracing, sent = quick(ALWAYS_OFF)
    carried = make_spans(tracing)
    assert sent.spans == []
    assert carried["traceparent"].startswith(f"00-{TRACE}-") and carried["traceparent"].endswith(
        "-00"
    )


class Collector(BaseHTTPRequestHandler):
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_spans_reach_a_collector_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Collector, "bodies", [], raising=False)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with trace_process("spans"):
            assert spans.active is not None
            make_spans(spans.active)
        server.shutdown()
    (body,) = Collector.bodies
    (of_resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert ("service.name", "ours") in [
        (each.key, each.value.string_value) for each in of_resource.resource.attributes
    ]
    assert [span.name for span in of_resource.scope_spans[0].spans] == ["inner", "outer", "alone"]


@pytest.mark.parametrize(
    ("exporter", "names"), [("console", ["inner", "outer", "alone"]), ("none", [])]
)
def test_spans_go_where_the_variable_says(
    exporter: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent()
    monkeypatch.setattr(ConsoleSpanExporter, "export", lambda _, spans: sent.export(spans))
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", exporter)
    with trace_process("spans"):
        assert spans.active is not None
        make_spans(spans.active)
    assert [span.name for span in sent.spans] == names
