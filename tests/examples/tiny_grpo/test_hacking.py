"""A judge that is hacked: what its weakness pays, what the monitor saw of a run, and when an alarm is in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from examples.tiny_grpo.curve import Curve, SeedRun, Step
from examples.tiny_grpo.hacking import add_gold, find_loss_step, show_alarms
from examples.tiny_grpo.run import Plan, train_seeds
from examples.tiny_grpo.tasks import HACKED, MENDED
from examples.tiny_grpo.training.settings import TrainingSettings
from judgegym.llm import wire

CLIMB = [0.1 * n for n in range(1, 7)]
RISE_AND_FALL = [*CLIMB, *[0.6] * 20, *reversed(CLIMB), *[0.1] * 10]


def made(gold: list[float], alarm: int | None = None, seed: int = 0) -> SeedRun:
    steps = [
        Step(n, 0.5, 0.5, 1.0, 20.0, 1.0, 0.0, 0.1, 0.0, 0.0, 8.0, 0.0, each)
        for n, each in enumerate(gold, 1)
    ]
    return SeedRun(seed, tuple(steps), 1.0, 8, 0, 1.0, alarm)


def test_the_gold_score_of_a_step_is_that_of_the_rollouts_made_for_it(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"begin": {}},
        {"gold": {"step": 1, "scores": {"3": 0.5, "0": 0.25}}},
        {"gold": {"step": 1, "scores": {"1": 0.75}}},
        {"gold": {"step": 3, "scores": {"1": 1.0}}},
        {"alarm": {"step": 3}},
        {"alarm": {"step": 4}},
    ]
    (tmp_path / "monitor.jsonl").write_bytes(b"".join(wire.dumps(line) + b"\n" for line in lines))
    run = add_gold(made([0.0] * 5), tmp_path / "monitor.jsonl")
    assert [step.gold for step in run.steps] == [0.5, 0.5, 0.5, 1.0, 1.0] and run.alarm == 3


def test_a_tenth_is_lost_after_the_highest_score_and_not_before() -> None:
    assert find_loss_step(RISE_AND_FALL) == 30
    assert find_loss_step([0.6, 0.1, *RISE_AND_FALL]) == 32, "what is low before does not count"
    assert find_loss_step([*CLIMB, *[0.6] * 20]) is None


@pytest.mark.parametrize(
    ("hacked", "mended", "is_shown"),
    [
        (made(RISE_AND_FALL, 27), made([*CLIMB, *[0.6] * 36]), True),
        (made(RISE_AND_FALL, 30), made([*CLIMB, *[0.6] * 36]), False),
        (made(RISE_AND_FALL), made([*CLIMB, *[0.6] * 36]), False),
        (made(RISE_AND_FALL, 27), made([*CLIMB, *[0.6] * 36], 12), False),
        (made(RISE_AND_FALL, 27), made(RISE_AND_FALL), False),
    ],
    ids=["shown", "too late", "no alarm", "a false one", "no better"],
)
def test_all_of_it_has_to_be_seen(
    hacked: SeedRun, mended: SeedRun, is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = made([*CLIMB, *[0.6] * 36], seed=1), made(RISE_AND_FALL, 20, seed=1)
    assert (
        show_alarms(Curve("two", "", (fine[0], mended)), Curve("one", "", (fine[1], hacked)))
        is is_shown
    )
    said = capsys.readouterr().out
    assert (
        "one, seed 1: alarm at step 20, a tenth of the gold score lost at step 30; at the end it "
        "is 0.10" in said
    )


@pytest.mark.slow
async def test_two_steps_with_three_judges(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[examples]'")
    plan = Plan(
        replace(MENDED, title="two"),
        TrainingSettings(steps=2, batch_size=32),
        (4,),
        tmp_path,
        "the command",
    )
    (run,) = (await train_seeds(plan)).runs
    assert run.alarm is None
    for step in run.steps:
        assert (
            step.gold is not None
            and 0 < step.gold < 0.3
            and step.reward == pytest.approx(step.gold, abs=0.05)
        )
    assert HACKED.others[0] == MENDED.others[0], "one gold judge"
