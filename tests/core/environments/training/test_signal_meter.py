"""`process --env.signal_groups`: groups that are judged twice, and what is told of them."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.training import signal_meter
from judgegym.llm.usage import Usage
from judgegym.monitoring.live_file import MONITOR
from judgegym.statistics.signal import GroupPair
from tests.arena import Arena, against_model, for_model
from tests.batching import serving_folder
from tests.core.environments.training.test_process import Run, groups, process
from tests.docs.tables import DOCS, Check, generated_fields
from tests.serving import Verdict, first_wins, judging

TWICE = "--env.signal_groups=32"
ONE_WORKER = "--env.max_num_workers=1"
CALLS = 8
"""Judge calls of a group: four completions, each shown in both orders."""


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.chdir(tmp_path)
    return Arena(tmp_path).rows(8)


def noisy(share: int) -> Verdict:
    """A judge for which every `share`-th judgment of a completion is the opposite one."""
    looks: Counter[tuple[str, int]] = Counter()

    def verdict(uid: str, index: int, as_a: bool) -> str:
        looks[uid, index] += 1
        judgment = (looks[uid, index] - 1) // 2  # both orders are one judgment
        is_wrong = (7 * judgment + 3 * index + sum(map(ord, uid))) % share == 0
        wins = (index == 0) != is_wrong
        return for_model(uid, as_a) if wins else against_model(uid, as_a)

    return verdict


def lines(arena: Arena, kind: str) -> list[Mapping[str, Any]]:
    monitor = arena.path / "data" / "arena_hard.run" / MONITOR
    found = (json.loads(line) for line in monitor.read_bytes().splitlines())
    return [line[kind] for line in found if kind in line]


def missing_fields(arena: Arena) -> set[str]:
    """Check the lines of the run against the handbook; return the meter's fields that none has."""
    check = Check(generated_fields(DOCS / "run_files.md", "monitor"))
    monitor = arena.path / "data" / "arena_hard.run" / MONITOR
    for line in monitor.read_bytes().splitlines():
        check.add(json.loads(line))
    return {name for name in check.never_seen if name.startswith("signal")}


def values(arena: Arena) -> dict[str, float]:
    path = arena.path / "data" / "arena_hard.run" / "train_metrics.json"
    content: dict[str, float] = json.loads(path.read_bytes())
    return content


def test_each_group_is_judged_again_by_calls_of_its_own_and_its_rewards_stay(arena: Arena) -> None:
    flags = ("--env.total_steps=2", ONE_WORKER)
    assert process(arena, *flags).ended.code == 0
    once = groups(arena)
    twice_path = arena.path / "twice.jsonl"
    run = process(arena, *flags, TWICE, f"--env.data_path_to_save_groups={twice_path}")
    assert run.ended.code == 0, run.ended.said
    assert [json.loads(line) for line in twice_path.read_bytes().splitlines()] == once
    assert len(run.judge.requests) == 2 * 2 * CALLS


async def test_a_group_that_is_measured_is_not_in_progress_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def judge_again(*_: object) -> tuple[GroupPair, Usage]:
        return GroupPair([1.0, 0.0], [1.0, 0.0]), Usage()

    monkeypatch.setattr(signal_meter, "judge_again", judge_again)
    env: Any = Namespace(config=Namespace(signal_groups=2, judge_batch=None, seed=0))
    group: Any = Namespace(scores=(1.0, 0.0))
    meter = signal_meter.SignalMeter(env, lambda *_: None, expected_groups=2)
    for number in (1, 2, 3):
        task: Any = Namespace(uid=f"row-{number}")
        meter.offer(task, group, None, number=number, step=number)
        await asyncio.sleep(0)  # its second judgment ends, and no callback has run
    assert meter.counts["measured"] == 2


def test_second_judgments_share_a_batch(arena: Arena) -> None:
    folder = arena.path / "batches"
    folder.mkdir()
    batch = [f"--env.judge_batch_folder={folder}", "--env.judge_batch_poll=0.005"]
    with serving_folder(folder, judging(first_wins)):
        run = process(arena, "--env.total_steps=12", TWICE, "--env.judge_batch=folder", *batch)
    assert run.ended.code == 0, run.ended.said
    assert values(arena)["train/signal_groups"] == 12
    assert len([*folder.glob("*[0-9].jsonl")]) == 2 and not run.judge.requests


