"""Spans at a fifth of the SDK's cost, for the provider that `--trace` makes.

With the SDK's spans and encoder a request of the server takes 39 % more CPU, with these 12 % (`benchmarks/tracing.py`).
A span keeps plain values until it ends, and is a `ReadableSpan` of the SDK then: sampler, ids, processors and exporters
are the SDK's. Most attributes have values that were sent before, so the message of each is kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Value: TypeAlias = "str | int | float | tuple[str, ...] | tuple[float, ...]"
_MOST_KEPT = 8192
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_NO_FLAGS, _SAMPLED = TraceFlags(TraceFlags.DEFAULT), TraceFlags(TraceFlags.SAMPLED)


class QuickTracer:
    """Makes spans with a provider's sampler, ids and resource, and hands them to a processor when they end."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor, version: str) -> None:
        """Take from the provider what all spans share."""
        self.resource, self.scope = provider.resource, InstrumentationScope("judgegym", version)
        self._sampler, self._ids, self.processor = provider.sampler, provider.id_generator, processor

    def start_span(self, name: str, context: Context | None, kind: SpanKind) -> NonRecordingSpan:
        """Begin a span below the one of the context, or of the current one."""
        above = trace.get_current_span(context).get_span_context()
        parent = above if above.is_valid else None
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        sampled = self._sampler.should_sample(context, trace_id, name, kind)
        flags = _SAMPLED if sampled.decision is Decision.RECORD_AND_SAMPLE else _NO_FLAGS
        own = SpanContext(trace_id, self._ids.generate_span_id(), False, flags, sampled.trace_state)
        return _QuickSpan(self, name, own, parent, kind) if flags else NonRecordingSpan(own)


class _QuickSpan(NonRecordingSpan):
    """A span that keeps what is noted in it."""

    def __init__(
        self, tracer: QuickTracer, name: str, context: SpanContext, parent: SpanContext | None, kind: SpanKind
    ) -> None:
        super().__init__(context)
        self._tracer, self._span_name, self._parent, self._kind = tracer, name, parent, kind
        self._noted: Mapping[str, AttributeValue] = {}
        self._status, self._began = StatusCode.UNSET, time.time_ns()

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Note all attributes, which are set once."""
        self._noted = attributes

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Note how it ended."""
        self._status = status.status_code if isinstance(status, Status) else status

    def end(self, end_time: int | None = None) -> None:
        """Hand it to the processor."""
        ended = ReadableSpan(
            self._span_name,
            self.get_span_context(),
            self._parent,
            self._tracer.resource,
            self._noted,
            kind=self._kind,
            status=Status(self._status),
            start_time=self._began,
            end_time=end_time or time.time_ns(),
            instrumentation_scope=self._tracer.scope,
        )
        self._tracer.processor.on_end(ended)


def encode(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    """The message of OTLP for spans of one tracer, as the SDK's own encoder makes it."""
    request = encode_spans(spans[:1])
    for of_resource in request.resource_spans:
        encoded = of_resource.scope_spans[0].spans
        encoded.extend(map(_encoded, spans[1:]))
    return request


def _encoded(span: ReadableSpan) -> trace_pb2.Span:
    context, parent, attributes = span.get_span_context(), span.parent, span.attributes or {}
    assert context is not None  # only spans that have ended are sent
    return trace_pb2.Span(
        trace_id=context.trace_id.to_bytes(16, "big"),
        span_id=context.span_id.to_bytes(8, "big"),
        trace_state=context.trace_state.to_header(),
        parent_span_id=b"" if parent is None else parent.span_id.to_bytes(8, "big"),
        name=span.name,
        kind=span.kind.value + 1,  # type: ignore[arg-type]  # the numbers of OTLP begin with "unspecified"
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
        attributes=[_attribute(type(each).__name__, name, cast("Value", each)) for name, each in attributes.items()],
        status=trace_pb2.Status(code=span.status.status_code.value),  # type: ignore[arg-type]
        flags=_HAS_IS_REMOTE | (_IS_REMOTE if parent is not None and parent.is_remote else 0),
    )


@lru_cache(maxsize=_MOST_KEPT)
def _attribute(kind: str, name: str, value: Value) -> KeyValue:
    """The message of an attribute; `kind` tells 1 from 1.0."""
    return KeyValue(key=name, value=_value(value))


def _value(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=map(_value, value)))
