"""Two steps of a seed: the real rollout API, `judgegym serve`, the judge, the endpoint and the trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.tiny_grpo.run import Plan, train_seeds
from examples.tiny_grpo.tasks import SCRIPTED, TWO_TURNS, Task
from examples.tiny_grpo.training.settings import TrainingSettings

pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[examples]'")


@pytest.mark.parametrize("task", [SCRIPTED, pytest.param(TWO_TURNS, marks=pytest.mark.slow)])
async def test_two_steps_of_a_seed(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(task, TrainingSettings(steps=2, batch_size=32), (4,), tmp_path, "the command")
    curve = await train_seeds(plan)
    (run,) = curve.runs
    assert (curve.name, curve.command, run.seed) == (task.title, "the command", 4)
    assert [step.step for step in run.steps] == [1, 2]
    assert run.recomputed == 1.0, (
        "ids and logprobs of the endpoint are those that the trainer computes"
    )
    first, second = run.steps
    assert (first.ratio, first.clip_fraction, first.staleness) == (pytest.approx(1, abs=1e-3), 0, 0)
    assert second.staleness in (0, 1) or 0 < second.staleness < 1
    for step in run.steps:
        assert step.group_size == 8 and 0 <= step.without_signal < 1
        assert 0 <= step.reward <= 1 and step.group_std > 0 and step.masked == 0
        assert 1 <= step.length <= task.max_tokens
        assert 0 < step.letter_share < 1
    assert run.groups_sent >= 8 and run.groups_dropped == 0
    assert " 2/2 " in capsys.readouterr().err
    said = (tmp_path / "seed-4/serve.log").read_text(encoding="utf-8")
    assert "joined" in said and "ERROR" not in said and "Traceback" not in said
