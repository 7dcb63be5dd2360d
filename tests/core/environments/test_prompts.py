"""The environment of prompts: its judge is any of the registry, with the settings and the columns of that judge."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.llm.errors import SettingsError
from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, completion
from tests.serving import with_tokens
from tests.thinking import PROMPT_FILE

ROW = {
    "prompt": "Why is the sky blue?",
    "category": "physics",
    "reference": "Air scatters blue light.",
}


def evaluate(path: Path, row: object, *flags: str) -> Ended:
    data = write_lines(path / "prompts.jsonl", [row])
    where = f"--env.eval_dataset={data}", f"--env.data_dir_to_save_evals={path / 'run'}"
    return in_process("evaluate", "--offline", *where, *flags, env_type=PromptsEnv)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judge", "flag", "parts"),
    [
        ("rubric", (), {"raw"}),
        ("aspect", ("--env.aspects=correctness",), {"correctness"}),
        ("checklist", ('--env.criteria=[{"name": "air", "text": "?"}]',), {"raw", "air"}),
        ("peer", (), {"raw"}),
        ("prompt", (f"--env.judge_prompt={PROMPT_FILE}",), {"raw"}),
        ("reward_model", (), {"raw"}),
        ("rule", ("--env.rule=contains",), {"raw"}),
    ],
)
def test_an_answer_is_scored_from_0_to_1(
    tmp_path: Path, judge: str, flag: tuple[str, ...], parts: set[str]
) -> None:
    ended = evaluate(tmp_path, ROW, f"--env.judge={judge}", *flag)
    assert ended.code == 0, ended.said
    files = RunFiles(tmp_path / "run")
    (sample,) = files.samples
    assert parts <= set(sample["detail"]["parts"])
    assert 0 <= sample["score"] <= 1
    assert (
        files.metrics["mean_score"]
        == files.metrics["mean_score_category_physics"]
        == sample["score"]
    )


@pytest.mark.parametrize(
    ("row", "flag", "said"),
    [
        (
            {**ROW, "rubric": {"score1_description": "bad"}},
            "--env.judge=rubric",
            ("rubric: expected text",),
        ),
        (
            {**ROW, "rubric": {"criteria": "Right?", "score1_description": "bad"}},
            "--env.judge=peer",
            ("score descriptions",),
        ),
        (
            {**ROW, "aspects": 3},
            "--env.judge=aspect",
            ("aspects: expected names", "found int"),
        ),
        (
            {"category": "physics"},
            "--env.judge=rubric",
            ("a prompt, ", "in prompt or question"),
        ),
        (ROW, "--env.judge=choice", ("by itself (rubric, ", "found 'choice'")),
        (
            ROW,
            "--env.aspects=harmfulness",
            ("--env.aspects (command line): ", "without --env.judge=aspect"),
        ),
        (ROW, "--env.judge=checklist", ("criteria: ", "the setting criteria")),
        (
            {**ROW, "rubrics": [{"criterion": " ", "points": 1}]},
            "--env.judge=checklist",
            ("criterion 1: expected a text",),
        ),
        (ROW, "--env.schedule=swiss", ("--env.schedule (command line): ", "nothing reads")),
        (ROW, "--env.judge=rule", ("rule: expected", "number, expression")),
        (
            ROW,
            "--env.rule=number",
            ("--env.rule (command line): ", "without --env.judge=rule"),
        ),
    ],
)
def test_what_the_judge_cannot_judge_is_one_line_before_the_first_call(
    tmp_path: Path, row: object, flag: str, said: tuple[str, ...]
) -> None:
    ended = evaluate(tmp_path, row, flag)
    assert ended.code == 2
    assert all(fact in ended.err for fact in said)
    assert not (tmp_path / "run").exists()


def test_a_reward_by_turn_needs_a_judgment_of_each_turn() -> None:
    with pytest.raises(SettingsError, match=r"--env\.reward_by: .*judged=turns, .*judged=whole"):
        load_settings(PromptsEnv, ["--offline", "--env.reward_by=turn"], verb="process")
    load_settings(
        PromptsEnv, ["--offline", "--env.reward_by=turn", "--env.judged=turns"], verb="process"
    )


def test_a_rule_needs_no_endpoint_but_the_policys(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "prompts.jsonl", [ROW])
    words = [
        f"--env.eval_dataset={data}",
        f"--env.data_dir_to_save_evals={tmp_path / 'run'}",
        "--env.judge=rule",
    ]
    words += [
        "--env.rule=length",
        "--env.rule_soft_limit=1",
        "--env.rule_hard_limit=101",
        "--openai.model_name=p",
    ]
    with serving("word " * 51) as policy:
        ended = in_process(
            "evaluate", *words, f"--openai.base_url={policy.base_url}", env_type=PromptsEnv
        )
    assert ended.code == 0, ended.said
    assert {body["model"] for body in policy.bodies} == {"p"}
    files = RunFiles(tmp_path / "run")
    (sample,) = files.samples
    assert (sample["score"], sample["run"]["judge_calls"]) == (0.5, {})
    assert (
        files.report["config_general"]["judge_model_name"],
        files.metrics["judge_error_rate"],
    ) == ("rule-length", 0)
    assert not any("judge_cost" in name or "judge_calls" in name for name in files.metrics)
    assert "judge_price" not in ended.said


def test_one_judge_of_a_cascade_decides_all_completions_of_a_group(tmp_path: Path) -> None:
    def rates(request: Json, number: int) -> str:
        sure = "An unsure one." not in str(request)
        return f"[FEEDBACK] So. [SCORE] {2 if request['model'] == 'large' else 5 if sure else 3}"

    data, out = write_lines(tmp_path / "prompts.jsonl", [ROW]), tmp_path / "groups.jsonl"
    words = [
        f"--env.train_dataset={data}",
        f"--env.data_path_to_save_groups={out}",
        "--env.judge=cascade",
    ]
    words += ["--env.cascade=small,large", "--env.cascade_threshold=0.5", "--env.cascade_recheck=0"]
    words += ["--env.total_steps=1", "--env.group_size=2", "--env.token_source=chat"]
    with (
        serving(Reply(body=with_tokens(completion("A sure one.", "An unsure one.")))) as policy,
        serving(rates) as judge,
    ):
        urls = f"--openai.base_url={policy.base_url}", f"--env.judge_base_url={judge.base_url}"
        ended = in_process("process", *words, *urls, env_type=PromptsEnv)
    assert ended.code == 0, ended.said
    assert json.loads(out.read_text())["scores"] == [0.25, 0.25]
    assert Counter(body["model"] for body in judge.bodies) == {"small": 2, "large": 2}


def test_the_judge_is_shown_earlier_answers_without_their_thinking_and_the_policy_all_of_them(
    tmp_path: Path,
) -> None:
    earlier = "<think>SECRET</think>It is 36."
    prompt = [
        {"role": "user", "content": "6 * 6?"},
        {"role": "assistant", "content": earlier},
        {"role": "user", "content": "And 6 * 7?"},
    ]
    data = write_lines(tmp_path / "prompts.jsonl", [{"prompt": prompt}])
    with serving("42") as policy, serving("[FEEDBACK] So. [SCORE] 5") as judge:
        where = f"--env.eval_dataset={data}", f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
        endpoints = f"--openai.base_url={policy.base_url}", f"--env.judge_base_url={judge.base_url}"
        ended = in_process(
            "evaluate", *where, *endpoints, "--env.judge=rubric", env_type=PromptsEnv
        )
    assert ended.code == 0, ended.said
    assert policy.bodies[0]["messages"][-2]["content"] == earlier
    shown = judge.bodies[0]["messages"][-1]["content"]
    assert "assistant: It is 36.\n\nuser: And 6 * 7?" in shown and "SECRET" not in shown
