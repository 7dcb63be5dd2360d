"""The spans of the server: a request for scores, and the judgments that it begins (`judgegym.llm.tracing`).

A request takes over the trace context of its headers. A judgment is a child of the first request that asks for it, and
may end after it; its calls are its children. Probes and scrapes have no spans.

Source: OpenTelemetry, semantic conventions for HTTP servers and for evaluations of generative AI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.llm.tracing import Attributes, SpanTracer
from judgegym.server.answers import RequestError
from judgegym.server.request import ServerRequest, ServerResponse

_LONGEST_LABEL = 64


async def trace_request(
    tracing: SpanTracer, route: str, request: ServerRequest, response: Awaitable[ServerResponse]
) -> ServerResponse:
    """Answer a request within a span; `route` is its path without data.

    Raises:
        RequestError: the one of `response`, whose status code the span has.
    """
    name, attributes = f"{request.method} {route}", {"http.request.method": request.method, "http.route": route}
    answer: ServerResponse | RequestError
    with tracing.span(name, {**attributes}, kind=tracing.kinds.SERVER, carrier=request.headers) as span:
        try:
            answer = await response
            code = answer.status
        except RequestError as error:
            answer, code = error, error.code
        span.attributes["http.response.status_code"] = code
        span.error = str(code) if code >= 500 else None
    if isinstance(answer, RequestError):
        raise answer
    return answer


async def trace_judgment(
    tracing: SpanTracer | None, judge: str, mount: str, judging: Awaitable[list[ResponseJudgment]]
) -> list[ResponseJudgment]:
    """Judge within a span, if spans are made.

    Args:
        tracing: makes the spans.
        judge: the kind of the judge.
        mount: its name at this server.
        judging: judges.
    """
    if tracing is None:
        return await judging
    with tracing.span(f"judgment {judge}", {"gen_ai.evaluation.name": judge, "judgegym.judge": mount}) as span:
        results = await judging
        span.attributes |= _of_results(results, has_texts=tracing.has_texts)
        span.error = next((result.status for result in results if result.is_failed), None)
        return results


def _of_results(results: Sequence[ResponseJudgment], *, has_texts: bool) -> Attributes:
    """What a span says of results: one score with its label, or the scores of all that were judged together."""
    first = results[0]
    found: Attributes = {}
    if len(results) > 1:
        found["judgegym.scores"] = tuple(result.score for result in results if result.score is not None)
    elif first.score is not None:
        found["gen_ai.evaluation.score.value"] = first.score
        if first.label is not None:
            found["gen_ai.evaluation.score.label"] = first.label[:_LONGEST_LABEL]
    if has_texts and first.explanation:
        found["gen_ai.evaluation.explanation"] = first.explanation
    return found
