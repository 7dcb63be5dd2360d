"""What protocols have in common: a protocol is the model of its request, which makes tasks of it, and the reply."""

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
"""What is answered: for each task, a result for each response."""


def parse_id(value: object) -> str | None:
    """Return an id of a group or of one of its members, which is text or an integer; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


class RequestBody(BaseModel):
    """A trainer's request: text is text, and unknown fields are ignored, since trainers add some as they grow.

    Class attributes:
        protocol: the protocol's name.
        path: where requests are sent.
        answer: the name of the reply's schema in `/openapi.json`.
        names_judge: the body may name the judge, for callers that cannot choose a path.
        compares: it needs a judge that compares responses.
        tells_faults: its reply says of a response that there was nothing to judge, and why;
            otherwise an error does.
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
        """Return the body with what the cookies of its session say of it."""
        return raw

    @abstractmethod
    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Return the tasks to score; `raw` is the body as it came.

        Raises:
            ValueError: the body is not usable; the message says why.
        """

    @abstractmethod
    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the response for the results.

        Raises:
            RequestError: the protocol tells of a failure by an HTTP status.
        """

    @classmethod
    def is_patient(cls, answers: FailureAnswers) -> bool:
        """Return whether its clients take a failure for their answer, and do not ask again after HTTP 503."""
        return False

    @classmethod
    def reply_to_error(
        cls, raw: Mapping[str, JSON], error: RequestError, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the answer to a request that is not judged: its error, unless the caller needs another form.

        Raises:
            RequestError: the error.
        """
        raise error
