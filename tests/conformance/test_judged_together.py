"""Groups that are judged together: rewards follow quality, a failed judge is never a score, and calls are paid once."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from tests.command import Ended
from tests.conformance.lab import DOWN, Lab
from tests.conformance.subjects import TOGETHER, Subject
from tests.listwise import shown_answers, verdict
from tests.scripted import Reply, completion
from tests.together import compared, comparing

TEXTS = (
    "poor: I would rather not say.",
    "good: a child sees it, and asks.",
    "fair: it is there, and simple.",
)
BY_QUALITY = (0, 2, 1)
"""The places of the texts, the worst first."""
QUALITY = {"poor": 0.1, "fair": 0.5, "good": 0.9}
OF_THE_ANCHOR = 0.3
INVALID = -2.0
TRIED = 6
"""How many rows are tried at most for two groups."""
_MALFORMED = "good: I do not think."


@pytest.fixture(params=TOGETHER, ids=lambda subject: subject.title)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each environment whose groups may be judged together, by each judge of groups."""
    found: Subject = request.param
    return found


def quality(text: str) -> float:
    """The quality that a text says it has; the anchors say none."""
    return QUALITY.get(text.partition(":")[0], OF_THE_ANCHOR)


def anchored(lab: Lab) -> bool:
    return not lab.subject.title.startswith(
        ("aspect_critique", "rubric_checklist", "example-constitution")
    )


def listwise(lab: Lab) -> bool:
    return lab.subject.title.endswith("listwise")


def groups_of(
    lab: Lab, *texts: str | None, flags: tuple[str, ...] = (), code: int = 0
) -> tuple[list[Any], Ended]:
    """The groups of two rows whose policy says these texts, `None` being one without its thinking."""
    said = [_MALFORMED if text is None else f"<think>Hm.</think>{text}" for text in texts]
    lab.policy.disturb(lambda uid: Reply(body=completion(*said)))
    lab.judge.endpoint.requests.clear()
    wanted = (
        f"--env.group_size={len(texts)}",
        f"--env.invalid_thinking_reward={INVALID}",
        "--env.thinking_mode=true",
        "--env.judge_reask=0",
        "--env.total_steps=2",
        "--limit=2",
    )
    ended = lab.process(*wanted, *flags)
    assert ended.code == code, ended.said
    return lab.groups(), ended


def test_rewards_follow_the_quality_of_the_completions(lab: Lab) -> None:
    lab.judge.plant(comparing(quality))
    groups, _ = groups_of(lab, *TEXTS)
    assert len(groups) == 2
    for group in groups:
        worst_first = [group["scores"][place] for place in BY_QUALITY]
        assert all(one < other for one, other in pairwise(worst_first))
        assert min(worst_first) >= 0 and max(worst_first) <= 1
        if anchored(lab):
            assert worst_first[0] < 0.5 < worst_first[1], "against the anchor"
    found = lab.train_metrics()
    assert found.get("train/winrate") == (pytest.approx(2 / 3) if anchored(lab) else None)
    members = len(TEXTS) + anchored(lab)
    calls = 1 if listwise(lab) else members * (members - 1)
    assert (
        found["train/group_judge_calls"] == calls and len(lab.judge.endpoint.requests) == 2 * calls
    )
    assert found["train/judge_error_rate"] == 0


def both_orders(lab: Lab) -> tuple[str, ...]:
    """What makes the judge see both orders; a tournament does by default."""
    return ("--env.listwise_orders=2",) if listwise(lab) else ()


def test_two_orders_agree_where_the_judge_prefers_no_place(lab: Lab) -> None:
    lab.judge.plant(comparing(quality))
    groups_of(lab, *TEXTS, flags=both_orders(lab))
    found = lab.train_metrics()
    assert found["train/position_agreement_rate"] == 1
    assert found["train/reward_position_correlation"] == pytest.approx(0, abs=1e-9)
    if not listwise(lab):
        assert found["train/first_position_advantage"] == 0
        return
    assert found["train/group_judge_calls"] == 2 and len(lab.judge.endpoint.requests) == 2 * 2
    expected = [
        0.5 + (each - OF_THE_ANCHOR) / 2 if anchored(lab) else each for each in QUALITY.values()
    ]
    assert found["train/mean_reward"] == pytest.approx(sum(expected) / len(expected))
    assert ("train/score_against_anchor" in found) is anchored(lab)


