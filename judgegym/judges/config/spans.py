"""Spans at a fifth of the SDK's cost, for the provider that `--trace` makes.

With the SDK's spans and encoder a request of the server takes 39 % more CPU, with these 13 to 20 %
(`benchmarks/tracing.py`). A span is a `ReadableSpan` of the SDK, which keeps plain values: sampler, ids, processors and
exporters are the SDK's. The sampler is asked once for a trace of this process; spans below one that is kept are kept.
Most attributes have values that were sent before, so the message of each is kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias, cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import Attributes, AttributeValue

if TYPE_CHECKING:
    from opentelemetry.context import Context

Value: TypeAlias = "str | int | float | tuple[str, ...] | tuple[float, ...]"
_MOST_KEPT = 8192
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_FIXED = Struct("<2s16s2s8scQcQ")
_TRACE_ID, _SPAN_ID, _PARENT_ID, _BEGAN, _ENDED = b"\x0a\x10", b"\x12\x08", b"\x22\x08", b"\x39", b"\x41"
"""The fields that each span has of its own: keys of protobuf, with the lengths of the ids."""
_STATUSES = {code: Status(code) for code in StatusCode}
_UNSET = _STATUSES[StatusCode.UNSET]
_NO_FLAGS, _SAMPLED = TraceFlags(TraceFlags.DEFAULT), TraceFlags(TraceFlags.SAMPLED)


class QuickTracer:
    """Makes spans with a provider's sampler, ids and resource, and hands them to a processor when they end."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor, version: str) -> None:
        """Take from the provider what all spans share."""
        self.resource, self.scope = provider.resource, InstrumentationScope("judgegym", version)
        self._sampler, self._ids, self.processor = provider.sampler, provider.id_generator, processor

    def start_span(self, name: str, context: Context, kind: SpanKind) -> NonRecordingSpan:
        """Begin a span below the one of the context."""
        current = trace.get_current_span(context)
        above = current.get_span_context()
        if type(current) is _QuickSpan:  # a sampler decides once for a trace, and here it has
            own = SpanContext(above.trace_id, self._ids.generate_span_id(), False, _SAMPLED, above.trace_state)
            return _QuickSpan(self, name, own, above, kind)
        parent = above if above.is_valid else None
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        sampled = self._sampler.should_sample(context, trace_id, name, kind)
        flags = _SAMPLED if sampled.decision is Decision.RECORD_AND_SAMPLE else _NO_FLAGS
        own = SpanContext(trace_id, self._ids.generate_span_id(), False, flags, sampled.trace_state)
        return _QuickSpan(self, name, own, parent, kind) if flags else NonRecordingSpan(own)


class _QuickSpan(NonRecordingSpan, ReadableSpan):
    """A span that keeps what is noted in it."""

    _context: SpanContext
    _attributes: Attributes = None
    _status, _events, _links, _instrumentation_info = _UNSET, (), (), None
    """Where a span says nothing else, as in `ReadableSpan`, whose own constructor takes twice the time."""

    def __init__(
        self, tracer: QuickTracer, name: str, context: SpanContext, parent: SpanContext | None, kind: SpanKind
    ) -> None:
        self._name, self._context, self._parent, self._kind = name, context, parent, kind
        self._resource, self._instrumentation_scope = tracer.resource, tracer.scope
        self._start_time, self._processor = time.time_ns(), tracer.processor

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Note all attributes, which are set once."""
        self._attributes = attributes

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Note how it ended."""
        self._status = status if isinstance(status, Status) else _STATUSES[status]

    def end(self, end_time: int | None = None) -> None:
        """Hand it to the processor."""
        self._end_time = end_time or time.time_ns()
        self._processor.on_end(self)

    def encoded(self) -> bytes:
        """The message of OTLP for this span."""
        own, parent, attributes = self._context, self._parent, cast("Mapping[str, Value]", self._attributes or {})
        state = own.trace_state.to_header()
        trace_id, span_id = own.trace_id.to_bytes(16, "big"), own.span_id.to_bytes(8, "big")
        fields = [
            _FIXED.pack(_TRACE_ID, trace_id, _SPAN_ID, span_id, _BEGAN, self._start_time, _ENDED, self._end_time),
            _shared(
                self._name, self._kind._value_, self._status.status_code._value_, state, parent and parent.is_remote
            ),
            *(_attribute(type(value).__name__, name, value) for name, value in attributes.items()),
        ]
        if parent is not None:
            fields.append(_PARENT_ID + parent.span_id.to_bytes(8, "big"))
        return b"".join(fields)


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
        own = cast("Sequence[_QuickSpan]", spans)
        encoded = of_scope.SerializeToString() + b"".join(_field(2, span.encoded()) for span in own)
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


@lru_cache(maxsize=_MOST_KEPT)
def _shared(name: str, kind: int, status: int, state: str, is_remote: bool | None) -> bytes:
    """The fields that many spans have in common."""
    encoded: bytes = trace_pb2.Span(
        name=name,
        kind=kind + 1,  # type: ignore[arg-type]  # 0 is "unspecified"
        status=trace_pb2.Status(code=status),  # type: ignore[arg-type]
        trace_state=state,
        flags=_HAS_IS_REMOTE | (_IS_REMOTE if is_remote else 0),
    ).SerializeToString()
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
