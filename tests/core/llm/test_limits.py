"""What an endpoint's error says of money and of time, in the words of providers: refused, waited for, or hours away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.llm.errors import FailureKind
from judgegym.llm.responses.outcome import AttemptFailure, Habits, RawResponse, parse_response
from judgegym.llm.retries.limits import UNKNOWN_WAIT

QUOTA = "You exceeded your current quota, please check your plan and billing details."
OF_GOOGLE = {"code": 429, "status": "RESOURCE_EXHAUSTED"}


def failure(status: int, error: Any, retry_after: str | None = None) -> AttemptFailure:
    """What the one reader of responses makes of an error."""
    body = error if isinstance(error, bytes) else json.dumps(error).encode()
    found = parse_response(RawResponse(status, body, retry_after), Habits("x"))
    assert isinstance(found, AttemptFailure)
    return found


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"message": QUOTA, "type": "insufficient_quota", "code": "insufficient_quota"}),
        (429, {"message": QUOTA, "param": None}),
        (
            429,
            {
                "message": "Billing hard limit has been reached",
                "code": "billing_hard_limit_reached",
            },
        ),
        (
            429,
            {
                "message": "Your account is not active, please check your billing details",
                "type": "billing_not_active",
            },
        ),
        (429, {"message": "Insufficient Balance", "code": "insufficient_balance"}),
        (429, {"message": "quota used up", "code": "quota_exceeded"}),
        (
            429,
            {
                "message": "Your prepayment credits are depleted. Please go to AI Studio",
                **OF_GOOGLE,
            },
        ),
        (429, {"message": "no money", "type": "exceeded_current_quota_error"}),
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the API.",
            },
        ),
        (
            400,
            {
                "message": "You have reached your specified API usage limits. You will regain access on "
                "2027-01-01."
            },
        ),
        (
            403,
            {
                "message": "Your team has used all available credits or reached its monthly spending "
                "limit."
            },
        ),
        (200, {"message": "Insufficient credits", "code": 402}),
        (200, {"message": "sorry", "code": "insufficient_quota"}),
    ],
)
def test_an_account_without_credit_is_refused_whatever_the_status(
    status: int, error: dict[str, Any]
) -> None:
    for body in ({"error": error}, [{"error": error}] if status != 200 else {"error": error}):
        found = failure(status, body)
        assert (found.kind, found.is_account) == (FailureKind.REJECTED, True), found
        assert str(error["message"]) in found.answer


@pytest.mark.parametrize(
    ("error", "retry_after", "wait"),
    [
        ({"message": QUOTA + " Please retry in 39.5s.", **OF_GOOGLE}, None, 39.5),
        ({"message": QUOTA, **OF_GOOGLE, "details": [{"retryDelay": "39s"}]}, None, 39.0),
        ({"message": "Resource has been exhausted (e.g. check quota).", **OF_GOOGLE}, None, None),
        (
            {"message": "Rate limit reached on tokens per min (TPM). Please try again in 6ms."},
            None,
            0.006,
        ),
        ({"message": "Requests per minute quota exceeded", "code": "quota_exceeded"}, None, None),
        ({"message": "later", "code": "quota_exceeded"}, "5", 5.0),
        ({"message": "You have reached your usage limit. Try again in 20 seconds."}, None, 20.0),
        ({"message": "Requests per day (RPD): Limit 200. Please try again in 7m12s."}, None, 432.0),
        (
            {"message": "Requests per day (RPD): Limit 200. Please try again in 1h25m13.5s."},
            None,
            5113.5,
        ),
        (
            {"message": "Daily limit of requests reached", "code": "rate_limit_exceeded"},
            "86400",
            86_400.0,
        ),
        (
            {"message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more"},
            None,
            UNKNOWN_WAIT,
        ),
        (
            {"message": "You are using a Trial key, which is limited to 1000 API calls / month"},
            None,
            UNKNOWN_WAIT,
        ),
        (
            {
                "message": QUOTA,
                **OF_GOOGLE,
                "details": [
                    {"violations": [{"quotaId": "RequestsPerDayPerProject-FreeTier"}]},
                    {"retryDelay": "39s"},
                ],
            },
            None,
            UNKNOWN_WAIT,
        ),
    ],
)
def test_a_limit_of_requests_is_a_wait_of_the_time_that_it_says(
    error: dict[str, Any], retry_after: str | None, wait: float | None
) -> None:
    found = failure(429, {"error": error}, retry_after)
    assert (found.kind, found.is_account, found.retry_after) == (FailureKind.BUSY, False, wait)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, b"", FailureKind.BUSY),
        (429, b"<html>slow down</html>", FailureKind.BUSY),
        (429, [[1], {"error": "x"}], FailureKind.BUSY),
        (429, {"error": {"details": [1, {"violations": 3}, {"retryDelay": 7}]}}, FailureKind.BUSY),
        (503, {"error": {"message": "daily maintenance: try again in 2 hours"}}, FailureKind.BUSY),
        (
            400,
            {"error": {"message": "temperature: only the default is supported"}},
            FailureKind.REJECTED,
        ),
        (400, {"error": {"message": QUOTA}}, FailureKind.REJECTED),
        (500, {"error": {"message": "insufficient credits"}}, FailureKind.BROKEN),
    ],
)
def test_other_errors_are_what_their_status_says(
    status: int, error: Any, kind: FailureKind
) -> None:
    found = failure(status, error)
    assert (found.kind, found.is_account, found.retry_after) == (kind, False, None)
