"""`evaluate --offline`, and `evaluate` on the real data, recomputed here from `samples.jsonl`."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command import ROOT, RunFiles, as_process, in_process

DATA = ROOT.parent / "shared" / "data" / "arena_hard_v0.1"
GPT_35 = "answers_gpt-3.5-turbo-0125.jsonl"
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


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFiles, str, str]:
    """A run from the root of the repository: its files, standard output, standard error."""
    path = tmp_path_factory.mktemp("offline") / "run"
    ended = as_process("evaluate", "--offline", "--all_metrics", f"--env.data_dir_to_save_evals={path}")
    assert ended.code == 0, ended.said
    return RunFiles(path), ended.out, ended.err


@pytest.mark.slow
def test_every_metric_of_the_specification_is_there_and_right(offline: tuple[RunFiles, str, str]) -> None:
    files, out, _ = offline
    check(files)
    assert files.metrics["total_samples"] == len(SAMPLES.read_text(encoding="utf-8").splitlines())
    for name in files.report["results"]["all"]:
        assert f" {name} " in out, "--all_metrics shows each metric"


def test_results_go_to_standard_output_and_progress_to_standard_error(offline: tuple[RunFiles, str, str]) -> None:
    files, out, err = offline
    assert str(files.path) in out
    assert "eval/overall_winrate" not in err
    assert "12 of 12 rows" in err
    assert "12 of 12 rows" not in out


def test_samples_stand_in_the_order_of_the_rows_with_all_that_was_said(offline: tuple[RunFiles, str, str]) -> None:
    files, _, _ = offline
    rows = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    assert [(each["uid"], each["category"], each["question"]) for each in files.samples] == [
        (row["uid"], row["category"], row["prompt"]) for row in rows
    ]
    for sample in files.samples:
        assert sample["model_answer"].strip()
        assert [game["order"] for game in sample["detail"]["games"]] == ["model_is_a", "model_is_b"]
        assert all(game["text"].rstrip().endswith(f"[[{game['label']}]]") for game in sample["detail"]["games"])
    assert files.failures == []
    assert files.report["results"]["atropos|arena_hard_eval|0"] == files.report["results"]["all"]


@pytest.mark.slow
def test_it_works_from_inside_its_folder(offline: tuple[RunFiles, str, str], tmp_path: Path) -> None:
    """As the specification's examples call it. The run's default place is below the working directory."""
    files, _, _ = offline
    inside = as_process(
        "evaluate", "--offline", f"--env.data_dir_to_save_evals={tmp_path}", cwd=ROOT / "eval_environments",
        script="arena_hard_environment.py", env={"PYTHONPATH": ""}, fresh=True,
    )  # fmt: skip
    assert inside.code == 0, inside.said
    assert RunFiles(tmp_path).without_run() == files.without_run()


@pytest.mark.slow
def test_a_run_without_a_name_goes_below_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = in_process("evaluate", "--offline", "--limit=1")
    assert ended.code == 0, ended.said
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.startswith("arena_hard--offline-policy--offline-judge--")
    assert f"runs/{made.name}" in ended.out
    assert RunFiles(made).metrics["total_samples"] == 1


@pytest.mark.slow
def test_the_stand_in_is_named_where_it_is_only_the_judge(tmp_path: Path) -> None:
    answers = ROOT / "judgegym" / "data" / "samples" / "arena_hard_baseline.jsonl"
    ended = in_process(
        "evaluate", "--offline", f"--env.model_answers={answers}", f"--env.data_dir_to_save_evals={tmp_path}"
    )
    assert ended.code == 0, ended.said
    assert "The judge is an offline stand-in" in ended.out
    assert "policy" not in ended.out.lower().replace("eval/policy", "")
    found = RunFiles(tmp_path).metrics
    assert (found["overall_winrate"], found["tie_rate"]) == (0.5, 1.0)  # the baseline against itself


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the real data is not there: ../shared/data/{DATA.name}")
def test_the_real_data(tmp_path: Path) -> None:
    ended = in_process(
        "evaluate",
        "--offline",
        f"--env.train_prompt_dataset={DATA / 'prompts.jsonl'}",
        f"--env.train_baseline_dataset={DATA / 'answers_gpt-4-0314.jsonl'}",
        f"--env.model_answers={DATA / GPT_35}",
        f"--env.data_dir_to_save_evals={tmp_path}",
    )
    assert ended.code == 0, ended.said
    files = RunFiles(tmp_path)
    check(files)
    assert files.metrics["total_samples"] == 500
    answers = {json.loads(line)["uid"]: json.loads(line)["answer"] for line in (DATA / GPT_35).open(encoding="utf-8")}
    assert [sample["model_answer"] for sample in files.samples] == [answers[sample["uid"]] for sample in files.samples]
    assert "policy_calls" not in files.metrics