def test_judge_that_prefers_the_first_place_shows_in_the_metrics_and_two_orders_make_up_for_it(
    lab: Lab,
) -> None:
    def first_is_better(request: Any, number: int) -> str:
        shown = shown_answers(request)
        listed = verdict(
            {each.id: quality(each.text) / 2 + (place == 0) / 4 for place, each in enumerate(shown)}
        )
        return listed if shown else "[[A>B]]"

    lab.judge.plant(first_is_better)
    groups, _ = groups_of(lab, *TEXTS, flags=both_orders(lab))
    found = lab.train_metrics()
    if listwise(lab):
        assert found["train/reward_position_correlation"] == pytest.approx(0, abs=1e-9)
        assert found["train/first_position_advantage"] > 0.1
        return
    assert found["train/first_position_advantage"] == 1
    assert found["train/position_agreement_rate"] == 0
    assert all(group["scores"] == pytest.approx([0.5] * 3) for group in groups), "nobody is better"


def test_score_belongs_to_its_completion_whatever_the_order_of_the_completions(lab: Lab) -> None:
    lab.judge.plant(comparing(quality))
    (one, *_), _ = groups_of(lab, *TEXTS)
    (lab.path / "groups.jsonl").rename(lab.path / "earlier.jsonl")
    (lab.path / "groups.run").rename(lab.path / "earlier.run")
    (other, *_), _ = groups_of(lab, *reversed(TEXTS))
    assert other["scores"][::-1] == pytest.approx(one["scores"], abs=1e-6)


def test_failed_judge_is_never_a_score(lab: Lab) -> None:
    """A row whose judge refuses everything has no group; the rows beside it do."""
    lab.judge.plant(comparing(quality))
    lab.judge.disturb(lambda uid: DOWN if uid == "row-0" else None)
    groups, ended = groups_of(lab, *TEXTS, flags=("--limit=6",), code=0)
    assert len(groups) == 2
    assert all(group["row"]["uid"] != "row-0" and "overrides" not in group for group in groups)
    refused = [call for call in read_calls(lab.path / "groups.run") if call.row == "row-0"]
    assert {call.component for call in refused} <= {"policy"}, "what failed has no answer"
    assert "Traceback" not in ended.said


def test_completion_without_a_verdict_has_no_advantage_and_takes_no_other_ones_score(
    lab: Lab,
) -> None:
    right = comparing(quality)

    def silent_on_poor(request: Any, number: int) -> str:
        return (
            "I cannot say."
            if any("poor" in text for text in compared(request))
            else right(request, number)
        )

    lab.judge.plant(silent_on_poor)
    if listwise(lab):  # one call has all answers, so that none has a verdict
        groups, _ = groups_of(lab, *TEXTS, code=1)
        assert groups == []
        assert lab.train_metrics()["train/groups_dropped_judge_failed"] == TRIED
        return
    for group in groups_of(lab, *TEXTS)[0]:
        of_poor, of_good, of_fair = group["scores"]
        assert group["overrides"] == [{"set_advantage_to_zero": True}, {}, {}]
        assert of_fair < of_poor < of_good and of_poor == pytest.approx((of_fair + of_good) / 2)
        statuses = [turns[-1]["judgment"]["status"] for turns in group["messages"]]
        assert statuses == ["unparsable", "ok", "ok"]
    assert lab.train_metrics()["train/groups_judged_again_rate"] == 1
    components = {call.component.partition("/")[0] for call in read_calls(lab.path / "groups.run")}
    assert components == {"policy", "group", "group_again"}


