"""One behaviour of an endpoint: the request, and what was observed."""

from __future__ import annotations

from dataclasses import dataclass

from examples.real_model.http import EndpointResponse

QUESTION = "How many legs has a spider?"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One behaviour.

    Attributes:
        topic: the topic.
        request: the request.
        observed: what the endpoint did.
    """

    topic: str
    request: str
    observed: str


def describe_response(answer: EndpointResponse) -> str:
    """Describe a response: its text with the finish reason, or its status with the message."""
    if answer.status != 200:
        message = answer.text("error.message") or answer.body
        return f"{answer.status}: {message}"
    return f"{answer.status}: {format_code(answer.content)}, `finish_reason` {answer.finish_reason}"


def format_code(text: str, most: int = 80) -> str:
    """Format a text as code, on one line, shortened."""
    line = (
        text[:most].encode("unicode_escape").decode("ascii").replace("|", "\\|").replace("`", "'")
    )
    if not line:
        return "no text"
    if len(text) > most:
        line += "…"
    return f"`{line}`"
