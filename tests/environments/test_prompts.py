"""The environment of prompts: its judge is any of the registry, with the settings and the columns of that judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.judges.scorers.registry import SINGLE
from tests.command import Ended, RunFiles, in_process, write_lines

ROW = {"prompt": "Why is the sky blue?", "category": "physics", "reference": "Air scatters blue light."}


def evaluate(path: Path, row: object, *flags: str) -> Ended:
    data = write_lines(path / "prompts.jsonl", [row])
    where = f"--env.eval_dataset={data}", f"--env.data_dir_to_save_evals={path / 'run'}"
    return in_process("evaluate", "--offline", *where, *flags, env_type=PromptsEnv)


@pytest.mark.parametrize(
    ("judge", "parts"),
    [("rubric", {"raw"}), ("aspect", {"correctness"}), ("checklist", {"raw", "air"}), ("peer", {"raw"})],
)
def test_an_answer_is_scored_from_0_to_1(tmp_path: Path, judge: str, parts: set[str]) -> None:
    settings = {"aspect": ["--env.aspects=correctness"], "checklist": ['--env.criteria=[{"name": "air", "text": "?"}]']}
    ended = evaluate(tmp_path, ROW, f"--env.judge={judge}", *settings.get(judge, []))
    assert ended.code == 0, ended.said
    files = RunFiles(tmp_path / "run")
    (sample,) = files.samples
    assert parts <= set(sample["detail"]["parts"])
    assert 0 <= sample["score"] <= 1
    assert files.metrics["mean_score"] == files.metrics["mean_score_category_physics"] == sample["score"]


def test_every_judge_of_single_answers_is_tried() -> None:
    assert set(SINGLE) == {"rubric", "aspect", "checklist", "peer"}


@pytest.mark.parametrize(
    ("row", "flag", "said"),
    [
        ({**ROW, "rubric": {"score1_description": "bad"}}, "--env.judge=rubric", "rubric: expected text, or an object"),
        (
            {**ROW, "rubric": {"criteria": "Right?", "score1_description": "bad"}},
            "--env.judge=peer",
            "score descriptions",
        ),
        ({**ROW, "aspects": 3}, "--env.judge=aspect", "aspects: expected names or objects, found int"),
        ({"category": "physics"}, "--env.judge=rubric", "a prompt, a text or messages, in prompt or question"),
        (ROW, "--env.judge=choice", "expected 'rubric', 'aspect', 'checklist' or 'peer', got 'choice'"),
        (ROW, "--env.aspects=harmfulness", "--env.aspects (command line): nothing reads it without --env.judge=aspect"),
        (ROW, "--env.judge=checklist", "criteria: there are none, and the setting criteria has none for such rows"),
        (
            {**ROW, "rubrics": [{"criterion": " ", "points": 1}]},
            "--env.judge=checklist",
            "criterion 1: expected a text",
        ),
        (ROW, "--env.schedule=swiss", "--env.schedule (command line): nothing reads it"),
    ],
)
def test_what_the_judge_cannot_judge_is_one_line_before_the_first_call(
    tmp_path: Path, row: object, flag: str, said: str
) -> None:
    ended = evaluate(tmp_path, row, flag)
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "run").exists()


def test_a_column_that_the_judge_is_not_shown_is_named(tmp_path: Path) -> None:
    ended = evaluate(tmp_path, {**ROW, "rubric": "Is it right?"}, "--env.judge=aspect", "--env.aspects=correctness")
    assert ended.code == 0, ended.said
    assert "columns that are not read, and that nobody is shown: rubric" in ended.err
