"""Spans at a fifth of the SDK's cost, for the provider that `--trace` makes.

With the SDK's spans and encoder a request of the server takes 39 % more CPU, with these 10 % (`benchmarks/tracing.py`).
A span keeps plain values until it ends, and is a `ReadableSpan` of the SDK then: sampler, ids, processors and exporters
are the SDK's. The sampler is asked once for a trace of this process; spans below one that is kept are kept. Most
attributes have values that were sent before, so the message of each is kept.
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

Value: TypeAlias = "str | int | float | tuple[str, ...] | tuple[float, ...]"
_MOST_KEPT = 8192
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_STATUSES = {code: Status(code) for code in StatusCode}
_NO_FLAGS, _SAMPLED = TraceFlags(TraceFlags.DEFAULT), TraceFlags(TraceFlags.SAMPLED)


class QuickTracer:
    """Makes spans with a provider's sampler, ids and resource, and hands them to a processor when they end."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor, version: str) -> None:
        """Take from the provider what all spans share."""
        self.resource, self.scope = provider.resource, InstrumentationScope("judgegym", version)
        self._sampler, self._ids, self.processor = provider.sampler, provider.id_generator, processor

    def start_span(self, name: str, context: Context | None, kind: SpanKind) -> NonRecordingSpan:
        """Begin a span below the one of the context, or of the current one."""
        current = trace.get_current_span(context)
        above = current.get_span_context()
        if isinstance(current, _QuickSpan):  # a sampler decides once for a trace, and here it has
            own = SpanContext(above.trace_id, self._ids.generate_span_id(), False, _SAMPLED, above.trace_state)
            return _QuickSpan(self, name, own, above, kind)
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
            status=_STATUSES[self._status],
            start_time=self._began,
            end_time=end_time or time.time_ns(),
            instrumentation_scope=self._tracer.scope,
        )
        self._tracer.processor.on_end(ended)


class EncodedSpans:
    """The message of OTLP for spans of one tracer, as the SDK's own encoder makes it.

    It is joined from parts that are messages themselves: protobuf reads such parts as one message, and copies each that
    is put into another one.
    """

    def __init__(self, spans: Sequence[ReadableSpan]) -> None:
        """Encode the spans, of which there is at least one."""
        (of_resource,) = encode_spans(spans[:1]).resource_spans
        (of_scope,) = of_resource.scope_spans
        of_scope.ClearField("spans")
        encoded = of_scope.SerializeToString() + b"".join(_field(2, _encoded(span)) for span in spans)
        of_resource.ClearField("scope_spans")
        self._data = _field(1, of_resource.SerializeToString() + _field(2, encoded))

    def SerializePartialToString(self) -> bytes:  # the name in protobuf's messages
        """The message as bytes."""
        return self._data

    SerializeToString = SerializePartialToString


def _field(number: int, data: bytes) -> bytes:
    """A field of protobuf that has a length: its key, the length by seven bits each, the data."""
    head, length = bytearray([number << 3 | 2]), len(data)
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head) + data


def _encoded(span: ReadableSpan) -> bytes:
    context, parent, attributes = span.get_span_context(), span.parent, span.attributes or {}
    assert context is not None  # only spans that have ended are sent
    own = trace_pb2.Span(
        trace_id=context.trace_id.to_bytes(16, "big"),
        span_id=context.span_id.to_bytes(8, "big"),
        trace_state=context.trace_state.to_header(),
        parent_span_id=b"" if parent is None else parent.span_id.to_bytes(8, "big"),
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
    )
    is_remote = parent is not None and parent.is_remote
    shared = _shared(span.name, span.kind.value, span.status.status_code.value, is_remote)
    noted = (_attribute(type(each).__name__, name, cast("Value", each)) for name, each in attributes.items())
    return b"".join((own.SerializeToString(), shared, *noted))


@lru_cache(maxsize=_MOST_KEPT)
def _shared(name: str, kind: int, status: int, is_remote: bool) -> bytes:
    """The fields that many spans have in common."""
    flags = _HAS_IS_REMOTE | (_IS_REMOTE if is_remote else 0)
    status_of = trace_pb2.Status(code=status)  # type: ignore[arg-type]
    span = trace_pb2.Span(name=name, kind=kind + 1, status=status_of, flags=flags)  # type: ignore[arg-type]  # kind 0 is "unspecified"
    encoded: bytes = span.SerializeToString()
    return encoded


@lru_cache(maxsize=_MOST_KEPT)
def _attribute(kind: str, name: str, value: Value) -> bytes:
    """A span with this attribute alone; `kind` tells 1 from 1.0."""
    encoded: bytes = trace_pb2.Span(attributes=[KeyValue(key=name, value=_value(value))]).SerializeToString()
    return encoded


def _value(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=map(_value, value)))
