"""The 80 public questions with the public prompts, against the stand-in. `MT_BENCH` names a folder of the files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.mt_bench import TurnTask, judge_views, read_templates
from tests.command import RunFiles, in_process, write_lines

_FOLDER = os.environ.get("MT_BENCH")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        _FOLDER is None, reason="MT_BENCH: no folder of question.jsonl, judge_prompts.jsonl, gpt-4.jsonl"
    ),
]
FOLDER = Path(_FOLDER or ".")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines() if line]


def evaluated(path: Path, *flags: str) -> RunFiles:
    files = [f"--env.question_dataset={FOLDER / 'question.jsonl'}", f"--env.reference_dataset={FOLDER / 'gpt-4.jsonl'}"]
    given = [*files, f"--env.judge_prompts=@{FOLDER / 'judge_prompts.jsonl'}", f"--env.data_dir_to_save_evals={path}"]
    ended = in_process("evaluate", "--offline", *given, *flags, env_type=MTBenchEnv)
    assert ended.code == 0, ended.said
    return RunFiles(path)


def test_ratings(tmp_path: Path) -> None:
    files = evaluated(tmp_path / "run")
    parts = [sample["detail"]["parts"] for sample in files.samples]
    assert len(parts) == 80 and files.failures == []
    expected = {f"turn_{turn}_mean_score": fmean(each[f"turn_{turn}"] for each in parts) for turn in (1, 2)}
    expected["mean_score"] = fmean(score for each in parts for score in each.values())
    assert {name: files.metrics[name] for name in expected} == pytest.approx(expected)
    assert files.metrics["judge_calls"] == files.metrics["policy_calls"] == 160
    print({name: round(value, 4) for name, value in expected.items()})


def test_comparisons(tmp_path: Path) -> None:
    turns = {line["question_id"]: line["turns"] for line in lines("question.jsonl")}
    answers = [
        {
            "question_id": uid,
            "choices": [{"index": 0, "turns": [f"It depends on {text.split()[-1]}" for text in texts]}],
        }
        for uid, texts in turns.items()
    ]
    baseline = write_lines(tmp_path / "baseline.jsonl", answers)
    files = evaluated(tmp_path / "run", f"--env.baseline_dataset={baseline}")
    points = [score for sample in files.samples for score in sample["detail"]["parts"].values()]
    assert len(points) == 160 and files.failures == []
    assert files.metrics["win_rate_adjusted"] == pytest.approx(fmean(points))
    assert files.metrics["judge_calls"] == 320
    print({name: round(files.metrics[name], 4) for name in ("win_rate_adjusted", "win_rate", "tie_rate", "loss_rate")})


def test_public_prompts_are_read_and_named_as_the_published_code_names_them() -> None:
    published = {line["name"]: line for line in lines("judge_prompts.jsonl")}
    templates = read_templates((FOLDER / "judge_prompts.jsonl").read_text("utf-8"))
    assert templates.keys() == published.keys()
    for name, line in published.items():
        assert templates[name] == (line["system_prompt"], line["prompt_template"])
        baseline, reference = "q" if line["type"] == "pairwise" else None, "q" if "math" in name else None
        turn = JudgeTask("q", ("q",), reference, baseline=baseline)
        assert name in {look.template for look in judge_views(TurnTask.of([turn, turn]))}
