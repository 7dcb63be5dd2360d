"""An endpoint that fails is never a number: the failure is said and listed, and nothing else is made of it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from judgegym.llm.reachability import MOST_IN_A_ROW
from tests.command import Ended
from tests.conformance.lab import Lab, Side, Undisturbed, row_of_sample, slow_with_several_models
from tests.conformance.subjects import JUDGE_KEY, KEYS, POLICY_KEY, SUBJECTS, uids
from tests.scripted import Reply

with_a_judge = pytest.mark.parametrize(
    "subject",
    [subject for subject in SUBJECTS if subject.has_judge],
    ids=lambda subject: subject.title,
    indirect=True,
)
DOWN = Reply(status=500, body={"error": {"message": "closed for repairs"}})


def unauthorised(variable: str) -> Reply:
    """A refusal that tells the key."""
    return Reply(status=401, body={"error": {"message": f"wrong API key: {KEYS[variable]}"}})


def no_number(lab: Lab, ended: Ended) -> None:
    """There is neither a metric nor a score."""
    assert ended.code == 1
    assert "eval/" not in ended.said
    assert not (lab.files().path / "metrics.json").exists()
    samples = lab.files().path / "samples.jsonl"
    assert not samples.exists() or samples.read_bytes() == b""
    assert "--resume" in ended.err, "it says how to try again"


def is_stopped_by_rejections(side: Side, ended: Ended) -> bool:
    """Whether a model has rejected ten requests, which ends the run with what was said; fewer fail one by one."""
    of_each = Counter(body["model"] for body in side.endpoint.bodies)
    is_outage = max(of_each.values()) >= MOST_IN_A_ROW
    said = " ".join(ended.err.split())
    assert ("run was stopped" in said) is is_outage
    if is_outage:
        assert (
            f"{side.endpoint.base_url} rejected the first" in said
            and "requests: HTTP 401: wrong API key" in said
        )
    return is_outage


@with_a_judge
@pytest.mark.parametrize(
    ("reply", "words"),
    [(DOWN, "closed for repairs"), (Reply(text="Hm."), "no verdict")],
    ids=["500", "no verdict"],
)
def test_judge_down_gives_no_number(lab: Lab, reply: Reply, words: str) -> None:
    lab.judge.disturb(lambda uid: reply)
    ended = lab.evaluate()
    no_number(lab, ended)
    assert words in ended.err
    assert {row_of_sample(failure) for failure in lab.files().failures} == set(uids())
    status = "unparsable" if reply.status == 200 else "judge_failed"
    assert {(failure["status"], failure["score"]) for failure in lab.files().failures} == {
        (status, None)
    }
    if reply.status != 200:
        assert lab.judge.endpoint.base_url in ended.err


def test_policy_down_gives_no_number(lab: Lab) -> None:
    lab.policy.disturb(lambda uid: DOWN)
    ended = lab.evaluate()
    no_number(lab, ended)
    assert "closed for repairs" in ended.err
    assert lab.policy.endpoint.base_url in ended.err
    assert lab.judge.endpoint.requests == []
    assert {row_of_sample(failure) for failure in lab.files().failures} == set(uids())


REJECTED = [
    (side, subject)
    for subject in SUBJECTS
    for side in (["judge"] if subject.has_judge else []) + ["policy"]
]


@slow_with_several_models
@pytest.mark.parametrize(
    ("side", "subject"),
    REJECTED,
    ids=[f"{subject.title}-{side}" for side, subject in REJECTED],
    indirect=["subject"],
)
def test_endpoint_that_rejects_the_key_gives_no_number_and_costs_no_row(
    lab: Lab, side: str, undisturbed: Undisturbed
) -> None:
    rejecting: Side = getattr(lab, side)
    variable = {"judge": JUDGE_KEY, "policy": POLICY_KEY}[side]
    rejecting.disturb(lambda uid: unauthorised(variable))
    ended = lab.evaluate()
    no_number(lab, ended)
    assert "wrong API key" in ended.err and rejecting.endpoint.base_url in ended.err
    assert side == "judge" or lab.judge.endpoint.requests == []
    is_stopped = is_stopped_by_rejections(rejecting, ended)
    failures = lab.files().failures if (lab.files().path / "failures.jsonl").exists() else []
    assert is_stopped or {row_of_sample(failure) for failure in failures} == set(uids())
    if side == "judge":
        assert {(failure["status"], failure["score"]) for failure in failures} <= {
            ("judge_failed", None)
        }
    rejecting.restore()
    resumed = lab.finished("--resume")
    assert resumed.without_run() == undisturbed.files.without_run() and resumed.failures == []


@with_a_judge
def test_row_whose_judge_failed_is_left_out_and_said(lab: Lab, undisturbed: Undisturbed) -> None:
    lab.judge.disturb(lambda uid: DOWN if uid == "row-3" else None)
    ended = lab.evaluate()
    assert ended.code == 1, "one row of six is above the default of 5 %"
    (failure,) = lab.files().failures
    assert (failure["uid"], failure["status"], failure["score"]) == ("row-3", "judge_failed", None)
    assert "closed for repairs" in failure["error"]
    pairs = zip(undisturbed.files.samples, undisturbed.files.without_run(), strict=True)
    assert lab.files().without_run() == [line for sample, line in pairs if sample["uid"] != "row-3"]
    metrics = lab.files().metrics
    assert metrics["judge_error_rate"] == pytest.approx(1 / 6)
    assert (metrics["total_samples"], metrics["selected_rows"]) == (5, 6)
    assert re.search(r"\b1 of 6 rows \w+ no score", ended.out)
    assert "16.7 %" in ended.err
