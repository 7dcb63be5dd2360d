"""The errors that JudgeGym raises.

The user can correct a `UserError` (a setting, a file, a run directory): the command line prints its
message and exits with code 2. An `EndpointError` is a call that never succeeded. The judges decide
what it means for a judgment (`judgegym.judges.core.judgment.Status`); it never becomes a number. A
`RunStop` is a call that was not made or not repeated: it gives no judgment, and ends the run. It is
a `BudgetError` (exit code 3) if the budget is spent, and an `EndpointOutage` (exit code 1 or 2) if
the endpoint answers no call.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from functools import partial

from judgegym.llm.usage import Usage


class JudgeGymError(Exception):
    """Base class of all errors that this project raises."""


class UserError(JudgeGymError):
    """An error that the user can correct; the message says what, where and what was expected."""


class SettingsError(UserError):
    """A setting is unknown, missing or of the wrong type."""


class DataError(UserError):
    """A data set or a row of it cannot be used; the message names file, row and columns."""


class RunDirectoryError(UserError):
    """A run directory is in use, belongs to another configuration, or is damaged."""


class FailureKind(str, Enum):
    """Kinds of failed attempts (`judgegym.llm.responses.outcome` classifies them)."""

    BUSY = "busy"
    """HTTP 429, 503 or 529: the endpoint asks to wait. Not counted as an attempt."""
    UNREACHABLE = "away"
    """Nothing listens: connection refused, host unreachable, name not resolved.

    All calls wait for one probe.
    """
    BROKEN = "broken"
    """Another attempt may help.

    A connection reset, a timeout, HTTP 408, 409 or another 5xx, no JSON, or no usable choice.
    """
    REJECTED = "rejected"
    """Another 4xx, or a request that cannot be sent: a retry would fail the same way."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self is not FailureKind.REJECTED


class EndpointError(JudgeGymError):
    """A call that never succeeded, or (`attempts == 1`) one failed attempt.

    Attributes:
        kind: the kind of the last failure.
        endpoint: the URL that was called, without credentials.
        status: the last response's HTTP status; `None` without a response.
        answer: the message of the last response or exception, at most 500 characters.
        attempts: the number of requests sent.
        retry_after: the seconds that the endpoint asked to wait, if any.
        usage: tokens and cost of unusable responses, which are paid for.
    """

    def __init__(
        self,
        kind: FailureKind,
        *,
        endpoint: str,
        answer: str,
        status: int | None = None,
        attempts: int = 1,
        retry_after: float | None = None,
    ) -> None:
        """Describe a failed attempt or call; the class explains the arguments."""
        super().__init__(kind, endpoint, answer, status, attempts)
        self.kind = kind
        self.endpoint = endpoint
        self.answer = answer
        self.status = status
        self.attempts = attempts
        self.retry_after = retry_after
        self.usage = Usage()

    @property
    def cause(self) -> str:
        """The kind of the last failure, in one word; `429` for that status."""
        if self.status == 429:
            return "429"
        return self.kind.value

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error with its attributes."""
        return (
            partial(EndpointError, endpoint=self.endpoint, answer=self.answer),
            (self.kind,),
            vars(self),
        )

    def make_shared_error(self) -> EndpointError:
        """Return a copy for a call that shared another's requests: without attempts and cost."""
        error = copy(self)  # without the frames that it went through
        error.attempts, error.usage = 0, Usage()
        return error

    def __str__(self) -> str:
        """Return one line: kind, endpoint, status, number of requests, last response."""
        status = ""
        if self.status is not None:
            status = f" HTTP {self.status}"
        requests = "1 request"
        if self.attempts != 1:
            requests = f"{self.attempts} requests"
        return (
            f"{self.endpoint}: {self.kind.value}{status} after {requests}; last answer: "
            f"{self.answer}"
        )


class UserFailure(JudgeGymError):
    """The simulated user of a conversation gave no message: the row fails, not the policy.

    `JudgedEnv.follow_up` raises it. It is no `UserError`: the person who runs the command can
    correct nothing.
    """


class RunStop(UserError):
    """No further call of the run is allowed; the message says why.

    The user can change that. Like every `UserError` it is not taken for the failure of one row.

    Attributes:
        attempts: the number of the call's failed requests.
        usage: the tokens and cost of these.
        table: the rows judged before it (`judgegym.JudgmentTable`), if they were judged from
            Python.
    """

    table: object = None

    def __init__(self, reason: str) -> None:
        """Describe in one line why no call is allowed."""
        super().__init__(reason)
        self.attempts = 0
        self.usage = Usage()


class BudgetError(RunStop):
    """A request is not sent because the run's budget is spent (`budget.py`)."""

    exit_code = 3


class EndpointOutage(RunStop):
    """No call to an endpoint can succeed: it was never reachable, or it rejects every request.

    Attributes:
        exit_code: the command's exit code: 2 if the endpoint was never reachable (its URL is
            probably wrong), 1 if it rejects requests.
    """

    def __init__(self, reason: str, exit_code: int = 1) -> None:
        """Describe the outage; see the class for the exit code."""
        super().__init__(reason)
        self.exit_code = exit_code


def drop_traceback(error: BaseException) -> None:
    """Drop a handled error's traceback and causes, whose frames hold prompts and bodies.

    A frame that raised its own variable holds the error in turn. Such a cycle lives until the next
    garbage collection, which servers defer.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
