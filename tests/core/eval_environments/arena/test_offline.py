"""`evaluate --offline`: its metrics, recomputed here from `samples.jsonl`."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command import ROOT, RunFiles, in_process

VALUES = {"A>B": 1.0, "A=B": 0.5, "B>A": 0.0}
SAMPLES = ROOT / "judgegym" / "data" / "samples" / "arena_hard.jsonl"


def recomputed(samples: list[dict[str, Any]]) -> dict[str, float]:
    """The specification's metrics, from the judge's labels alone (three labels)."""
    scores, outcomes = defaultdict(list), {"win": 0, "tie": 0, "loss": 0}
    for sample in samples:
        as_a, as_b = (game["label"] for game in sample["detail"]["games"])
        first, second = VALUES[as_a], 1 - VALUES[as_b]
        scores["overall_winrate"].append((first + second) / 2)
        scores[f"winrate_{sample['category']}"].append((first + second) / 2)
        outcomes["tie" if first != second else {1.0: "win", 0.5: "tie", 0.0: "loss"}[first]] += 1
    found = {name: sum(values) / len(values) for name, values in scores.items()}
    for outcome, count in outcomes.items():
        found |= {f"{outcome}_count": count, f"{outcome}_rate": count / len(samples)}
    return found | {"total_samples": len(samples)}


def check(files: RunFiles) -> None:
    """The report agrees with the samples, its interval is plausible, its names and values are sound."""
    found, expected = files.metrics, recomputed(files.samples)
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    categories = {name for name in expected if name.startswith("winrate_")}
    assert {name for name in found if name.startswith("winrate_")} == categories
    scores = np.array([(sample["score"] + 1) / 2 for sample in files.samples])
    low, high = found["overall_winrate_ci_low"], found["overall_winrate_ci_high"]
    assert low <= found["overall_winrate"] <= high
    # What resampling rows comes to: about 1.96 standard errors each way.
    width = 2 * 1.96 * scores.std() / math.sqrt(len(scores))
    assert high - low == pytest.approx(width, rel=0.25)
    for name, value in files.report["results"]["all"].items():
        assert name.startswith("eval/")
        assert " " not in name
        assert name.endswith("_cost_usd") if value is None else math.isfinite(value), name


@pytest.mark.slow
def test_every_metric_of_the_specification_is_there_and_right(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ended = in_process(
        "evaluate", "--offline", "--all_metrics", f"--env.data_dir_to_save_evals={path}"
    )
    assert ended.code == 0, ended.said
    files = RunFiles(path)
    check(files)
    assert files.metrics["total_samples"] == len(SAMPLES.read_text(encoding="utf-8").splitlines())
    for name in files.report["results"]["all"]:
        assert f" {name} " in ended.out, "--all_metrics shows each metric"