def test_few_groups_are_counted_and_nothing_is_told(arena: Arena) -> None:
    run = process(arena, "--env.total_steps=2", TWICE)
    assert run.ended.code == 0, run.ended.said
    pairs = lines(arena, "signal_pair")
    assert [pair["first"] for pair in pairs] == [[1.0, -1.0, -1.0, -1.0]] * 2
    assert [pair["second"] for pair in pairs] == [pair["first"] for pair in pairs]
    (report,) = lines(arena, "signal")
    assert report["left_out"].startswith("2 groups") and "32" in report["left_out"]
    assert not missing_fields(arena) & {"signal.left_out", "signal.measured", "signal.failed"}
    numbers = values(arena)
    assert numbers["train/signal_groups"] == 2
    assert numbers["train/signal_calls"] == 2 * CALLS
    assert f"{2 * CALLS} judge calls" in run.ended.said
    assert "train/signal_unrepeated" not in numbers
    assert "do not repeat" not in run.ended.said


@pytest.mark.slow
def test_the_noise_of_a_judge_is_reported_with_advice(arena: Arena) -> None:
    run = process(arena, "--env.total_steps=40", TWICE, verdict=noisy(5))
    assert run.ended.code == 0, run.ended.said
    assert "do not repeat when the judge is called again" in run.ended.said.replace("\n", " ")
    *_, report = lines(arena, "signal")
    assert report["groups"] == 32 and report["advantage"] == "deviation"
    numbers = values(arena)
    low, high = (numbers[f"train/signal_unrepeated_{end}"] for end in ("low", "high"))
    assert 0 < low < numbers["train/signal_unrepeated"] < high
    assert report["unrepeated"]["value"] == numbers["train/signal_unrepeated"]
    page = (arena.path / "data" / "arena_hard.run" / MONITOR).read_text()
    assert page.count('"signal_pair"') == 32
    assert missing_fields(arena) <= {"signal.left_out", "signal.measured", "signal.failed"}


def test_without_the_setting_no_group_is_judged_again(arena: Arena) -> None:
    run = process(arena, "--env.total_steps=1")
    assert run.ended.code == 0, run.ended.said
    assert len(run.judge.requests) == CALLS
    assert not lines(arena, "signal") and not lines(arena, "signal_pair")
    assert not [name for name in values(arena) if "signal_" in name and "groups_" not in name]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--env.signal_groups=10",), "at least 32"),
        (
            (TWICE, "--env.group_size=1", "--env.ensure_scores_are_not_same=False"),
            "two completions",
        ),
        ((TWICE, "--env.signal_advantage=ppo"), "signal_advantage"),
    ],
)
def test_a_setting_that_cannot_work_is_an_error_before_the_first_call(
    arena: Arena, flags: tuple[str, ...], problem: str
) -> None:
    run = process(arena, "--env.total_steps=2", *flags)
    assert run.ended.code == 2
    assert problem in " ".join(run.ended.said.split())
    assert not run.policy.requests and not run.judge.requests
    assert not (arena.path / "data").exists()


def test_a_second_judgment_that_fails_fails_no_group(arena: Arena) -> None:
    looks: Counter[str] = Counter()

    def fails_later(uid: str, index: int, as_a: bool) -> str:
        looks[uid] += 1
        return first_wins(uid, index, as_a) if looks[uid] <= CALLS else "No verdict."

    run: Run = process(arena, "--env.total_steps=2", TWICE, verdict=fails_later)
    assert run.ended.code == 0, run.ended.said
    assert len(groups(arena)) == 2
    assert values(arena)["train/signal_groups_failed"] == 2


def test_a_spent_budget_stops_the_meter_with_one_line(arena: Arena) -> None:
    """The one group is judged before the meter begins, so that the budget ends within the meter."""
    run = process(arena, "--env.total_steps=1", TWICE, f"--env.budget_calls={CALLS + 4}")
    assert run.ended.said.count("signal meter stops") == 1
    assert len(groups(arena)) == 1 and not lines(arena, "signal_pair")
    assert run.ended.code == 0, run.ended.said


def test_the_plan_has_the_second_judgments(arena: Arena) -> None:
    plain = process(arena, "--env.total_steps=100", "--plan")
    planned = process(arena, "--env.total_steps=100", "--plan", TWICE)
    assert planned.ended.code == 0, planned.ended.said
    assert "judged twice" in planned.ended.out and "judged twice" not in plain.ended.out
    assert "32 groups (signal_groups)" in planned.ended.out
    assert not planned.judge.requests
