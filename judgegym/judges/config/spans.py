"""Fast spans for the provider of `--trace`, at a fraction of the SDK's cost.

With the SDK's spans and encoder a server request takes 39 % more CPU, with these 10 to 15 %
(`benchmarks/tracing.py`). During a request a span only keeps plain values; it is encoded when spans
are sent, many in a row, while that code is in the processor's cache. Sampler, ids, processor and
exporter are the SDK's. The sampler is asked once per trace of this process; spans below a kept span
are kept. Most attribute values repeat, so their encodings are cached. OpenTelemetry's own context
does not change meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
)
from typing_extensions import Self

from judgegym.llm.tracing import Attributes, Carrier, SpanNotes, SpanTracer

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.util.types import AttributeValue

_CACHE_SIZE = 8192
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_FIXED_FIELDS = Struct("<2s16s2s8scQcQ")
_TRACE_ID = b"\x0a\x10"
_SPAN_ID = b"\x12\x08"
_PARENT_ID = b"\x22\x08"
_BEGAN = b"\x39"
_ENDED = b"\x41"
"""The protobuf keys of the fields that differ for each span, with the lengths of the ids."""
_NO_FLAGS = TraceFlags(TraceFlags.DEFAULT)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NO_STATE = TraceState()


class _Trace(NamedTuple):
    """The common part of a trace's spans.

    `caller` is the span of another process; `context` is the one in which the first span began.
    """

    id: int
    flags: TraceFlags
    state: TraceState
    caller: int | None
    context: Context


_current: ContextVar[QuickSpan | None] = ContextVar("judgegym_span", default=None)


class QuickTracer(SpanTracer):
    """Makes spans with a provider's sampler and ids, and sends kept ones to a processor."""

    def __init__(
        self, provider: TracerProvider, processor: SpanProcessor, version: str, *, has_texts: bool
    ) -> None:
        """Take from the provider what all spans share."""
        super().__init__(provider.get_tracer("judgegym", version), has_texts=has_texts)
        self._sampler, self.ids, self.processor = provider.sampler, provider.id_generator, processor
        scope = InstrumentationScope("judgegym", version)
        empty = ReadableSpan(
            "", trace.INVALID_SPAN_CONTEXT, resource=provider.resource, instrumentation_scope=scope
        )
        (resource_spans,) = encode_spans([empty]).resource_spans
        (scope_spans,) = resource_spans.scope_spans
        scope_spans.ClearField("spans")
        self._scope = scope_spans.SerializeToString()
        resource_spans.ClearField("scope_spans")
        self._resource = resource_spans.SerializeToString()

    def span(
        self,
        name: str,
        attributes: Attributes,
        kind: SpanKind | None = None,
        carrier: Carrier = None,
    ) -> QuickSpan:
        """Make a span, as `SpanTracer` does."""
        parent_span = _current.get()
        kind = kind or SpanKind.INTERNAL
        if parent_span is not None and carrier is None:
            return QuickSpan(self, name, kind, attributes, parent_span.trace, parent_span.span_id)
        if carrier is None:
            context = self._current()
        else:
            context = self._propagator.extract(carrier)
        parent = trace.get_current_span(context).get_span_context()
        if parent.is_valid:
            trace_id = parent.trace_id
        else:
            trace_id = self.ids.generate_trace_id()
        sampled = self._sampler.should_sample(context, trace_id, name, kind)
        if sampled.decision is Decision.RECORD_AND_SAMPLE:
            flags = _SAMPLED
        else:
            flags = _NO_FLAGS
        caller = parent.span_id if parent.is_remote else None
        shared = _Trace(trace_id, flags, sampled.trace_state or _NO_STATE, caller, context)
        return QuickSpan(self, name, kind, attributes, shared, parent.span_id)

    def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return a call's headers with the trace context of the current span."""
        span, carried = _current.get(), dict(headers)
        if span is not None:
            span_context = SpanContext(
                span.trace.id, span.span_id, False, span.trace.flags, span.trace.state
            )
            self._propagator.inject(
                carried, self.set_span(NonRecordingSpan(span_context), span.trace.context)
            )
        return carried

    def encode(self, spans: Sequence[ReadableSpan]) -> EncodedSpans | ExportTraceServiceRequest:
        """Encode this tracer's spans as OTLP; spans of others with the SDK's own encoder.

        The message is joined from encoded parts: protobuf reads concatenated parts as one message,
        while nesting messages would copy each.
        """
        if not isinstance(spans[0], QuickSpan):  # from another exporter in this process
            return encode_spans(spans)
        quick_spans = cast("Sequence[QuickSpan]", spans)
        scope_bytes = self._scope + b"".join(
            _encode_field(2, span.encode()) for span in quick_spans
        )
        return EncodedSpans(_encode_field(1, self._resource + _encode_field(2, scope_bytes)))


