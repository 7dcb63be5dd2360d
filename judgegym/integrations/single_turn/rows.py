"""What a trainer gets of an environment to ask its policy."""

from __future__ import annotations

from dataclasses import dataclass

from judgegym.llm.wire import Message


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """A row of an environment.

    Attributes:
        uid: its id, unique in the dataset.
        messages: what the policy is asked, system prompt included.
        question: the text that identifies the row in reports.
        category: for metrics by category.
    """

    uid: str
    messages: tuple[Message, ...]
    question: str
    category: str | None = None
