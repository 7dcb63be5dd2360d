"""The base class of adapters, and the types that several adapters share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.judges.scorers.registry import JudgeKind
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers, RequestError


def id_of(value: object) -> str | None:
    """An id of a group or of one of its members, which is text or an integer; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


class RequestBody(BaseModel):
    """A trainer's request: text is text, and unknown fields are ignored, since trainers add some as they grow."""

    model_config = ConfigDict(extra="ignore", strict=True)


@dataclass(frozen=True, slots=True)
class ProtocolReply:
    """A response: JSON body and additional headers; `failed` says in the log why it holds no score."""

    body: JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    failed: str | None = None


BodyT = TypeVar("BodyT", bound=BaseModel)


class Adapter(ABC, Generic[BodyT]):
    """One protocol: name, path, body model, and both conversions."""

    name: str
    path: str
    body: type[BodyT]

    def check_judge(self, kind: JudgeKind) -> None:
        """Check that a judge of this kind can answer; any can, unless the protocol needs one that compares.

        Raises:
            ValueError: it cannot; the message says why.
        """

    @abstractmethod
    def tasks(self, body: BodyT, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """The tasks to score.

        Raises:
            ValueError: the body is not usable; the message says why.
        """

    @abstractmethod
    def reply(
        self,
        body: BodyT,
        raw: Mapping[str, JSON],
        results: Sequence[Sequence[ResponseJudgment]],
        answers: FailureAnswers,
    ) -> ProtocolReply:
        """The response body for the results: one for each response of each task.

        Raises:
            RequestError: the protocol tells of a failure by an HTTP status.
        """

    def mount_of(self, raw: Mapping[str, JSON]) -> str | None:
        """The judge that the body itself names, for callers that cannot choose a path; `None` for the path's."""
        return None

    def is_patient(self, answers: FailureAnswers) -> bool:
        """Whether its clients take a failure for their answer, and do not ask again after HTTP 503."""
        return False

    def refused(self, raw: Mapping[str, JSON], error: RequestError, answers: FailureAnswers) -> ProtocolReply:
        """The answer to a request that is not judged: its error, unless the caller needs another form.

        Raises:
            RequestError: the error.
        """
        raise error
