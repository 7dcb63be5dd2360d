"""`--plan` of the verbs of an environment: what the run then asks, and what it costs; nobody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from tests.arena import Arena
from tests.billing import PRICES
from tests.command import in_process, write_lines
from tests.plans import PrintedPlan, read_plan


def planned(*words: str) -> PrintedPlan:
    return read_plan(in_process(*words).successful().out)


def test_a_plan_needs_no_key_and_takes_prices_from_the_table(tmp_path: Path) -> None:
    words = ("--openai.model_name=gpt-4.1", "--plan=100")
    plan = planned("evaluate", *Arena(tmp_path).rows(2).flags, *words)
    assert plan.models["policy"].calls.usual == 2
    assert plan.models["policy"].reply_tokens.usual == 2 * 100
    assert plan.cost


def of_prompts(tmp_path: Path, *words: str) -> list[str]:
    """The settings of a training of three prompts in groups of two."""
    rows = write_lines(
        tmp_path / "rows.jsonl", [{"prompt": f"Why {n}?", "uid": f"{n}"} for n in range(3)]
    )
    places = [f"--env.{name}_dataset={rows}" for name in ("train", "eval")]
    return [
        *places[: 1 + ("serve" in words)],
        "--env.group_size=2",
        "--env.rubric=Is it short?",
        "--plan",
    ]


def test_groups_are_those_of_the_settings(tmp_path: Path) -> None:
    words = of_prompts(tmp_path)
    plan = read_plan(
        in_process("process", *words, "--env.total_steps=7", env_type=PromptsEnv).successful().out
    )
    assert {name: each.calls.usual for name, each in plan.models.items()} == {
        "policy": 7,
        "judge": 14,
    }
    assert any("only one completion" in note for note in plan.notes)
    assert plan.words["a group"].startswith("3 calls")
    none = in_process("process", *words, "--env.total_steps=0", env_type=PromptsEnv)
    assert (none.code, none.out) == (2, "") and "--env.total_steps" in none.err


@pytest.mark.slow
def test_serve_is_planned_by_an_example_and_an_evaluation(tmp_path: Path) -> None:
    words = [*of_prompts(tmp_path, "serve"), "--env.steps_per_eval=50"]
    plan = read_plan(in_process("serve", *words, env_type=PromptsEnv).successful().out)
    assert {name: each.calls.usual for name, each in plan.models.items()} == {
        "policy": 1_000,
        "judge": 2_000,
    }
    assert any("batch size / 2" in note for note in plan.notes)
    assert plan.words["an evaluation"].startswith("6 calls, ")
    assert plan.words["an evaluation"].endswith("once in 50 steps, on top")


def test_the_gold_judge_is_counted_beside_the_budget(tmp_path: Path) -> None:
    rows = write_lines(
        tmp_path / "rows.jsonl", [{"prompt": f"Why {n}?", "uid": f"{n}"} for n in range(3)]
    )
    gold = '{"judge": "rubric", "judge_model_name": "gold"}'
    words = [
        f"--env.train_dataset={rows}",
        "--env.total_steps=4",
        "--env.rubric=Is it short?",
        "--plan",
    ]
    words += [f"--env.gold_judge={gold}", "--env.gold_share=1", "--env.budget_calls=20"]
    plan = read_plan(in_process("process", *words, env_type=PromptsEnv).successful().out)
    assert 4 <= plan.models["gold judge"].calls.usual <= 16
    assert plan.calls.usual > 20 and plan.words["budget"] == "20 calls are enough"


@pytest.mark.parametrize("price", [None, 0.1])
def test_in_a_batch_the_judge_costs_its_share_and_the_policy_all(
    tmp_path: Path, price: float | None
) -> None:
    words = [] if price is None else [f"--env.judge_batch_price={price}"]
    plan = planned("evaluate", *Arena(tmp_path).rows(2).flags, *PRICES, "--plan", *words)
    policy, judge = plan.models["policy"].cost, plan.models["judge"].cost
    assert policy is not None and judge is not None
    assert plan.cost == pytest.approx(policy + judge, rel=1e-2)
    in_batch = float(plan.words["in a batch"].removeprefix("$"))
    assert in_batch == pytest.approx(policy + (0.5 if price is None else price) * judge, rel=1e-2)
