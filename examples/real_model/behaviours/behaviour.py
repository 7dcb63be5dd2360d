"""One behaviour of an endpoint, as it was asked for and as it was found."""

from __future__ import annotations

from dataclasses import dataclass

from examples.real_model.http import Answer

QUESTION = "How many legs has a spider?"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One behaviour.

    Attributes:
        topic: what it is about.
        asked: the request.
        found: what the endpoint did.
    """

    topic: str
    asked: str
    found: str


def said(answer: Answer) -> str:
    """Return what an answer is: its text with the finish reason, or its status with the message."""
    if answer.status != 200:
        return f"{answer.status}: {answer.text('error.message') or answer.body}"
    return f"{answer.status}: {shown(answer.content)}, `finish_reason` {answer.finish_reason}"


def shown(text: str, most: int = 80) -> str:
    """Return a text as code, on one line, shortened."""
    line = (
        text[:most].encode("unicode_escape").decode("ascii").replace("|", "\\|").replace("`", "'")
    )
    return f"`{line}{'…' * (len(text) > most)}`" if line else "no text"
