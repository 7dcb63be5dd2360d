"""slime's remote reward model: `POST /slime`, answered by a bare number.

The protocol cannot report a failure: for a failed judge the fallback is sent, with the header `X-Judge-Failed`.

Source: slime, `--rm-type remote_rm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judges.llm.wire import JSON
from judges.server.chat_tokens import plain_prompt, plain_response
from judges.server.items import Item, ResponseScore
from judges.server.protocols.base import ProtocolReply, RequestBody, TextOrMessages, text_of
from judges.server.protocols.openrlhf import of_label

FAILED_HEADER = "X-Judge-Failed"


class SlimeBody(RequestBody):
    """A prompt (text or messages), a response, and a label: a reference, or an object of reference and rubric."""

    prompt: TextOrMessages
    response: str
    label: object = None


class Slime:
    """`POST /slime`."""

    name = "slime"
    path = "/slime"
    body = SlimeBody

    def items(self, body: SlimeBody, raw: Mapping[str, JSON]) -> list[Item]:
        """One item."""
        reference, rubric, levels = of_label(body.label)
        prompt = plain_prompt(body.prompt) if isinstance(body.prompt, str) else text_of(body.prompt)
        return [Item(prompt, (plain_response(body.response),), reference=reference, rubric=rubric, levels=levels)]

    def reply(
        self, body: SlimeBody, raw: Mapping[str, JSON], results: Sequence[Sequence[ResponseScore]], *, fallback: float
    ) -> ProtocolReply:
        """The score as a number."""
        score = results[0][0].score
        return ProtocolReply(fallback, {FAILED_HEADER: "1"}) if score is None else ProtocolReply(score)
