"""Groups whose completions are judged together, before endpoints that fail: what a fault may cost, and what not.

For the cohorts of the reward server see `test_cohorts.py`.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conformance.subjects import TOGETHER, Subject, Verb
from tests.faults import kinds
from tests.faults.bench import GROUP, Bench, Outcome
from tests.faults.further_faults import BROKEN_OFF
from tests.faults.killing import Signal, same, taken_up, whole
from tests.faults.test_endpoints import nothing_is_lost

VERBS: tuple[Verb, ...] = ("serve", "process")
ONE_OF_EACH = (
    "429",
    "500",
    "reset",
    "short_body",
    "malformed",
    "no_choices",
    "finish_error",
    "empty",
    "text_parts",
)
ARENA = [subject for subject in TOGETHER if subject.title.startswith("arena_hard")]


def titles(subjects: Sequence[Subject]) -> Any:
    return pytest.mark.parametrize("subject", subjects, ids=lambda subject: subject.title)


each_verb = pytest.mark.parametrize("verb", VERBS)
each_judge = titles(ARENA)


@pytest.mark.slow
@each_verb
@titles(TOGETHER)
def test_mixture_of_faults_leaves_no_trace_in_groups(
    bench: Bench, verb: Verb, undisturbed: Outcome
) -> None:
    told_apart = ("timeout", "no_finish", *kinds.CHANGES_THE_REQUESTS)
    mixed = [kind for kind in (*kinds.TRANSIENT, *kinds.RIGHT) if kind not in told_apart]
    settings = {"faults": dict.fromkeys(mixed, 0.4 / len(mixed)), "slow_ms": 10}
    outcome = bench.run(verb, policy=settings, judge=settings)
    assert sum(outcome.judge.faults.values()) > 0
    nothing_is_lost(outcome, undisturbed)


@pytest.mark.slow("tournament")
@pytest.mark.parametrize("verb", ["process"])
@pytest.mark.parametrize("kind", ONE_OF_EACH)
@each_judge
def test_fault_of_the_judge_that_passes_leaves_no_trace(
    bench: Bench, verb: Verb, kind: str, undisturbed: Outcome
) -> None:
    outcome = bench.run(verb, judge={"faults": {kind: 0.4}})
    assert outcome.judge.faults[kind] > 0
    nothing_is_lost(outcome, undisturbed)


@pytest.mark.slow("tournament")
@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        *(("process", kind) for kind in ("500", "drop", "malformed", "finish_error", "401")),
        ("serve", "401"),
        *(pytest.param("process", kind, marks=pytest.mark.slow) for kind in kinds.LAST_WORD),
    ],
)
@each_judge
def test_judge_of_groups_that_never_answers_makes_no_group(
    bench: Bench, verb: Verb, kind: str
) -> None:
    outcome = bench.run(verb, "--env.judge_max_retries=1", judge={"faults": {kind: 1}})
    assert outcome.ended.code == 1, outcome.ended.said
    assert outcome.result == []
    assert BROKEN_OFF not in outcome.ended.said


@pytest.mark.parametrize("verb", ["process"])
@pytest.mark.parametrize("kind", ["400", "garbage", "length"])
@each_judge
def test_judge_of_groups_that_fails_at_times_gives_no_score_of_its_failure(
    bench: Bench, verb: Verb, kind: str, undisturbed: Outcome
) -> None:
    """Each score is one of the judge, or the mean of its group with no advantage; a group without is not written."""
    outcome = bench.run(verb, judge={"faults": {kind: 0.3}})
    assert outcome.judge.faults[kind] > 0
    groups = [json.loads(line) for line in outcome.result]
    before = {group["row"]["uid"]: group for group in map(json.loads, undisturbed.result)}
    for group in groups:
        judged = [turns[-1]["judgment"]["status"] == "ok" for turns in group["messages"]]
        substituted = [
            each.get("set_advantage_to_zero", False)
            for each in group.get("overrides", [{}] * GROUP)
        ]
        assert substituted == [not ok for ok in judged]
        scores = [score for score, ok in zip(group["scores"], judged, strict=True) if ok]
        assert len(scores) >= 2
        assert all(
            score == pytest.approx(sum(scores) / len(scores))
            for score, ok in zip(group["scores"], judged, strict=True)
            if not ok
        )
        assert [turns[-1]["content"] for turns in group["messages"]] == [
            turns[-1]["content"] for turns in before[group["row"]["uid"]]["messages"]
        ]
    metrics = json.loads((bench.path / "run.run" / "train_metrics.json").read_bytes())
    judged, dropped = (
        metrics["train/groups_judged"],
        metrics.get("train/groups_dropped_judge_failed", 0),
    )
    assert judged - dropped == len(groups) == bench.rows, (
        "one that is dropped is counted, and another one is made"
    )


@pytest.mark.slow
@each_judge
def test_process_of_groups_that_is_killed_twice_pays_twice_for_what_was_in_flight(
    bench: Bench,
) -> None:
    undisturbed = whole(bench, "process")
    stops = [Signal(signal.SIGKILL, 0.4), Signal(signal.SIGTERM, 0.5)]
    resumed = taken_up(bench, "process", undisturbed, stops, "run", "--env.judge_max_concurrency=2")
    assert resumed.stopped == len(stops)
    same("process", undisturbed, resumed)
    assert resumed.twice <= resumed.said, "the number that it says is right"
