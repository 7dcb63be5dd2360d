"""The prompts of the documents, as endpoints receive them, and the outputs that they ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.command import RunFiles, in_process, serving, write_lines
from tests.conformance.specification.promises import (
    ARENA_HARD_JUDGE,
    RUBRIC_JUDGE,
    THINKING_OF_ASSISTANTS,
    THINKING_OF_JUDGES,
)
from tests.scripted import Json

ARENA_ROW = {"uid": "q", "prompt": "Why does ice float?", "answer": "Because it is less dense than water."}
BETTER = "<think>Density.</think>Ice has more room between its molecules."
PAIR = {"id": "p", "prompt": "Add 1 and 1.", "chosen": ["2"], "rejected": ["3", "4", "5"], "subset": "Math"}
RUBRIC_ROW = {
    "id": "r",
    "instruction": "Why was the camp significant?",
    "reference_answer": "For military, political and geographical reasons.",
    "rubric": "Does the response reflect key historical facts?",
}
FEEDBACK = "[FEEDBACK] The facts are there, but the support of France is not.\n\n[SCORE] 4"


def system(request: Json) -> str:
    (text,) = (message["content"] for message in request["messages"] if message["role"] == "system")
    return str(text)


def arena_hard(path: Path, policy_url: str, judge_url: str) -> RunFiles:
    """An evaluation of one row with thinking."""
    rows = write_lines(path / "rows.jsonl", [ARENA_ROW])
    ended = in_process(
        "evaluate",
        f"--openai.base_url={policy_url}",
        f"--env.judge_base_url={judge_url}",
        f"--env.train_prompt_dataset={rows}",
        f"--env.train_baseline_dataset={rows}",
        "--env.thinking_mode=True",
        "--env.short_answer_retries=0",
        f"--env.data_dir_to_save_evals={path / 'run'}",
        env_type=ArenaHardEnv,
    )
    assert ended.code == 0, ended.said
    return RunFiles(path / "run")


def test_arena_hard(tmp_path: Path) -> None:
    """Both system prompts; both orders, whose scores are averaged."""

    def judge(request: Json, number: int) -> str:
        shown = request["messages"][-1]["content"]
        is_first = shown.index("more room") < shown.index("less dense")
        return "Mine: [[B>A]]. No: [[A>B]]" if is_first else "[[A=B]]"

    with serving(BETTER) as policy_endpoint, serving(judge) as judge_endpoint:
        run = arena_hard(tmp_path, policy_endpoint.base_url, judge_endpoint.base_url)
    assert [system(body) for body in policy_endpoint.bodies] == [THINKING_OF_ASSISTANTS]
    assert [system(body) for body in judge_endpoint.bodies] == [ARENA_HARD_JUDGE] * 2
    assert all("Density." not in json.dumps(body) for body in judge_endpoint.bodies)
    (sample,) = run.samples
    assert sample["score"] == 0.5, "won as A and tied as B, from -1 to 1"
    assert run.metrics["overall_winrate"] == 0.75


@pytest.mark.parametrize("answer", ["<think>a", "a</think>b", BETTER * 2])
def test_malformed_thinking_is_a_wrong_answer(answer: str, tmp_path: Path) -> None:
    """Exactly one pair of tags: anything else is judged by nobody."""
    with serving(answer) as policy_endpoint, serving("[[A=B]]") as judge_endpoint:
        run = arena_hard(tmp_path, policy_endpoint.base_url, judge_endpoint.base_url)
    assert not judge_endpoint.bodies
    assert run.metrics["thinking_valid_rate"] == 0.0


def test_pairwise_judgement(tmp_path: Path) -> None:
    def judge(request: Json, number: int) -> str:
        shown = request["messages"][-1]["content"]
        letter = next(letter for letter in "ABCD" if f"\n2\n[The End of Assistant {letter}" in shown)
        return f"<think>One and one.</think>It is right: [[{letter}]]"

    rows = write_lines(tmp_path / "rows.jsonl", [PAIR])
    with serving(judge) as endpoint:
        ended = in_process(
            "evaluate",
            f"--openai.base_url={endpoint.base_url}",
            f"--env.eval_dataset={rows}",
            f"--env.data_dir_to_save_evals={tmp_path / 'run'}",
            env_type=PairwiseJudgementEnv,
        )
    assert ended.code == 0, ended.said
    (body,) = endpoint.bodies
    assert system(body).startswith(THINKING_OF_JUDGES)
    assert RunFiles(tmp_path / "run").metrics["percent_correct"] == 1.0


def test_rubric_absolute(tmp_path: Path) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", [RUBRIC_ROW])
    with serving("For several reasons.") as policy_endpoint, serving(FEEDBACK) as judge_endpoint:
        ended = in_process(
            "evaluate",
            f"--openai.base_url={policy_endpoint.base_url}",
            f"--env.judge_base_url={judge_endpoint.base_url}",
            f"--env.eval_dataset={rows}",
            f"--env.data_dir_to_save_evals={tmp_path / 'run'}",
            env_type=RubricAbsoluteEnv,
        )
    assert ended.code == 0, ended.said
    (body,) = judge_endpoint.bodies
    assert system(body) == RUBRIC_JUDGE
    assert body["messages"][-1]["content"] == (
        f"### Instruction\n\n{RUBRIC_ROW['instruction']}\n\n"
        f"### Reference Response\n\n{RUBRIC_ROW['reference_answer']}\n\n"
        f"### Score Rubric\n\n{RUBRIC_ROW['rubric']}\n\n"
        "### Response To Evaluate\n\nFor several reasons.\n\n"
        "---\n\nPlease evaluate the response according to the score rubric above."
    )
    (sample,) = RunFiles(tmp_path / "run").samples
    assert sample["score"] == 4