def test_equal_completions_are_one_member(lab: Lab) -> None:
    lab.judge.plant(comparing(quality))
    poor, good, _ = TEXTS
    for group in groups_of(lab, poor, good, poor, good)[0]:
        one, other, *rest = group["scores"]
        assert rest == [one, other] and one < other
        judgments = [turns[-1]["judgment"] for turns in group["messages"]]
        assert judgments[:2] == judgments[2:]
    members = 2 + anchored(lab)
    assert lab.train_metrics()["train/group_judge_calls"] == (
        1 if listwise(lab) else members * (members - 1)
    )
    shown = {text for body in lab.judge.endpoint.bodies for text in compared(body)}
    assert len(shown) == 2 + 2 * anchored(lab), "the two rows have an anchor each"


def test_completions_that_are_all_equal_are_no_signal_and_cost_a_call_only_against_an_anchor(
    lab: Lab,
) -> None:
    lab.judge.plant(comparing(quality))
    flags = ("--env.ensure_scores_are_not_same=true",)
    groups, _ = groups_of(lab, TEXTS[1], TEXTS[1], flags=flags, code=1)
    assert groups == []
    assert lab.train_metrics()["train/groups_dropped_no_signal"] == TRIED
    assert bool(lab.judge.endpoint.requests) is anchored(lab)


def test_malformed_completion_keeps_its_reward_and_never_reaches_the_judge(lab: Lab) -> None:
    lab.judge.plant(comparing(quality))
    poor, good, _ = TEXTS
    for group in groups_of(lab, poor, None, good)[0]:
        assert group["scores"][1] == INVALID
        assert 0 <= group["scores"][0] < group["scores"][2] <= 1
        assert group["messages"][1][-1]["judgment"]["status"] == "invalid_completion"
    shown = [text for body in lab.judge.endpoint.bodies for text in compared(body)]
    assert not any(_MALFORMED in text for text in shown)


def test_only_valid_completion_is_compared_with_the_anchor_or_its_group_is_dropped(
    lab: Lab,
) -> None:
    lab.judge.plant(comparing(quality))
    groups, _ = groups_of(lab, None, TEXTS[1], None, code=0 if anchored(lab) else 1)
    if anchored(lab):
        assert [group["scores"][1] > 0.5 for group in groups] == [True, True]
        return
    assert groups == [] and lab.judge.endpoint.requests == []
    assert lab.train_metrics()["train/groups_dropped_nothing_to_compare"] == TRIED


def test_group_says_how_it_was_judged_and_its_page_has_every_call(lab: Lab) -> None:
    lab.judge.plant(comparing(quality))
    groups, _ = groups_of(lab, *TEXTS)
    members = len(TEXTS) + anchored(lab)
    for group in groups:
        together = group["row"]["together"]
        assert together["judge"] == ("listwise" if listwise(lab) else "tournament")
        assert together["anchored"] is anchored(lab)
        pairs = 0 if listwise(lab) else members * (members - 1) // 2
        assert (together["orders_agreed"], together["orders_pairs"]) == (pairs, pairs)
        for turns in group["messages"]:
            judgment = turns[-1]["judgment"]
            assert judgment["explanation"] and judgment["label"]
            assert len(judgment["looks"]) == (1 if listwise(lab) else 2 * (members - 1))
            assert all(
                1 <= look["place"] <= look["of"] and 0 <= look["points"] <= 1
                for look in judgment["looks"]
            )
        named = [
            call for call in read_calls(lab.path / "groups.run") if call.row == group["row"]["uid"]
        ]
        assert sum(call.component.startswith("group/") for call in named) == together["calls"]


@pytest.mark.parametrize("flag", ["--env.judge_critique_rounds=1", "--env.group_size=0"])
def test_what_cannot_work_is_said_before_the_first_request(lab: Lab, flag: str) -> None:
    ended = lab.process(flag)
    assert ended.code == 2
    assert re.search(flag.partition("=")[0].removeprefix("--env."), ended.err)
    assert lab.requests == 0
