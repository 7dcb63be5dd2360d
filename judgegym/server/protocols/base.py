"""Base class of the protocols: the model of a request, which makes tasks and the response."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers, RequestError
from judgegym.server.request import ServerResponse

Results: TypeAlias = Sequence[Sequence[ResponseJudgment]]
"""For each task, a result for each response."""


def parse_id(value: object) -> str | None:
    """Return the id of a group or a member, text or an integer; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


class RequestBody(BaseModel):
    """The body of a trainer's request.

    Types are strict; unknown fields are ignored, since trainers add some.

    Class attributes:
        protocol: the protocol's name.
        path: path of the requests.
        answer: name of the response's schema in `/openapi.json`.
        names_judge: whether the body may name the judge, for clients that cannot choose a path.
        compares: whether it needs a judge that compares responses.
        tells_faults: whether its response reports a completion with nothing to judge, with the
            reason; otherwise that is an error.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    protocol: ClassVar[str]
    path: ClassVar[str]
    answer: ClassVar[str]
    names_judge: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    tells_faults: ClassVar[bool] = False

    @classmethod
    def merge_session(cls, raw: Mapping[str, JSON], cookies: str) -> Mapping[str, JSON]:
        """Return the body, completed with what its session's cookies say."""
        return raw

    @abstractmethod
    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Make the tasks to score.

        `raw` is the body as received.

        Raises:
            ValueError: the body cannot be used; the message says why.
        """

    @abstractmethod
    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Make the response from the results.

        Raises:
            RequestError: the protocol reports a failure by an HTTP status.
        """

    @classmethod
    def is_patient(cls, answers: FailureAnswers) -> bool:
        """Return whether clients take a failure as final, and do not retry after HTTP 503."""
        return False

    @classmethod
    def reply_to_error(
        cls, raw: Mapping[str, JSON], error: RequestError, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the response to a request that is not judged; by default raise its error.

        Raises:
            RequestError: the error.
        """
        raise error
