"""What becomes of each kind of fault that an endpoint shows: the one table that the tests go by."""

from __future__ import annotations

from tests.faults import further_faults
from tests.faults.further_faults import BROKEN, BUSY, HARMLESS, NO_ANSWER, NO_COMPLETION

PERMANENT = ("400", "401", "403", "404", "413", "422", "redirect")
"""The endpoint refuses the request: it is not sent again, and its row is listed as failed."""

OF_THE_ACCOUNT = ("401", "403", "404")
"""Those of them by which an endpoint rejects an account, and so every further request."""

_STATUSES = ("408", "409", "429", "500", "502", "503", "504", "520", "529")
CHANGES_THE_REQUESTS = ("fewer_choices", "duplicate_choices")
"""What is missing is asked for with another request, so that it is another sample where there are several."""

TRANSIENT = (
    *_STATUSES,
    *NO_ANSWER,
    *(kind for kind in (*NO_COMPLETION, *BUSY, *BROKEN) if kind != "redirect"),
)
"""The request is sent again until it is answered: the results are those of an endpoint without faults."""

ANSWERS_ALL_THE_SAME = ("no_finish", "duplicate_choices")
"""An endpoint that never gives a finish reason is taken at its word; a single choice that comes twice is one."""

UNTIL_THE_DEADLINE = tuple(kind for kind in TRANSIENT if kind not in ANSWERS_ALL_THE_SAME)
"""Those that fail a request whenever they come."""

WAITED_FOR = ("429", "503", "529", *BUSY)
"""Those that are not counted as tries."""

RIGHT = tuple(HARMLESS)
"""The answer is the right one: it is taken, and the request is not sent again."""

LAST_WORD = tuple(further_faults.LAST_WORD)
"""A judge's answer without a verdict, and a policy's that is its answer all the same."""

KINDS = (*PERMANENT, *TRANSIENT, *RIGHT, *LAST_WORD)
