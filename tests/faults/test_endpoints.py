"""Each kind of fault of an endpoint, in each verb: what it may cost, and what it may not."""

from __future__ import annotations

import re

import pytest

from judgegym.llm import reachability
from tests.command import RunFiles
from tests.conformance.subjects import SUBJECTS, Verb
from tests.faults import kinds
from tests.faults.bench import Bench, Outcome
from tests.faults.further_faults import BROKEN_OFF

VERBS: tuple[Verb, ...] = ("evaluate", "serve", "process")
QUICK = "--env.judge_timeout=2", "--openai.timeout=2"
"""For kinds that end by a time-out alone."""
ONE_AT_A_TIME = ("--env.judge_max_concurrency=1",)
"""For a kind that is told by earlier answers; the policy has one request for each row."""

each_verb = pytest.mark.parametrize("verb", VERBS)
each_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.title)


def nothing_is_lost(outcome: Outcome, undisturbed: Outcome, *, by_time: bool = False) -> None:
    """The results are those of endpoints without faults, and nothing that was answered was asked again.

    Where failures are told `by_time`, an answer may come too late on a busy machine, and is asked
    for again.
    """
    assert outcome.ended.code == 0, outcome.ended.said
    assert outcome.failures == []
    assert outcome.result == undisturbed.result
    if by_time:
        assert outcome.answered.keys() == undisturbed.answered.keys()
    else:
        assert outcome.answered == undisturbed.answered


@pytest.mark.slow("timeout", "huge_body")
@each_verb
@pytest.mark.parametrize("kind", [*kinds.TRANSIENT, *kinds.RIGHT])
def test_fault_that_passes_leaves_no_trace(
    bench: Bench, verb: Verb, kind: str, undisturbed: Outcome
) -> None:
    settings = {"faults": {kind: 0.2}, "slow_ms": 10}
    flags = {"timeout": QUICK, "no_finish": ONE_AT_A_TIME}.get(kind, ())
    outcome = bench.run(verb, *flags, policy=settings, judge=settings)
    assert outcome.faults[kind] > 0
    if (
        kind in kinds.CHANGES_THE_REQUESTS and verb != "evaluate"
    ):  # where several completions are asked for
        assert outcome.ended.code == 0, outcome.ended.said
        assert len(outcome.result) == bench.rows
    else:
        nothing_is_lost(outcome, undisturbed, by_time=kind == "timeout")


def test_absurd_token_counts_count_nothing_and_can_be_resumed(bench: Bench) -> None:
    outcome = bench.run("evaluate", judge={"faults": {"absurd_usage": 1}})
    assert outcome.ended.code == 0, outcome.ended.said
    metrics = RunFiles(bench.path / "run").metrics
    assert metrics["judge_requests"] == 2 * bench.rows
    assert metrics.get("judge_prompt_tokens", 0) == metrics.get("judge_completion_tokens", 0) == 0
    assert bench.run("evaluate", "--resume").ended.code == 0


@pytest.mark.slow
@each_verb
@each_subject
def test_mixture_of_faults_leaves_no_trace(bench: Bench, verb: Verb, undisturbed: Outcome) -> None:
    told_apart = ("timeout", "no_finish", *kinds.CHANGES_THE_REQUESTS)
    mixed = [kind for kind in (*kinds.TRANSIENT, *kinds.RIGHT) if kind not in told_apart]
    settings = {"faults": dict.fromkeys(mixed, 0.4 / len(mixed)), "slow_ms": 10}
    outcome = bench.run(verb, policy=settings, judge=settings)
    assert sum(outcome.faults.values()) > 0
    nothing_is_lost(outcome, undisturbed)


REFUSED = [("evaluate", kind) for kind in kinds.PERMANENT] + [
    ("serve", "401"),
    ("process", "redirect"),
]


@pytest.mark.parametrize("side", ["policy", "judge"])
@pytest.mark.parametrize(("verb", "kind"), REFUSED)
def test_refusal_of_all_requests_ends_with_one_message_and_is_not_repeated(
    bench: Bench, verb: Verb, side: str, kind: str
) -> None:
    outcome = bench.run(verb, **{side: {"faults": {kind: 1}}})
    assert outcome.ended.code == 1, outcome.ended.said
    assert outcome.result == []
    err = outcome.ended.err
    status = "302" if kind == "redirect" else kind
    is_several = side == "judge" or verb == "serve"  # more than ten calls: the breaker ends the run
    if is_several and kind in kinds.OF_THE_ACCOUNT:
        (message,) = [line for line in err.splitlines() if line.startswith(f"the {side} at http")]
        assert (
            f"rejected the first {reachability.MOST_IN_A_ROW}" in message
            and f"HTTP {status}" in message
        )
        assert "--resume" in err
        return
    (message,) = [line for line in err.splitlines() if line.startswith("nothing succeeded")]
    assert f"the {side} at http" in message and f"HTTP {status} after 1 request" in message
    if verb == "evaluate":
        assert {failure["uid"] for failure in outcome.failures} == {
            f"row-{number}" for number in range(bench.rows)
        }
        assert "--resume" in err
        assert getattr(outcome, side).requests == bench.rows * (2 if side == "judge" else 1), (
            "one for each judgment"
        )


