"""Detection of endpoints that refuse `response_format`, from their responses.

A response refuses the format if its status is 400, 404, 422 or 501 and its message names the
format, or if the same request is accepted without it. If the format was accepted before, both are
required, since a message may quote the request. A prompt that is too long is not a refusal. After a
refusal no request of the client has the format: one model's verdicts are always requested in the
same way, so this applies to all its replicas. It is logged once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from judgegym.llm import wire
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.responses.outcome import AttemptFailure
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

RESPONSE_FORMAT = "response_format"
"""The name of the request field."""

_LONGEST_MESSAGE = 200
_REFUSAL_STATUSES = frozenset({400, 404, 422, 501})
_IN_A_BODY = 200
"""Status of an error in a body; its kind says whether its code was one of the above."""
_FORMAT_WORDS = re.compile(
    r"response[_ ]?format|json[_ ]?schema|structured[_ ]?output|guided[_ "
    r"]|grammar|\bschema\b|additionalproperties",
    re.IGNORECASE,
)


def names_format(status: int | None, message: str) -> bool:
    """Return whether a failure refuses the format."""
    return (status in _REFUSAL_STATUSES or status == _IN_A_BODY) and _FORMAT_WORDS.search(
        message
    ) is not None


def finalize_refusal(failure: AttemptFailure) -> AttemptFailure:
    """Mark a refusal of the format by HTTP 501 as final: a retry would not help."""
    is_refused = failure.status == 501 and names_format(failure.status, failure.answer)
    if is_refused:
        return replace(failure, kind=FailureKind.REJECTED)
    return failure


_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|size|window)|max_model_len|too long|too many (?:input "
    r")?tokens|(?:prompt|input) length",
    re.IGNORECASE,
)


@dataclass(slots=True)
class FormatHabits:
    """What is known about an endpoint's response formats.

    Attributes:
        taken_by: the replicas that have answered a request with a format.
        refusal: the failure that refused the format.
    """

    taken_by: set[str] = field(default_factory=set)
    refusal: EndpointError | None = None

    def may_be_refused_by(self, error: EndpointError) -> bool:
        """Return whether the format may be why a request failed.

        It is noted at once if the failure says so and no format was accepted before.
        """
        if error.kind is not FailureKind.REJECTED:
            return False
        if names_format(error.status, error.answer):
            if error.endpoint not in self.taken_by:
                self.note(error)
            return True
        if self.refusal is not None:
            return True
        is_unclear = error.status in _REFUSAL_STATUSES and error.endpoint not in self.taken_by
        return is_unclear and not _TOO_LONG.search(error.answer)

    def note_accepted_without(self, error: EndpointError) -> None:
        """Note that a request, perhaps refused for its format, was accepted without it."""
        if error.endpoint not in self.taken_by or names_format(error.status, error.answer):
            self.note(error)

    def note(self, error: EndpointError) -> None:
        """Note that the format is refused; log it, if it is new."""
        if self.refusal is None:
            self.refusal = error.make_shared_error()  # without its frames, which hold prompts
            logger.warning("%s", self.description)

    def note_earlier(self, endpoint: str) -> None:
        """Note that an earlier run of the same ledger was refused the format.

        Its recorded text verdicts show that.
        """
        self.note(
            EndpointError(
                FailureKind.REJECTED, endpoint=endpoint, answer="as when the run began", attempts=0
            )
        )

    @property
    def description(self) -> str | None:
        """What happened to the format, in one sentence; `None` if it was not refused."""
        if self.refusal is None:
            return None
        status = ""
        if self.refusal.status is not None:
            status = f"HTTP {self.refusal.status}: "
        message = wire.shorten(self.refusal.answer, _LONGEST_MESSAGE)
        return (
            f"{self.refusal.endpoint} refuses response_format ({status}{message}): verdicts are "
            "asked for as text from then on"
        )


def has_format(body: Mapping[str, JSON] | None) -> bool:
    """Return whether a request asks for a response format."""
    return body is not None and RESPONSE_FORMAT in body
