"""The project's errors.

`UserError`s are for the user to correct (a setting, a file, a run directory): the command line
prints the message and exits with code 2. `EndpointError` is a call to an endpoint that never
succeeded. The judges decide what that means for a judgment
(`judgegym.judges.core.judgment.Status`); it is never turned into a number. A `RunStop` is a call
that was
not made, or not made again: no judgment comes of it, and it ends the run. `BudgetError` (exit code
3) says that the run has spent what it may; `EndpointOutage` (exit code 1 or 2) that its endpoint
answers no call of the run.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from functools import partial

from judgegym.llm.usage import Usage


class JudgeGymError(Exception):
    """Base class of all errors that this project raises."""


class UserError(JudgeGymError):
    """The user can correct it; the message says what, where and what was expected."""


class SettingsError(UserError):
    """A setting is unknown, missing or of the wrong type."""


class DataError(UserError):
    """A dataset cannot be loaded or a row of it cannot be used; names the file, the row and the columns."""


class RunDirectoryError(UserError):
    """A run directory is in use, belongs to another configuration, or is damaged."""


class FailureKind(str, Enum):
    """Why an attempt at an endpoint failed (`judgegym.llm.responses.outcome` decides)."""

    BUSY = "busy"
    """HTTP 429, 503 or 529: the endpoint is there and asks to wait. No attempt is counted."""
    UNREACHABLE = "away"
    """Nothing listens: connection refused, host unreachable or name not resolved. All calls wait for one probe."""
    BROKEN = "broken"
    """What another attempt may mend: reset, time-out, 408, 409, another 5xx, no JSON, no usable choice."""
    REJECTED = "rejected"
    """Another 4xx, or a request that cannot be sent: a retry would fail the same way."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self is not FailureKind.REJECTED


class EndpointError(JudgeGymError):
    """A call that never succeeded, or (`attempts == 1`) one attempt that failed.

    Attributes:
        kind: what happened to the last attempt.
        endpoint: the URL that was called, without credentials.
        status: HTTP status of the last answer, `None` if there was none.
        answer: the endpoint's last message (at most 500 characters), or that of the exception.
        attempts: how many requests were sent.
        retry_after: seconds that the endpoint asked to wait, if it did.
        usage: tokens and cost of answers that could not be used, which are paid for all the same.
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
        """Describe a failed attempt or call; see the class for the meaning of each argument."""
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
        """How the last request failed, in a word: `429`, or the kind of the failure."""
        return "429" if self.status == 429 else self.kind.value

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process as it is."""
        return (
            partial(EndpointError, endpoint=self.endpoint, answer=self.answer),
            (self.kind,),
            vars(self),
        )

    def make_shared_error(self) -> EndpointError:
        """Return the error for a call that shares the requests of an identical one, which sent and paid for them."""
        error = copy(self)  # without the frames that it went through
        error.attempts, error.usage = 0, Usage()
        return error

    def __str__(self) -> str:
        """One line: kind, endpoint, status, number of requests, last answer."""
        status = f" HTTP {self.status}" if self.status is not None else ""
        requests = "1 request" if self.attempts == 1 else f"{self.attempts} requests"
        return (
            f"{self.endpoint}: {self.kind.value}{status} after {requests}; last answer: "
            f"{self.answer}"
        )


class UserFailure(JudgeGymError):
    """The user of a conversation, simulated by a model, gave no message: the row fails, and never the policy.

    `JudgedEnv.follow_up` raises it. It is no `UserError`: the person who runs the command can
    correct nothing.
    """


class RunStop(UserError):
    """No further call of the run may be made; the message says why.

    The user can change that. As every `UserError` it passes what takes an error for a failure of
    one row.

    Attributes:
        attempts: how many requests of the call were sent before, and failed.
        usage: tokens and cost of their answers.
        table: of rows that Python has judged (`judgegym.JudgmentTable`), those that were before it.
    """

    table: object = None

    def __init__(self, reason: str) -> None:
        """Describe in one line why no call may be made."""
        super().__init__(reason)
        self.attempts = 0
        self.usage = Usage()


class BudgetError(RunStop):
    """A request is not sent, since what the run may spend is spent (`budget.py`)."""

    exit_code = 3


class EndpointOutage(RunStop):
    """No call to an endpoint can succeed: it was never there, or it rejects every request.

    Attributes:
        exit_code: of the command: 2 if the endpoint was never there (its URL is probably wrong), 1
            if it rejects.
    """

    def __init__(self, reason: str, exit_code: int = 1) -> None:
        """Describe the outage; see the class for the exit code."""
        super().__init__(reason)
        self.exit_code = exit_code


def drop_traceback(error: BaseException) -> None:
    """Drop what an error holds that has been dealt with: the frames that it went through, with prompts and bodies.

    A frame that has raised its own variable holds the error in turn. Such a cycle stays until the
    next collection of garbage, which servers put off.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