@pytest.mark.parametrize("verb", ["evaluate"])
@pytest.mark.parametrize("side", ["policy", "judge"])
@pytest.mark.parametrize("kind", kinds.PERMANENT)
def test_rows_whose_requests_are_refused_are_listed_and_no_others(
    bench: Bench, verb: Verb, side: str, kind: str, undisturbed: Outcome
) -> None:
    outcome = bench.run(verb, "--env.max_judge_error_rate=1", **{side: {"faults": {kind: 0.6}}})
    assert outcome.ended.code == 0, outcome.ended.said
    failed = {failure["uid"]: failure for failure in outcome.failures}
    assert 0 < len(failed) < bench.rows
    assert all(failure["score"] is None and failure["error"] for failure in failed.values())
    assert re.search(
        rf"\b{len(failed)} of {bench.rows} rows \w+ no score", " ".join(outcome.ended.out.split())
    )
    named = {f'"uid":"{uid}"'.encode() for uid in failed}
    others = [line for line in undisturbed.result if not any(name in line for name in named)]
    assert len(outcome.result) == len(others)
    if side == "policy":  # a judge is asked for another vote
        assert outcome.result == others


ONE_OF_EACH = ("429", "reset", "malformed", "finish_error", "empty", "fewer_choices")
NEVER_PASSING = [
    *(("evaluate", "judge", kind) for kind in kinds.UNTIL_THE_DEADLINE),
    *(
        ("evaluate", "policy", kind)
        for kind in {*ONE_OF_EACH, *kinds.BROKEN} - {*kinds.ANSWERS_ALL_THE_SAME}
    ),
    *(("process", side, kind) for side in ("policy", "judge") for kind in ONE_OF_EACH[1:]),
]


@pytest.mark.slow("timeout", "huge_body")
@pytest.mark.parametrize(("verb", "side", "kind"), sorted(NEVER_PASSING))
def test_fault_that_never_passes_is_no_result(
    bench: Bench, verb: Verb, side: str, kind: str
) -> None:
    """The request is sent once more, and then its row is listed."""
    deadline = 0.5 if kind in ("timeout", *kinds.WAITED_FOR) else 60
    once = "--env.judge_max_retries=1", "--env.max_retries=1"
    deadlines = f"--env.judge_deadline={deadline}", f"--env.policy_deadline={deadline}"
    flags = *once, *deadlines, *(QUICK if kind == "timeout" else ())
    outcome = bench.run(verb, *flags, **{side: {"faults": {kind: 1}}})
    assert outcome.ended.code == 1, outcome.ended.said
    assert outcome.result == []
    assert BROKEN_OFF not in outcome.ended.said
    assert getattr(outcome, side).requests > bench.rows or kind == "retry_after_date", (
        "which is after the deadline"
    )
    if verb == "evaluate":
        assert len(outcome.failures) == bench.rows


@pytest.mark.parametrize("verb", ["evaluate"])
@pytest.mark.parametrize("kind", kinds.LAST_WORD)
def test_judge_without_verdict_gives_no_score(bench: Bench, verb: Verb, kind: str) -> None:
    outcome = bench.run(verb, judge={"faults": {kind: 1}})
    assert outcome.ended.code == 1, outcome.ended.said
    assert outcome.result == []
    assert {failure["status"] for failure in outcome.failures} == {"unparsable"}
    assert len(outcome.failures) == bench.rows


@each_verb
@pytest.mark.parametrize("kind", kinds.LAST_WORD)
def test_judge_that_has_no_verdict_at_times_is_asked_again(
    bench: Bench, verb: Verb, kind: str
) -> None:
    outcome = bench.run(verb, judge={"faults": {kind: 0.2}})
    assert outcome.faults[kind] > 0
    assert outcome.ended.code == 0, outcome.ended.said
    assert len(outcome.result) == bench.rows
