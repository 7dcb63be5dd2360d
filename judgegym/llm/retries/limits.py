"""Errors about credit and time: accounts without credit, and how long to wait.

Providers use one status for both, 429, and many formats; so the body decides. An account without
credit is refused (`AttemptFailure.is_account`), whatever the status: retrying cannot help. A limit
on requests or tokens is waited for. The wait is in the header `Retry-After`, in Google's
`RetryInfo`, or in the message; a daily or monthly limit without any of these is a wait of unknown
length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from judgegym.llm import wire
from judgegym.llm.wire import JSON, mapping_or_empty, text_or_empty

UNKNOWN_WAIT = math.inf
"""The wait for the end of a daily or monthly limit that the endpoint does not state."""

LONG_WAIT_S = 600.0
"""A wait of this many seconds or more, longer than a call's deadline, ends the run."""

_CREDIT_STATUSES = frozenset({400, 403, 429})
"""Statuses that providers use for an account without credit, besides 402, which always means it."""
_CODES = frozenset(
    {
        *(
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "billing_limit_reached",
        ),
        *(
            "insufficient_balance",
            "insufficient_credits",
            "insufficient_funds",
            "insufficient_user_quota",
        ),
        *(
            "exceeded_current_quota_error",
            "account_deactivated",
            "arrearage",
            "accountoverdueerror",
        ),
        *("payment_required", "credit_limit_exceeded", "spend_limit_exceeded", "out_of_credits"),
    }
)
"""Values of `error.code`, `error.type` or `error.status`, in lower case."""
_MAYBE_CODES = frozenset({"quota_exceeded", "quotaexceeded", "usage_limit_reached"})
"""Codes that mean credit at some providers and requests at others.

Without a time they mean credit.
"""
_GOOGLE = "resource_exhausted"
"""Google's code for both, with the same first sentence."""

_NO_CREDIT = re.compile(
    r"\byour credit balance is too low|\bbalance is insufficient"
    r"|\binsufficient (?:account )?(?:balance|credits?|funds)\b"
    r"|\bcredits? (?:are|is|have been|has been) (?:depleted|exhausted|used up)|\bout of credits?\b"
    r"|\bno (?:more |remaining )?credits?(?: are)?(?: left| remaining)?\b|\bnot enough credits?\b"
    r"|\bused all (?:available |of your |your )?credits?|\bbilling (?:hard )?limit (?:has been "
    r"|was )?reached"
    r"|\b(?:account|billing)(?: details| account)? (?:is|are) not active"
    r"|\baccount (?:is|has been) (?:suspended|overdue)"
    r"|\b(?:spend|spending|budget) (?:limit|cap)[^.]{0,40}\b(?:reached|exceeded)"
    r"|\breached (?:your|its|the) (?:specified (?:api )?usage|(?:monthly )?spend(?:ing)?) limits?",
    re.IGNORECASE,
)
_MAYBE_NO_CREDIT = re.compile(
    r"\bexceeded your current (?:token )?quota\b|\bquota (?:is |has been )?exhausted", re.IGNORECASE
)

_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(
    r"(\d+(?:\.\d+)?)\s*"
    r"(milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"\b(?:try(?:ing)? again|retry|wait|resets?|available again)\b[^.\d]{0,40}?"
    r"((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*(?:and )?)+)",
    re.IGNORECASE,
)
_LIMIT_OF_A_DAY = re.compile(
    r"\b(?:per|a|each|every)[ _-]?(?:day|month)\b|\b(?:daily|monthly)\b|/ "
    r"?(?:day|month)\b|\b[RT]PD\b",
    re.IGNORECASE,
)
_QUOTA_OF_A_DAY = re.compile(r"per_?day", re.IGNORECASE)
"""Part of the names of Google's daily quotas."""
_LIMIT_OF_A_MINUTE = re.compile(
    r"\b(?:per|a)[ _-]?(?:min|minute|second)\b|/ ?(?:min|sec)|\b[RT]P[MS]\b|rate.?limit",
    re.IGNORECASE,
)


def lacks_credit(status: int, data: bytes, wait_s: float | None) -> bool:
    """Return whether an error says that the account has no credit or reached its spending limit.

    Args:
        status: the response's status.
        data: its body.
        wait_s: the seconds that it asks to wait; without credit there is no time to wait for.
    """
    if status not in _CREDIT_STATUSES:
        return False
    error, message = _error(data), wire.error_text(data)
    codes = {text_or_empty(error.get(name)).lower() for name in ("code", "type", "status")}
    if codes & _CODES or _NO_CREDIT.search(message):
        return True
    if (
        status != 429
        or wait_s is not None
        or _GOOGLE in codes
        or _LIMIT_OF_A_MINUTE.search(message)
    ):
        return False
    return bool(codes & _MAYBE_CODES) or _MAYBE_NO_CREDIT.search(message) is not None


def parse_wait(data: bytes) -> float | None:
    """Return the seconds that an error's body asks to wait; `None` if it states no time.

    `UNKNOWN_WAIT` stands for the end of a day or a month.
    """
    message, delays = wire.error_text(data), list[str]()
    for detail in map(mapping_or_empty, _items(_error(data).get("details"))):
        for violation in map(mapping_or_empty, _items(detail.get("violations"))):
            if _QUOTA_OF_A_DAY.search(text_or_empty(violation.get("quotaId"))):
                return UNKNOWN_WAIT  # beside which Google asks to come again in seconds
        delays.append(text_or_empty(detail.get("retryDelay")))
    delays += _STATED.findall(message)
    for words in delays:
        if parts := _PART.findall(words):
            return sum(map(_seconds, parts))
    if _LIMIT_OF_A_DAY.search(message):
        return UNKNOWN_WAIT
    return None


def _seconds(part: tuple[str, str]) -> float:
    number, unit = float(part[0]), part[1].lower()
    if unit.startswith(("ms", "mil")):
        return number / 1000
    return number * _SECONDS[unit[0]]


def _error(data: bytes) -> Mapping[str, JSON]:
    """Return the error in a body; Google sends it in a list."""
    body = wire.loads_or_none(data)
    first = mapping_or_empty(body[0] if isinstance(body, list) and body else body)
    return mapping_or_empty(first.get("error")) or first


def _items(value: JSON) -> Sequence[JSON]:
    if isinstance(value, list):
        return value
    return ()
