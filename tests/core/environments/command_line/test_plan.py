"""`--plan` of the verbs of an environment: what the run then asks, and what it costs; nobody is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.arena import Arena
from tests.billing import LONGEST, PRICES, Provider
from tests.command import in_process, serving


def number_of(said: str, label: str) -> int:
    found = re.search(rf"^{label} +([\d,]+)", said, re.MULTILINE)
    assert found is not None, said
    return int(found[1].replace(",", ""))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_calls_are_those_of_the_run_and_its_cost_at_most_that(tmp_path: Path, verb: str) -> None:
    arena = Arena(tmp_path).rows(5)
    places = {"evaluate": "data_dir_to_save_evals", "process": "data_path_to_save_groups"}
    words = [verb, *arena.flags, f"--env.{places[verb]}={tmp_path / 'run.jsonl'}", *PRICES]
    words += [f"--env.eval_max_tokens={LONGEST}"] if verb == "evaluate" else [f"--env.train_max_tokens={LONGEST}"]
    words += ["--env.total_steps=5"] if verb == "process" else []
    with serving(provider := Provider(0, faults=False)) as endpoint:
        urls = [f"--openai.base_url={endpoint.base_url}", f"--env.judge_base_url={endpoint.base_url}"]
        plan = in_process(*words, *urls, "--plan", "--env.budget_calls=3")
        assert (plan.code, endpoint.requests) == (0, []), plan.said
        assert not (tmp_path / "run.jsonl").exists()
        assert in_process(*words, *urls).code == 0
        assert number_of(plan.out, "policy calls") + number_of(plan.out, "judge calls") == len(endpoint.requests)
    most = re.search(r"^cost +about \$[\d.]+, at most \$([\d.]+)", plan.out, re.MULTILINE)
    assert most is not None and provider.usd <= 4 * float(most[1])  # it bills up to a token a byte
    assert "3 calls are not enough" in plan.out and max(map(len, plan.out.splitlines())) <= 80


def test_a_plan_needs_no_key_and_takes_prices_from_the_table(tmp_path: Path) -> None:
    words = ("--openai.model_name=gpt-4.1", "--plan=100")
    plan = in_process("evaluate", *Arena(tmp_path).rows(2).flags, *words)
    assert plan.code == 0, plan.said
    assert number_of(plan.out, "policy calls") == 2
    assert re.search(r"^cost +about \$0\.\d+, at most \$\d", plan.out, re.MULTILINE), plan.out


@pytest.mark.parametrize(("batch", "share"), [("", 0.5), ("openai", 0.5), ("folder", 1.0), ("priced", 0.1)])
def test_in_a_batch_the_judge_costs_its_share_and_the_policy_all(tmp_path: Path, batch: str, share: float) -> None:
    kind = "openai" if batch == "priced" else batch
    words = [f"--env.judge_batch={kind}"] if kind else []
    words += [f"--env.judge_batch_folder={tmp_path}"] if kind == "folder" else []
    words += [f"--env.judge_batch_price={share}"] if batch == "priced" else []
    plan = in_process("evaluate", *Arena(tmp_path).rows(2).flags, *PRICES, "--plan", *words)
    assert plan.code == 0, plan.said
    policy, judge, whole, in_batch = map(
        float, re.findall(r"^(?:  cost|cost|in a batch) +about \$([\d.]+)", plan.out, re.M)
    )
    assert whole == pytest.approx(policy + judge, rel=1e-2)
    assert in_batch == pytest.approx(policy + share * judge, rel=1e-2)
