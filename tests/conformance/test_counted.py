"""What a run asked and paid is counted, whatever came of it; what it cost is unknown without a price, never 0."""

from __future__ import annotations

from tests.conformance.lab import Lab, slow_with_several_models
from tests.scripted import Reply

REFUSED = Reply(status=400, body={"error": {"message": "the prompt is too long"}})
TOKENS = 1000
EMPTY_BUT_PAID = Reply(
    body={
        "choices": [{"message": {"content": ""}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": TOKENS, "completion_tokens": 0},
    }
)


@slow_with_several_models
def test_requests_and_tokens_of_failed_calls_are_counted(lab: Lab) -> None:
    """A row whose policy refuses, one whose answers are empty, one whose judge refuses: 3 of 6 fail at most."""
    without = lab.finished(run="without").metrics
    for side in (lab.policy, lab.judge):
        side.restore()
    lab.policy.disturb({"row-1": REFUSED, "row-2": EMPTY_BUT_PAID}.get)
    lab.judge.disturb({"row-3": REFUSED}.get)
    assert "Traceback" not in lab.evaluate("--env.min_response_length=0").said
    found = lab.files().metrics
    assert found["policy_requests"] == len(lab.policy.endpoint.requests)
    assert found.get("judge_requests", 0) == len(lab.judge.endpoint.requests)
    empty = sum("row-2" in str(body["messages"]) for body in lab.policy.endpoint.bodies)
    assert empty
    # What the other rows' prompts took is at most what all rows took.
    assert (
        empty * TOKENS
        <= found["policy_prompt_tokens"]
        <= empty * TOKENS + without["policy_prompt_tokens"]
    )


@slow_with_several_models
def test_costs_without_prices_are_null_and_unknown(lab: Lab) -> None:
    said = lab.evaluate("--all_metrics").out
    report = lab.files().report
    roles = ["policy", *(["judge"] if lab.subject.has_judge else [])]
    for name in (f"eval/{role}_cost_usd" for role in roles):
        assert report["results"]["all"][name] is None
        assert "price" in report["config_general"]["unknown"][name]
        (line,) = (line for line in said.splitlines() if name in line)
        assert "unknown" in line
