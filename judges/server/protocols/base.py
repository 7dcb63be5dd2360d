"""What an adapter is, and what several of them need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from judges.llm.wire import JSON
from judges.server.items import Item, ResponseScore


class RequestBody(BaseModel):
    """A trainer's request: text is text, and unknown fields are ignored, since trainers add some as they grow."""

    model_config = ConfigDict(extra="ignore", strict=True)


@dataclass(frozen=True, slots=True)
class ProtocolReply:
    """An answer: its JSON and headers of its own."""

    body: JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class ChatTurn(BaseModel):
    """One message of a conversation; only its text counts."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: str
    content: str | list[dict[str, object]] | None = None

    @property
    def text(self) -> str:
        """Its text, that of its parts joined."""
        if isinstance(self.content, list):
            parts = (part.get("text") for part in self.content)
            return "".join(part for part in parts if isinstance(part, str))
        return self.content or ""


Conversation: TypeAlias = str | list[ChatTurn]


def text_of(conversation: Conversation) -> str:
    """A conversation as one text: the user's turn alone; with several turns, each with its role."""
    if isinstance(conversation, str):
        return conversation
    said = [turn for turn in conversation if turn.text]
    asked = [turn for turn in said if turn.role == "user"]
    if len(asked) == 1 and all(turn.role in ("user", "system", "developer") for turn in said):
        return asked[0].text
    return "\n\n".join(f"{turn.role}: {turn.text}" for turn in said)


BodyT = TypeVar("BodyT", bound=BaseModel)


class Adapter(Protocol[BodyT]):
    """One protocol."""

    name: str
    path: str
    body: type[BodyT]

    def items(self, body: BodyT, raw: Mapping[str, JSON]) -> list[Item]:
        """What is to be scored.

        Raises:
            ValueError: the body cannot be meant; the message says why.
        """

    def reply(
        self, body: BodyT, raw: Mapping[str, JSON], results: Sequence[Sequence[ResponseScore]], *, fallback: float
    ) -> ProtocolReply:
        """The answer, a result for each response of each item."""
