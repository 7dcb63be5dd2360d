"""`--trace`: switch on the spans of a process (`judgegym.llm.tracing`), and configure their export.

Destination, sampling and names are read from OpenTelemetry's variables: `OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_EXPORTER` (`otlp`, `console`, `none`),
`OTEL_EXPORTER_OTLP_ENDPOINT` and its fellows, `OTEL_TRACES_SAMPLER`, `OTEL_PROPAGATORS`,
`OTEL_BSP_…`, `OTEL_SDK_DISABLED`. If the application has set its own provider, that one is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from judgegym.judges.config.extras import package_version, report_missing_extra
from judgegym.llm import tracing
from judgegym.llm.errors import SettingsError
from judgegym.llm.tracing import SpanTracer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


TraceMode = Literal["off", "spans", "texts"]
TRACE_ABOUT = (
    "Send spans of requests, rows, judgments and calls of models to the collector that "
    "OTEL_EXPORTER_OTLP_ENDPOINT "
    "names (OpenTelemetry). texts: with prompts, answers and reasons. Needs the extra otel."
)


@contextmanager
def trace_process(mode: TraceMode, provider: TracerProvider | None = None) -> Iterator[None]:
    """Make spans while the context lasts, and send the last ones at its end.

    Args:
        mode: `off` makes none.
        provider: makes the spans; by default the application's, or else one configured by
            OpenTelemetry's variables.

    Raises:
        SettingsError: the extra is not installed, or a variable has an unsupported value.
    """
    if mode == "off":
        yield
        return
    with report_missing_extra("otel"), _explain_variable_errors():
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        active_provider = provider or trace.get_tracer_provider()
        has_texts = mode == "texts"
        if isinstance(active_provider, TracerProvider):
            new_provider = None
            tracer = SpanTracer(
                active_provider.get_tracer("judgegym", package_version()), has_texts=has_texts
            )
        else:
            new_provider, tracer = _make_tracer(has_texts=has_texts)
    tracing.active = tracer
    try:
        yield
    finally:
        tracing.active = None
        if new_provider is not None:
            new_provider.shutdown()


@contextmanager
def _explain_variable_errors() -> Iterator[None]:
    """Explain errors of OpenTelemetry's variables, some of which occur during its import."""
    try:
        yield
    except ValueError as error:
        names = ", ".join(sorted(name for name in os.environ if name.startswith("OTEL_")))
        raise SettingsError(f"environment variables of OpenTelemetry ({names}): {error}") from error


def _make_tracer(*, has_texts: bool) -> tuple[TracerProvider, SpanTracer]:
    """Make a provider by OpenTelemetry's variables, and its tracer."""
    from opentelemetry.exporter.otlp.proto.http import trace_exporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SpanExporter,
    )
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    from judgegym.judges.config.spans import QuickTracer

    exporter = _read_variable("OTEL_TRACES_EXPORTER", "otlp", "console", "none")
    version = package_version()
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        _read_variable(name, "http/protobuf")
    resource = Resource.create({"service.name": "judgegym", "service.version": version})
    provider = TracerProvider(resource=resource.merge(OTELResourceDetector().detect()))
    if exporter == "none" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        provider = TracerProvider(sampler=ALWAYS_OFF)
    else:
        span_exporter: SpanExporter
        if exporter == "otlp":
            span_exporter = trace_exporter.OTLPSpanExporter()
        else:
            span_exporter = ConsoleSpanExporter()
        processor = BatchSpanProcessor(span_exporter)
        provider.add_span_processor(processor)
        if exporter == "otlp" and hasattr(
            trace_exporter, "encode_spans"
        ):  # without this, spans are as slow as the SDK's
            tracer = QuickTracer(provider, processor, version, has_texts=has_texts)
            trace_exporter.encode_spans = tracer.encode
            return provider, tracer
    return provider, SpanTracer(provider.get_tracer("judgegym", version), has_texts=has_texts)


def _read_variable(name: str, *expected: str) -> str:
    """Return a variable's value, by default the first expected one."""
    value = os.environ.get(name) or expected[0]
    if value not in expected:
        expected_list = ", ".join(expected)
        raise SettingsError(f"{name}: expected {expected_list}, found {value!r}")
    return value
