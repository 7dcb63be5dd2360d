"""Names of metrics, in the files that a run writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import RunFiles, in_process
from tests.conformance.specification.promises import ARENA_HARD, PROMISED, Promised
from tests.conformance.specification.test_settings import ENVIRONMENTS


@pytest.mark.parametrize("promised", PROMISED, ids=lambda promised: promised.name)
def test_metrics_of_an_evaluation(promised: Promised, tmp_path: Path) -> None:
    ended = in_process(
        "evaluate",
        "--offline",
        f"--env.data_dir_to_save_evals={tmp_path / 'run'}",
        env_type=ENVIRONMENTS[promised.name],
    )
    assert ended.code == 0, ended.said
    metrics = RunFiles(tmp_path / "run").report["results"]["all"]
    assert not promised.evaluated - set(metrics)
    rates = {name for name in promised.evaluated if ("rate" in name and "rating" not in name) or "correct" in name}
    assert all(0.0 <= metrics[name] <= 1.0 for name in rates)


def test_metrics_of_training(tmp_path: Path) -> None:
    ended = in_process(
        "process",
        "--offline",
        "--env.total_steps=1",
        "--env.group_size=2",
        f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}",
        env_type=ENVIRONMENTS[ARENA_HARD.name],
    )
    assert ended.code == 0, ended.said
    written = json.loads((tmp_path / "groups.run" / "train_metrics.json").read_text("utf-8"))
    assert not ARENA_HARD.trained - set(_names(written))


def _names(value: object) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [name for key, inner in value.items() for name in (key, *_names(inner))]
