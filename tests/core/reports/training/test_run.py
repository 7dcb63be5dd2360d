"""A training run, read on as it grows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.results.folder import (
    SavedTraining,
    find_run_paths,
    is_training_run,
    list_runs,
)
from judgegym.reports.training.run import TrainingRun
from judgegym.reports.view.entries import make_entry
from tests.core.reports.training.made import MadeTraining


def state_of(path: Path) -> dict[str, Any]:
    run = TrainingRun(path)
    run.poll()
    return run.state()


def made(path: Path, steps: int = 4, **options: Any) -> MadeTraining:
    training = MadeTraining(path, **options)
    for _ in range(steps):
        training.step()
    training.live(at=time.time(), total_steps=9, sent=3, unsent=2, dropped={"too_long": 1})
    return training


def chart(state: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in state["judges"][0]["charts"] if each["id"] == name]
    return dict(found)


def test_curves_limits_alarms_facts_and_groups(tmp_path: Path) -> None:
    training = made(tmp_path / "run", limits={"reward_mean": [None, 0.1]})
    training.alarm()
    training.live(at=time.time(), total_steps=9, sent=3, unsent=2, dropped={"too_long": 1})
    state = state_of(tmp_path / "run")
    means = chart(state, "gold means")
    assert [line["name"] for line in means["lines"]] == ["training judge", "gold judge"]
    assert means["lines"][1]["y"] == [0.4] * 4
    gap = chart(state, "gold gap")
    assert gap["limits"][0]["x"] == [3, 4] and gap["is_beyond"] and "limit +0.050" in gap["said"]
    assert chart(state, "gold evidence")["limits"][0]["y"] == [200.0]
    reward = chart(state, "reward_mean")
    assert (
        reward["limits"][0]["y"] == [0.1] * 4
        and reward["is_beyond"]
        and "low" in reward["lines"][0]
    )
    numbers = {
        "step": 4,
        "total_steps": 9,
        "groups": 8,
        "sent": 3,
        "rollouts": 32,
        "in_progress": None,
        "unsent": 2,
    }
    assert state["numbers"] == numbers and state["judges"][0]["judge"] == "a-judge"
    assert state["dropped"] == [("too_long", 1)] and state["standing"] == "training"
    assert state["alarms"][0]["rollouts"][0]["group"] == 1 and state["alarm_count"] == 1
    named = [head for head in state["groups"] if "alarm" in head["kept"]]
    assert [head["number"] for head in named] == [1]
    run = TrainingRun(tmp_path / "run")
    run.poll()
    group: Any = run.group(named[0]["id"])
    assert group["rollouts"][0]["completion"] == "Completion 0 of group 1." and group["gold"] == [
        0.25,
        None,
        None,
        None,
    ]
    assert run.group("0-999") is None
    with_reasons = dict(state["judges"][0]["left_out"])
    assert with_reasons, "monitors without a value say why"


def test_read_in_parts_it_is_the_same_as_read_at_once(tmp_path: Path) -> None:
    training = made(tmp_path / "whole")
    training.alarm()
    data = (tmp_path / "whole" / "monitor.jsonl").read_bytes()
    path = tmp_path / "parts"
    path.mkdir()
    run = TrainingRun(path)
    assert not run.poll()
    for start in range(0, len(data), 997):
        with (path / "monitor.jsonl").open("ab") as file:
            file.write(data[start : start + 997])
        assert run.poll()
    assert not run.poll()
    (path / "live.jsonl").write_bytes((tmp_path / "whole" / "live.jsonl").read_bytes())
    assert run.poll() and not run.poll()
    assert {**run.state(), "title": ""} == {**state_of(tmp_path / "whole"), "title": ""}


def test_a_file_that_is_replaced_is_read_anew_and_damage_is_counted(tmp_path: Path) -> None:
    training = made(tmp_path)
    run = TrainingRun(tmp_path)
    run.poll()
    lines = (tmp_path / "monitor.jsonl").read_bytes().splitlines(keepends=True)
    hostile = [
        b"{torn\n",
        b"[1]\n",
        b'{"step":{"step":"x"}}\n',
        b'{"check":{"step":1,"gap":null}}\n',
    ]
    hostile += [
        b'{"step":{"step":9,"values":[],"limits":{"reward_mean":[1]},"causes":{"a":"b"},"beyond":3}}\n',
        b"\xff\n",
    ]
    (tmp_path / "new").write_bytes(b"".join([*lines[:2], *hostile]))
    (tmp_path / "new").replace(tmp_path / "monitor.jsonl")
    assert run.poll()
    state = run.state()
    assert state["damaged"] == 3 and len(chart(state, "reward_mean")["lines"][0]["x"]) == 1
    assert training.steps == 4


@pytest.mark.parametrize(
    ("files", "at", "standing"),
    [
        ({"end": True}, 0, "ended"),
        ({}, 0, "training"),
        ({".lock": True}, -100, "silent"),
        ({}, -100, "stopped"),
        ({"paused": True}, 0, "paused"),
        ({"paused": True, "resumed": True}, 0, "training"),
    ],
)
def test_how_it_stands(tmp_path: Path, files: dict[str, bool], at: int, standing: str) -> None:
    now = time.time() + at
    lines: list[dict[str, Any]] = [{"at": now, "begin": {"judge": "j", "gold_judge": None}}]
    lines += [
        {"at": now, "pause": {"state": name}} for name in files if name in ("paused", "resumed")
    ]
    lines += [{"at": now, "end": {}}] if "end" in files else []
    (tmp_path / "monitor.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if ".lock" in files:
        (tmp_path / ".lock").touch()
    assert state_of(tmp_path)["standing"] == standing


def test_a_resumed_run_is_no_longer_ended(tmp_path: Path) -> None:
    training = made(tmp_path)
    training.monitor.note("end", {})
    assert state_of(tmp_path)["standing"] == "ended"
    training.monitor.begin()
    training.live(at=time.time())
    assert state_of(tmp_path)["standing"] == "training"


def test_judges_of_a_server_are_apart(tmp_path: Path) -> None:
    for name in ("b", "a"):
        made(tmp_path, judge=name, steps=3 if name == "a" else 2)
    state = state_of(tmp_path)
    assert [judge["name"] for judge in state["judges"]] == ["a", "b"]
    assert state["judges"][0]["charts"][0]["lines"][0]["x"] == [1, 2, 3]
    assert chart(state, "gold evidence")["limits"][0]["y"] == [400.0], (
        "all their alarms together are bounded"
    )


@pytest.mark.slow
def test_memory_and_state_do_not_grow_with_the_run(tmp_path: Path) -> None:
    training = made(tmp_path)
    step, check = (tmp_path / "monitor.jsonl").read_bytes().splitlines()[-2:]
    run, sizes, points = TrainingRun(tmp_path), [], []
    for number in range(6_000):
        for line in (step, check):
            training.write(line.replace(b'"step":4', b'"step":%d' % (5 + number)) + b"\n")
        if number in (2_999, 5_999):
            run.poll()
            sizes.append(len(json.dumps(run.state())))
            charts = [chart for judge in run.state()["judges"] for chart in judge["charts"]]
            points.append(sum(len(line["x"]) for chart in charts for line in chart["lines"]))
    assert sizes[1] < 1.2 * sizes[0] and points[1] < 1.2 * points[0]


def test_it_is_listed_and_is_no_evaluation(tmp_path: Path) -> None:
    made(tmp_path / "runs" / "one")
    (found,) = list_runs(tmp_path / "runs")
    assert isinstance(found, SavedTraining) and is_training_run(found.path)
    entry = make_entry(found, tmp_path / "runs")
    assert entry["state"] == "training, step 4" and entry["rows"]["text"] == "32 rollouts"
    assert entry["is_open"] and not entry["is_comparable"]
    (found.path / "samples.jsonl").touch()
    assert find_run_paths(tmp_path / "runs") == [found.path] and not is_training_run(found.path)
