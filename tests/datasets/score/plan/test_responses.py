"""The plan of a run that asks a policy for responses first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.counting import CountingClient
from judgegym.datasets.score.plan import Plan, Range, plan_of
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.judges.config.sources import load
from judgegym.llm.usage import count_tokens
from tests.command import serving, write_lines
from tests.datasets.scoring import score
from tests.judges.scorers.kinds import verdict
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

PROMPTS = [{"prompt": f"Question {number}: why is the sky blue?"} for number in range(3)]


def planned(data: Path, *words: str) -> Plan:
    settings = load(ScoreSettings, [f"--data={data}", *words], prog="judgegym score").settings
    out = data.with_name("scored.jsonl")
    tasks = ScoreRun(settings, str(data), out, ScoreClients(CountingClient(settings))).tasks
    return asyncio.run(plan_of(settings, tasks))


def tokens_of(endpoint: ScriptedEndpoint) -> int:
    return sum(count_tokens(message["content"]) for body in endpoint.bodies for message in body["messages"])


@pytest.mark.parametrize("takes_n", [True, False])
@pytest.mark.parametrize("kind", ["rubric", "listwise", "tournament"])
def test_calls_are_those_of_the_run_and_tokens_between_the_bounds(tmp_path: Path, kind: str, takes_n: bool) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    words = [f"--judge={kind}", "--responses_per_prompt=3", "--eval_max_tokens=50"]
    plan = planned(data, *words, *([] if takes_n else ["--openai.n_kwarg_is_ignored=true"]))

    def respond(request: Json, number: int) -> Reply:
        texts = (f"Response {number}.{place} scatters light." for place in range(request.get("n", 1)))
        return Reply(body=completion(*(texts if takes_n else [next(texts)])))

    with serving(respond) as policy, serving(verdict) as judge:
        urls = [f"--judge_base_url={judge.base_url}", f"--openai.base_url={policy.base_url}"]
        flags = [] if takes_n else ["--openai.n_kwarg_is_ignored=true"]
        ended = score(data, "--out", tmp_path / "scored.jsonl", *words, *urls, *flags)
        assert ended.code == 0, ended.said
    assert plan.policy is not None and plan.prompt_tokens.high is not None
    sent = len(policy.requests)
    assert sent == (3 if takes_n else 9)
    assert plan.policy.calls == (Range(3, 9) if takes_n else Range(9, 9))
    assert plan.policy.prompt_tokens.low == tokens_of(policy)
    assert plan.policy.completion_tokens == Range(9, 9 * 50)
    assert plan.calls == Range(len(judge.requests), len(judge.requests))
    assert plan.prompt_tokens.low <= tokens_of(judge) <= plan.prompt_tokens.high


def test_the_costs_of_both_are_added(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    words = ["--responses_per_prompt=2", "--judge_price_input=1", "--judge_price_output=1"]
    assert planned(data, *words).total_cost is None
    plan = planned(data, *words, "--openai.price_input=1", "--openai.price_output=1")
    assert plan.policy is not None and plan.policy.cost is not None and plan.cost is not None
    assert plan.total_cost == plan.cost + plan.policy.cost
