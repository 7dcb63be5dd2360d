"""Pairwise judgement end to end: what its settings change, in what the policy is asked and in what is read of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.eval_environments.rewardbench import SUBSETS
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.core.naming import slug
from judgegym.judges.pairwise import choice_instructions
from tests.pairwise import (
    CHOICES,
    TIES,
    always,
    choice_row,
    evaluate,
    gold,
    is_choice,
    shown,
)
from tests.scripted import Json

MIXED = [
    choice_row(0, category="Math"),
    choice_row(1, category="Precise IF"),
    choice_row(2, category="Safety"),
]


@pytest.mark.slow
def test_categories_of_a_flag_leave_subsets_out_with_the_reason(tmp_path: Path) -> None:
    run = evaluate(tmp_path, "--env.eval_categories=Math, Safety", rows=MIXED)
    assert [sample["category"] for sample in run.files.samples] == ["Math", "Safety"]
    official = {name: reason for name, reason in run.left_out.items() if "rewardbench2/" in name}
    names = {f"eval/rewardbench2/{slug(name)}" for name in ("score", *SUBSETS)}
    assert official.keys() == names
    assert all("env.eval_categories" in reason for reason in official.values())
    assert "no row" in run.left_out["eval/avg_ties_rating"]
    assert "Ties subset" in run.left_out["eval/avg_ties_rating"]


@pytest.mark.parametrize(
    "yaml", ["['Precise IF', Safety]", "\n    - PRECISE IF\n    - safety", "Precise IF,Safety"]
)
def test_categories_in_a_file_by_name_or_value(tmp_path: Path, yaml: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"env:\n  eval_categories: {yaml}\n", encoding="utf-8")
    run = evaluate(tmp_path, f"--config={path}", rows=MIXED)
    assert run.code == 0, run.said
    assert [sample["category"] for sample in run.files.samples] == ["Precise IF", "Safety"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (
            "--env.eval_categories=Math,Chess",
            ["eval_categories", "'Chess'", "'Math', 'Precise IF', 'Safety'"],
        ),
        ("--env.eval_categories=maths", ["no row", "'maths', did you mean Math?"]),
        ("--env.num_choices=5", ["3 of 3 rows", "5 answers", "'row-0' with 4", "auto"]),
        ("--env.num_choices=27", ["num_choices"]),
        (
            "--env.judge_system_prompt=@no-such-file.txt",
            ["judge_system_prompt", "no-such-file.txt"],
        ),
        ("--env.shuffle=sorted", ["shuffle"]),
    ],
)
def test_what_cannot_work_is_said_before_the_first_request(
    tmp_path: Path, flag: str, words: list[str]
) -> None:
    run = evaluate(tmp_path, flag, rows=MIXED)
    assert run.code == 2
    assert not run.policy.requests
    assert [word for word in words if word not in " ".join(run.said.split())] == []
    assert "Traceback" not in run.said


def test_auto_shows_as_many_letters_as_a_row_has_answers(tmp_path: Path) -> None:
    rows = [choice_row(number, wrong=wrong) for number, wrong in enumerate((1, 3, 25))]
    run = evaluate(tmp_path, "--env.num_choices=auto", rows=rows)
    assert run.code == 0, run.said
    assert sorted(len(shown(body)) for body in run.policy.bodies) == [2, 4, 26]
    assert {body["messages"][0]["content"] for body in run.policy.bodies} == {
        choice_instructions(n) for n in (2, 4, 26)
    }
    assert run.metrics["percent_correct"] == 1.0


def test_custom_prompts_arrive_byte_for_byte(tmp_path: Path) -> None:
    choice, rating = (
        "  Choose {number}:\n\n\t\u201c[[A]]\u201d – é {verdicts} ",
        "Rate it.\n\n\u2028 From 1 to 10.  ",
    )
    flags = []
    for name, text in (("system", choice), ("rating", rating)):
        path = tmp_path / f"{name}.txt"
        path.write_bytes(text.encode())
        flags.append(f"--env.judge_{name}_prompt=@{path}")
    run = evaluate(tmp_path, *flags, rows=[CHOICES[0], TIES[0]])
    assert run.code == 0, run.said
    (of_choice,) = (body["messages"] for body in run.policy.bodies if is_choice(body))
    assert of_choice[0] == {"role": "system", "content": choice}
    rated = [body["messages"][0]["content"] for body in run.policy.bodies if not is_choice(body)]
    assert len(rated) == 3
    assert {text.partition("\n\n[Query]\n")[0] for text in rated} == {rating}
    digests = {
        "judge_system_prompt": prompt_digest(choice),
        "judge_rating_prompt": prompt_digest(rating),
    }
    assert run.files.report["config_general"]["judge_prompt_digests"] == digests


@pytest.mark.slow
def test_both_orders_show_the_same_answers_in_reverse(tmp_path: Path) -> None:
    run = evaluate(tmp_path, "--env.swap_evaluate=True", rows=CHOICES[:1])
    first, second = (list(shown(body).values()) for body in run.policy.bodies)
    assert first == second[::-1]
    assert (run.metrics["percent_correct"], run.metrics["position_consistency_rate"]) == (1.0, 1.0)


@pytest.mark.slow
def test_right_in_one_order_only_is_wrong(tmp_path: Path) -> None:
    """Right only where the right answer is A or B, which it is in exactly one of the two orders."""

    def policy(request: Json, number: int) -> str:
        letter = gold(request)
        return f"[[{letter if letter in 'AB' else 'A'}]]"

    run = evaluate(tmp_path, "--env.swap_evaluate=True", rows=CHOICES, policy=policy)
    assert (run.metrics["percent_correct"], run.metrics["position_consistency_rate"]) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "letter", "rating"),
    [("last", "D", 7), ("official", "A", 10)],
    ids=["last", "official"],
)
def test_which_verdict_decides(tmp_path: Path, mode: str, letter: str, rating: int) -> None:
    policy = always("not [[A]]; final: [[D]]", "Good: 7/10")
    run = evaluate(tmp_path, f"--env.parse_mode={mode}", rows=[*CHOICES, TIES[0]], policy=policy)
    assert run.code == 0, run.said
    assert [sample["detail"]["letters"] for sample in run.files.samples] == [[letter]] * 8 + [[]]
    assert run.files.samples[-1]["detail"]["ratings"] == [rating] * 3
    assert (
        run.metrics["rewardbench2/math"]
        == [sample["detail"]["gold"] for sample in run.files.samples].count(["A"]) / 8
    )


def test_the_defaults_reach_the_policy(tmp_path: Path) -> None:
    """And no key of a judge is asked for: the policy is the judge."""
    run = evaluate(tmp_path, rows=CHOICES[:1])
    assert run.code == 0, run.said
    (request,) = run.policy.requests
    assert (request.json["temperature"], request.json["max_tokens"]) == (0.6, 16384)
    assert request.json["model"] == "the-policy"
    assert "Authorization" not in request.headers


@pytest.mark.slow
def test_the_official_reading_knows_letters_that_were_not_shown(tmp_path: Path) -> None:
    """It always looks for A to D: such a verdict is no choice, and no crash."""
    run = evaluate(
        tmp_path,
        "--env.num_choices=2",
        "--env.swap_evaluate=True",
        "--env.parse_mode=official",
        "--env.thinking_mode=False",
        rows=[choice_row(number, wrong=1) for number in range(3)],
        policy="[[D]]",
    )
    assert run.code == 0, run.said
    assert run.metrics["percent_correct"] == 0.0
    assert run.metrics["choice_format_compliance_rate"] == 0.0
