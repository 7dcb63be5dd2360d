"""The interface of an adapter, and the types that several adapters share."""

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
    """A response: JSON body and additional headers."""

    body: JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class ChatTurn(BaseModel):
    """A message of a conversation, of which only the text is used."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: str
    content: str | list[dict[str, object]] | None = None

    @property
    def text(self) -> str:
        """The text; of several parts, their texts joined."""
        if isinstance(self.content, list):
            parts = (part.get("text") for part in self.content)
            return "".join(part for part in parts if isinstance(part, str))
        return self.content or ""


TextOrMessages: TypeAlias = str | list[ChatTurn]


def text_of(conversation: TextOrMessages) -> str:
    """A conversation as one text: the only user turn, or all turns with their roles."""
    if isinstance(conversation, str):
        return conversation
    filled = [turn for turn in conversation if turn.text]
    asked = [turn for turn in filled if turn.role == "user"]
    if len(asked) == 1 and all(turn.role in ("user", "system", "developer") for turn in filled):
        return asked[0].text
    return "\n\n".join(f"{turn.role}: {turn.text}" for turn in filled)


BodyT = TypeVar("BodyT", bound=BaseModel)


class Adapter(Protocol[BodyT]):
    """One protocol: name, path, body model, and both conversions."""

    name: str
    path: str
    body: type[BodyT]

    def items(self, body: BodyT, raw: Mapping[str, JSON]) -> list[Item]:
        """The items to score.

        Raises:
            ValueError: the body is not usable; the message says why.
        """

    def reply(
        self, body: BodyT, raw: Mapping[str, JSON], results: Sequence[Sequence[ResponseScore]], *, fallback: float
    ) -> ProtocolReply:
        """The response body for the results: one for each response of each item."""
