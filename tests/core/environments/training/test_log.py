"""Where training's metrics go. Weights & Biases is stood in for; tests/core/serve/test_wandb.py has the real one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from judgegym.engine.metrics import Metrics
from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.training.metrics import TrainingLog
from tests.core.environments.rollouts_of import group
from tests.wandb_stand_in import Wandb

METRICS = Metrics(
    {
        "train/judge_latency_p95_s": 1.5,
        "train/reward_mean": 0.5,
        "train/percent_correct": 0.25,
        "config/thinking_mode": 0,
    },
    {"x": "y"},
)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Wandb:
    stand_in = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    return stand_in


def log_of(**config: Any) -> TrainingLog:
    return TrainingLog(
        EnvConfig(**config), Retokenizer(str(BUNDLED_TOKENIZER)), headlines=["percent_correct"]
    )


def keep(log: TrainingLog, *rewards: float) -> None:
    log.keep_group(group(list(rewards)))


async def test_a_line_for_each_step(caplog: pytest.LogCaptureFixture, wandb: Wandb) -> None:
    caplog.set_level("DEBUG", logger="judgegym")  # whose level another test may have set
    log = log_of(use_wandb=False)
    await log.open("arena_hard_0", ("", ""), {})
    await log.log(7, METRICS)
    await log.close()
    line, left_out = (record.getMessage() for record in caplog.records)
    assert line == "step 7: percent_correct 0.250, reward_mean 0.500"
    assert left_out == "x is left out: y"
    assert not wandb.began
    assert not wandb.logged


@pytest.mark.parametrize(
    ("place", "named", "expected"),
    [
        (("g", "p"), None, {"name": "arena_hard_0", "project": "p", "group": "g"}),
        (("", ""), "mine", {"name": "mine", "project": None, "group": None}),
    ],
)
async def test_the_run_is_where_the_trainers_is(
    wandb: Wandb, place: tuple[str, str], named: str | None, expected: dict[str, Any]
) -> None:
    log = log_of(use_wandb=True, wandb_name=named)
    await log.open("arena_hard_0", place, {"env": {"seed": 3}})
    assert wandb.began == {**expected, "config": {"env": {"seed": 3}}}
    await log.log(7, METRICS)
    await log.close()
    assert wandb.logged == [(7, METRICS.values)]
    assert wandb.finished == 1


async def test_a_table_of_the_last_rollouts_is_logged_once_and_by_training(wandb: Wandb) -> None:
    log = log_of(use_wandb=True)
    await log.open("arena_hard_0", ("", ""), {})
    for reward in range(40):
        keep(log, float(reward), 0.5)
    await log.log(1, Metrics({"eval/overall_winrate": 0.5}, {}))
    for step in (2, 3):
        await log.log(step, METRICS)
    columns, rows = wandb.logged[1][1]["train/rollouts"]
    assert columns == ["text", "score"]
    assert rows == [
        [bytes([1, 2, 3, 10, 11, 12, 13]).decode(), float(reward)] for reward in range(8, 40)
    ]
    assert ["train/rollouts" in values for _, values in wandb.logged] == [False, True, False]
