"""Equal completions of a group are judged once, and each has the reward of that judgment; the saving is a metric."""

from __future__ import annotations

from typing import Any

from judgegym.engine.runs.recorded_calls import read_calls
from tests.conformance.lab import Lab
from tests.scripted import Reply, completion

_ONE = (
    "You look at it for a while, and then you explain it to a child by an example. [[A]] Verdict: "
    "1 [SCORE] 2"
)
_OTHER = (
    "A child? I would rather not say anything at all about what that is. [[B]] Verdict: 0 [SCORE] 4"
)
_LATER = "As I said."


def groups_of(
    lab: Lab, name: str, *texts: str
) -> tuple[list[dict[str, Any]], dict[str, float], list[Any]]:
    """The groups of two rows whose policy says these texts in the first turn, with the requests to the judge."""
    begun: set[str] = set()

    def said(uid: str) -> Reply:
        is_first = uid not in begun
        begun.add(uid)
        return Reply(body=completion(*(texts if is_first else [_LATER])))

    lab.policy.disturb(said)
    lab.judge.endpoint.requests.clear()
    lab.process(f"--env.group_size={len(texts)}", "--env.total_steps=2", groups=name).successful()
    groups = lab.groups(name)
    assert len(groups) == 2
    metrics = {
        metric.removeprefix("train/"): value for metric, value in lab.train_metrics(name).items()
    }
    return groups, metrics, lab.judge.endpoint.bodies


def test_equal_completions_of_a_group_are_judged_once(lab: Lab) -> None:
    alone, without, asked_alone = groups_of(lab, "alone", _ONE, _OTHER)
    groups, metrics, asked = groups_of(lab, "groups", _ONE, _OTHER, _ONE, _ONE)
    assert len(asked) == len(asked_alone)
    assert {str(body["messages"]) for body in asked} == {
        str(body["messages"]) for body in asked_alone
    }
    for group, of_two in zip(groups, alone, strict=True):
        one, other = of_two["scores"]
        assert group["scores"] == [one, other, one, one]
        judgments = [turns[-1]["judgment"] for turns in group["messages"]]
        of_one, of_other = (turns[-1]["judgment"] for turns in of_two["messages"])
        assert judgments == [of_one, of_other, of_one, of_one]
    assert without["equal_completions_rate"] == without["judge_calls_saved"] == 0
    assert metrics["equal_completions_rate"] == 0.5
    components = {call.component.partition("/")[0] for call in read_calls(lab.path / "groups.run")}
    judged = ("rollout_0", "rollout_1") if lab.subject.has_judge else ()
    later = [f"conversation_{number}" for number in range(4)] if lab.subject.turns > 1 else []
    assert components == {"policy", *judged, *later}
    of_one_text = sum(_ONE in str(body["messages"]) for body in asked)
    assert (of_one_text > 0) is lab.subject.has_judge
    assert metrics["judge_calls_saved"] == 2 * of_one_text
    assert metrics["total_judgments"] == 2 * without["total_judgments"]
