"""Spans of requests, rows, judgments and model calls, by OpenTelemetry's GenAI conventions.

Tracing is off by default: `active` is `None`, and calls check nothing else.
`judgegym.judges.config.tracing` switches it on. A span has the model, the parameters, the tokens,
the finish reason and the score; it has the texts of prompts, responses and explanations only if the
user asks for them.

Sources: OpenTelemetry's semantic conventions for generative AI; W3C Trace Context, which is sent
with each call.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from typing_extensions import Self

from judgegym.llm import wire
from judgegym.llm.errors import EndpointError
from judgegym.llm.wire import JSON, Choice, Message

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer

    from judgegym.llm.types import ChatResponse, Endpoint

Attributes: TypeAlias = "dict[str, str | int | float | tuple[str, ...] | tuple[float, ...]]"
Carrier: TypeAlias = "Mapping[str, str] | None"
_PARAMETERS: Mapping[str, str] = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
}


class SpanNotes:
    """A span that lasts as long as its context, and its attributes.

    Spans that begin inside are its children. An error that leaves the context is noted only by its
    type, since its message may hold a text.

    Attributes:
        attributes: the attributes by OpenTelemetry's names.
        error: the kind of error, of few different values; `None` unless it failed.
    """

    __slots__ = ("_parent", "_span", "_token", "_tracer", "attributes", "error")

    def __init__(
        self, tracer: SpanTracer, span: Span, parent: Context, attributes: Attributes
    ) -> None:
        """Start with the attributes known so far."""
        self._tracer, self._span, self._parent = tracer, span, parent
        self.attributes, self.error = attributes, cast("str | None", None)

    def __enter__(self) -> Self:
        """Make it the current span."""
        self._token = self._tracer.attach(self._tracer.set_span(self._span, self._parent))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the span."""
        if error is not None:
            self.error = type(error).__qualname__
            if isinstance(error, EndpointError):
                self.error = str(error.status or error.kind.value)
        if self.error is not None:
            self.attributes["error.type"] = self.error
        self.end()

    def end(self) -> None:
        """Make the parent span current, and export this one."""
        self._tracer.detach(self._token)
        if self.error is not None:
            self._span.set_status(self._tracer.failed)
        self._span.set_attributes(self.attributes)
        self._span.end()


class SpanTracer:
    """Creates the spans of a process with an OpenTelemetry tracer.

    Attributes:
        has_texts: whether spans have the texts of prompts, responses and explanations.
        kinds: OpenTelemetry's kinds of spans.
        failed: its status of failed spans.
        set_span: makes a context in which a span is current.
        attach: makes a context current.
        detach: makes the previous context current again.
    """

    def __init__(self, tracer: Tracer, *, has_texts: bool) -> None:
        """Create spans with this tracer."""
        from opentelemetry import context, propagate, trace

        self._tracer, self.has_texts = tracer, has_texts
        self._current, self.attach, self.detach = (
            context.get_current,
            context.attach,
            context.detach,
        )
        self.set_span = trace.set_span_in_context
        self._propagator = propagate.get_global_textmap()
        self.kinds, self.failed = trace.SpanKind, trace.StatusCode.ERROR

    def span(
        self,
        name: str,
        attributes: Attributes,
        kind: SpanKind | None = None,
        carrier: Carrier = None,
    ) -> SpanNotes:
        """Open a span; spans that begin inside are its children.

        Args:
            name: the span's name, of few different values and without data.
            attributes: the attributes known so far, which the notes keep.
            kind: internal by default.
            carrier: headers whose trace context becomes the parent; by default the current span.
        """
        parent = self._current() if carrier is None else self._propagator.extract(carrier)
        span = self._tracer.start_span(name, parent, kind or self.kinds.INTERNAL)
        return SpanNotes(self, span, parent, attributes)

    async def call(
        self,
        endpoint: Endpoint,
        path: str | None,
        messages: Sequence[Message],
        parameters: Mapping[str, JSON],
        sending: Coroutine[Any, Any, ChatResponse],
    ) -> ChatResponse:
        """Send a request to a model in a span of its own.

        Args:
            endpoint: the first of the model's replicas.
            path: the path outside the chat API; `None` for a chat completion.
            messages: the conversation.
            parameters: the other fields of the request.
            sending: sends it.

        Raises:
            EndpointError: no attempt succeeded.
            RunStop: no further attempt may be made.
        """
        operation = "chat"
        if path is not None:
            operation = path.strip("/")
        attributes = _attributes(operation, endpoint.model, endpoint.base_url, endpoint.api).copy()
        for name, value in parameters.items():
            if name in _PARAMETERS and isinstance(value, int | float):
                attributes[_PARAMETERS[name]] = value
        if self.has_texts:
            attributes["gen_ai.input.messages"] = _json(
                [_message(message["role"], message["content"]) for message in messages]
            )
        with self.span(f"{operation} {endpoint.model}", attributes, kind=self.kinds.CLIENT):
            response = await sending
            attributes |= self._response_attributes(response)
            return response

    def _response_attributes(self, response: ChatResponse) -> Attributes:
        usage = response.usage
        attributes: Attributes = {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
            "gen_ai.response.finish_reasons": tuple(
                choice.finish_reason or "unknown" for choice in response.choices
            ),
        }
        if usage.cached_prompt_tokens:
            attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached_prompt_tokens
        if response.served is not None:
            attributes["gen_ai.response.model"] = response.served.partition(" (")[0]
        if response.attempts > 1:
            attributes["judgegym.attempts"] = response.attempts
        if self.has_texts:
            attributes["gen_ai.output.messages"] = _json(
                [_output(choice) for choice in response.choices]
            )
        return attributes

    def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return a call's headers with the current span's trace context."""
        carried = dict(headers)
        self._propagator.inject(carried)
        return carried


active: SpanTracer | None = None
"""The tracer of this process; `None` while no spans are made."""


def row_span(uid: str) -> AbstractContextManager[object]:
    """Open a span for a row or group, if spans are made; its calls are children."""
    if active is None:
        return nullcontext()
    return active.span("row", {"judgegym.row": uid})


@lru_cache(maxsize=256)
def _attributes(operation: str, model: str, base_url: str, api: str) -> Attributes:
    """Return the attributes of all calls of a model; they are computed once."""
    parts = urlsplit(base_url)
    provider = model.partition("/")[0] if api == "litellm" else api
    attributes: Attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }
    if parts.hostname:
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
        attributes |= {"server.address": parts.hostname, "server.port": port}
    return attributes


def _message(role: str, text: str, reasoning: str | None = None) -> dict[str, JSON]:
    parts: list[JSON] = [{"type": "reasoning", "content": reasoning}] if reasoning else []
    return {"role": role, "parts": [*parts, {"type": "text", "content": text}]}


def _output(choice: Choice) -> JSON:
    return {
        **_message("assistant", choice.text, choice.reasoning),
        "finish_reason": choice.finish_reason or "unknown",
    }


def _json(value: JSON) -> str:
    return wire.dumps(value).decode("utf-8", "replace")
