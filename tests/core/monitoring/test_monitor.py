"""The monitor of a run: its lines, the alarm of a gap, limits, and a run that goes on."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.monitoring.group import MonitorGroup
from judgegym.monitoring.settings import MonitorSettings
from tests.core.monitoring.watched import Watching, group, hacked, rollout, worth
from tests.docs.tables import DOCS, Check, generated_fields


async def watch(watching: Watching, first: int, last: int, begins: int) -> None:
    for number in range(first, last):
        watching.monitor.add(hacked(number, begins))
        if number % 8 == 0:
            watching.monitor.end_step()
    assert watching.monitor.gold is not None
    await watching.monitor.close(math.inf)


async def test_a_growing_gap_is_one_alarm_that_says_where_to_look() -> None:
    watching = Watching(worth)
    await watch(watching, 1, 200, begins=90)
    assert watching.is_gold_closed
    (alarm,) = watching.alarms
    assert 90 <= alarm.since <= alarm.step < 130
    assert "1 of 200 runs" in alarm.seen
    assert len(alarm.rollouts) == 8
    assert all(place.group >= 90 for place in alarm.rollouts[:3]), "the worst first"
    (line,) = watching.lines("alarm")
    assert line["rollouts"] == [asdict(place) for place in alarm.rollouts]
    assert watching.lines("end") == [{"gold": {"scored": 199 * 4, "failed": 0, "left_out": 0}}]


async def test_judges_that_agree_are_no_alarm() -> None:
    watching = Watching(worth)
    await watch(watching, 1, 200, begins=1000)
    assert watching.alarms == []
    assert [check["gap"] for check in watching.lines("check")] == pytest.approx([0.0] * 24)
    assert all(check["order_agreement"] == 1.0 for check in watching.lines("check"))


async def test_a_run_that_is_resumed_has_the_evidence_and_the_alarm_of_before() -> None:
    """It is the run that was not stopped: the reference is that of its beginning, and its alarm is raised once."""
    whole, first = Watching(worth), Watching(worth)
    await watch(whole, 1, 161, begins=90)
    await watch(first, 1, 97, begins=90)
    again = Watching(worth, first.written)
    assert again.monitor.groups == 96
    await watch(again, 97, 161, begins=90)
    checks = [*first.lines("check"), *again.lines("check")]
    assert [check["evidence"] for check in checks] == pytest.approx(
        [each["evidence"] for each in whole.lines("check")]
    )
    assert len(first.alarms + again.alarms) == len(whole.alarms) == 1
    once_more = Watching(worth, [*first.written, *again.written])
    await watch(once_more, 161, 161, begins=90)
    assert once_more.alarms == []
    assert len(once_more.monitor.alarms) == 1


def test_a_damaged_line_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    lines = [b'{"check": {"step": 1}}', b'{"alarm": 3}', b'{"step": {"groups": 5}}']
    assert Watching(None, lines).monitor.groups == 5
    assert len([record for record in caplog.records if "is skipped" in record.message]) == 2


@pytest.mark.parametrize("is_alarm", [True, False])
def test_a_limit_is_marked_and_is_an_alarm_only_if_that_is_asked_for(is_alarm: bool) -> None:
    limits = {"length_mean": 10, "reward_mean": [0.5, None]}
    watching = Watching(None, monitor_limits={**limits, "alarm": is_alarm})
    for number, text in enumerate(["short", "long" * 5, "long" * 6, "short", *["long" * 7] * 4], 1):
        watching.monitor.add(group(number, rollout(text, 0.75)))
        watching.monitor.end_step()
    beyond = [line["beyond"] for line in watching.lines("step")]
    assert beyond == [[], ["length_mean"], ["length_mean"], [], *[["length_mean"]] * 4]
    assert watching.lines("step")[0]["limits"] == {
        "length_mean": [None, 10.0],
        "reward_mean": [0.5, None],
    }
    if not is_alarm:
        assert watching.alarms == []
        return
    (alarm,) = watching.alarms
    assert (alarm.monitor, alarm.since, alarm.step) == ("length_mean", 5, 7)
    assert "28.000 (your limit: at most 10), 3 times" in alarm.seen


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"monitor_limits": {"lenght": 3}}, "no monitor 'lenght'"),
        (
            {"monitor_limits": {"length_mean": [None, None]}},
            r"monitor_limits\.length_mean: .*highest value, found \[None, None\]",
        ),
        (
            {"gold_judge": {"judge": "listwise"}},
            r"gold_judge\.judge: .*each response .*found 'listwise'",
        ),
        ({"gold_judge": {"judge": "rubric", "judge_modle_name": "x"}}, "judge_modle_name"),
    ],
)
def test_settings_that_are_wrong_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MonitorSettings(**wrong)


CASCADE = CascadeSettings.model_validate(
    {"cascade": "small,large", "cascade_harm": 0.02, "cascade_recheck": 0.5}
)


def cascaded(number: int, *, differs: bool, uid: str | None = None) -> MonitorGroup:
    """A group whose row the cheap judge decides; every second one is shown to both."""
    found = {"cascade.escalated": 0.0, "cascade.confidence": 0.9, "small": 0.75}
    found |= {"large": 0.25 if differs else 1.0} if number % 2 else {}
    return group(number, rollout("Text", 0.75, criteria=found), uid=uid or f"row-{number}")


def watch_cascade(watching: Watching, first: int, last: int, every: int) -> None:
    for number in range(first, last):
        watching.monitor.add(cascaded(number, differs=number % every == 1))
        watching.monitor.end_step()


def test_a_cascade_that_breaks_its_promise_is_one_alarm() -> None:
    watching = Watching(cascade=CASCADE)
    watch_cascade(watching, 1, 600, every=10)  # a fifth of the rechecked rows
    (alarm,) = watching.alarms
    assert "promise" in alarm.monitor and alarm.since == 1 and alarm.step == 31
    assert "promise is 2.0 %" in alarm.seen and "1 of 200 runs" in alarm.seen
    assert [place.group for place in alarm.rollouts][-1] == alarm.step
    lines = watching.lines("cascade")
    assert [line["evidence"] >= 200 for line in lines].index(True) == [
        line["step"] for line in lines
    ].index(alarm.step)
    first = Watching(cascade=CASCADE)
    watch_cascade(first, 1, 25, every=10)
    again = Watching(None, first.written, CASCADE)
    watch_cascade(again, 25, 600, every=10)
    assert (first.alarms, again.alarms[0].step) == ([], alarm.step), (
        "a resumed run goes on with its evidence"
    )


def test_a_cascade_that_keeps_its_promise_or_differs_on_one_row_again_and_again_is_no_alarm() -> (
    None
):
    watching = Watching(cascade=CASCADE)
    watch_cascade(watching, 1, 2000, every=100)  # 2 % of the rechecked rows
    for number in range(2001, 2400):
        watching.monitor.add(cascaded(number, differs=True, uid="the same row"))
    assert watching.alarms == []
    watching = Watching(cascade=CASCADE.model_copy(update={"cascade_harm": None}))
    watch_cascade(watching, 1, 600, every=2)
    assert watching.alarms == watching.lines("cascade") == []


async def test_fields_of_the_lines_are_those_of_the_handbook() -> None:
    check = Check(generated_fields(DOCS / "run_files.md", "monitor"))
    watching = Watching(worth)
    await watch(watching, 1, 130, begins=90)
    watching.monitor.note("pause", {"state": "resumed", "by": "signal", "step": 3})
    of_cascade = Watching(cascade=CASCADE)
    watch_cascade(of_cascade, 1, 2, every=10)
    for line in (*watching.written, *of_cascade.written):
        check.add(json.loads(line))
    never_seen = {name for name in check.never_seen if not name.startswith("signal")}
    # Lines of a reward server, of `serve` with row weights, and above of the signal meter.
    assert never_seen == {"judge", "row", "row.uid", "row.equal"}