class QuickSpan(SpanNotes):
    """A span that keeps its notes as plain values.

    Attributes:
        trace: the data shared by all spans of its trace.
        span_id: its id.
        context: tells the processor to send it; only kept spans are handed over.
    """

    __slots__ = (
        "_began",
        "_ended",
        "_kind",
        "_name",
        "_parent_id",
        "_quick",
        "_reset",
        "span_id",
        "trace",
    )
    context = SpanContext(1, 1, is_remote=False, trace_flags=_SAMPLED)

    def __init__(
        self,
        tracer: QuickTracer,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        trace: _Trace,
        parent_id: int,
    ) -> None:
        """Begin the span; `parent_id` is 0 without a parent."""
        self._quick = tracer
        self._name = name
        self._kind = kind
        self.attributes = attributes
        self.error = None
        self.trace, self.span_id, self._parent_id = trace, tracer.ids.generate_span_id(), parent_id
        self._began = time.time_ns()

    def __enter__(self) -> Self:
        """Make it the current span."""
        self._reset = _current.set(self)
        return self

    def end(self) -> None:
        """Make the parent the current span, and hand this one to the processor."""
        _current.reset(self._reset)
        del self._reset  # it refers to the context, which refers to this span
        self._ended = time.time_ns()
        if self.trace.flags:
            self._quick.processor.on_end(cast("ReadableSpan", self))

    def encode(self) -> bytes:
        """Encode this span as OTLP."""
        status = StatusCode.UNSET if self.error is None else StatusCode.ERROR
        state = self.trace.state.to_header()
        is_remote = self._parent_id == self.trace.caller
        trace_id = self.trace.id.to_bytes(16, "big")
        span_id = self.span_id.to_bytes(8, "big")
        fields = [
            _FIXED_FIELDS.pack(
                _TRACE_ID, trace_id, _SPAN_ID, span_id, _BEGAN, self._began, _ENDED, self._ended
            ),
            _encode_shared_fields(self._name, self._kind._value_, status._value_, state, is_remote),
            *(
                _encode_attribute(type(value).__name__, name, value)
                for name, value in self.attributes.items()
            ),
        ]
        if self._parent_id:
            fields.append(_PARENT_ID + self._parent_id.to_bytes(8, "big"))
        return b"".join(fields)


class EncodedSpans(bytes):
    """An encoded OTLP message with protobuf's method for serialising it."""

    def SerializePartialToString(self) -> bytes:
        """Return the message as bytes."""
        return self


def _encode_field(number: int, data: bytes) -> bytes:
    """Encode a length-delimited field of protobuf.

    That is its key, the length in groups of seven bits, and the data.
    """
    head, length = bytearray([number << 3 | 2]), len(data)
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head) + data


@lru_cache(maxsize=_CACHE_SIZE)
def _encode_shared_fields(name: str, kind: int, status: int, state: str, is_remote: bool) -> bytes:
    """Encode the fields that many spans have in common."""
    encoded: bytes = trace_pb2.Span(
        name=name,
        kind=kind + 1,  # type: ignore[arg-type]  # 0 is "unspecified"
        status=trace_pb2.Status(code=status),  # type: ignore[arg-type]
        trace_state=state,
        flags=_HAS_IS_REMOTE | (_IS_REMOTE if is_remote else 0),
    ).SerializeToString()
    return encoded


@lru_cache(maxsize=_CACHE_SIZE)
def _encode_attribute(kind: str, name: str, value: AttributeValue) -> bytes:
    """Encode a span with this attribute alone; `kind` tells 1 from 1.0."""
    if isinstance(value, str):
        value = value.encode(
            "utf-8", "replace"
        ).decode()  # the SDK drops a whole batch for a lone surrogate
    (resource_spans,) = encode_spans(
        [ReadableSpan("", trace.INVALID_SPAN_CONTEXT, attributes={name: value})]
    ).resource_spans
    encoded: bytes = trace_pb2.Span(
        attributes=resource_spans.scope_spans[0].spans[0].attributes
    ).SerializeToString()
    return encoded
