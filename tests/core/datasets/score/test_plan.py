"""A plan against the run that it is the plan of: the same calls, and the same tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from judgegym.datasets.score import plan as planning
from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.counting import CountingClient
from judgegym.datasets.score.plan import Plan, Range, plan_lines, plan_of
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.estimates import cost_words
from judgegym.engine.runs.directory import run_directory_of
from judgegym.judges.config.sources import load
from judgegym.judges.scorers.registry import JudgeKind
from judgegym.llm.usage import count_tokens
from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import score
from tests.core.judges.scorers.kinds import FAIR, GOOD, ITEMS, KINDS, POOR, verdict
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

QUESTIONS = ("Why is the sky blue?", "What is light?", "Why is the sky blue?", "Why is the sea blue?")
EXACT: Sequence[Sequence[str]] = [
    ["--judge=rubric", "--samples_per_item=3"],
    ["--judge=rubric", "--judge_output=json_schema", "--rubric=Is it short?"],
    ["--judge=aspect", "--aspects=correctness,coherence"],
    ["--judge=aspect", "--aspects=correctness", "--strictness=5", "--scoring=share"],
    ["--judge=peer", "--judge_system_prompt=Judge well."],
    ["--judge=arena_hard"],
    ["--judge=choice"],
    ["--judge=listwise", "--listwise_orders=2"],
    ["--judge=listwise", "--judge_max_input_tokens=900"],
    ["--judge=tournament"],
    ["--judge=tournament", "--tournament_game=choice", "--schedule=circular"],
]


def rows_of(kind: JudgeKind) -> Sequence[Mapping[str, JSON]]:
    """Rows of which one is equal to another, and some responses are empty or equal."""
    if len(ITEMS[kind].responses) > 1:
        responses = [[GOOD, POOR, FAIR], [GOOD, "", POOR, GOOD], [GOOD, POOR, FAIR], [GOOD, GOOD, " "]]
        return [{"prompt": asked, "responses": given} for asked, given in zip(QUESTIONS, responses, strict=True)]
    texts = [(asked, text) for asked in QUESTIONS for text in (GOOD, POOR, "")]
    return [{"prompt": asked, "response": text, "baseline": FAIR} for asked, text in texts]


def planned(data: Path, words: Sequence[str], run: Path | None = None) -> Plan:
    settings = load(ScoreSettings, [f"--data={data}", *words], prog="judgegym score").settings
    tasks = ScoreRun(settings, str(data), data.with_name("scored.jsonl"), ScoreClients(CountingClient(settings))).tasks
    return asyncio.run(plan_of(settings, tasks, run=run))


def kind_of(words: Sequence[str]) -> JudgeKind:
    return next(kind for kind in KINDS if f"--judge={kind}" in words)


def sent(judge: ScriptedEndpoint) -> tuple[int, int]:
    """The requests that have arrived, and the tokens of their prompts."""
    prompts = (message["content"] for body in judge.bodies for message in body["messages"])
    return len(judge.requests), sum(map(count_tokens, prompts))


def run(data: Path, words: Sequence[str], script: Callable[[Json, int], str] = verdict) -> tuple[int, int]:
    out = data.with_name("scored.jsonl")
    with serving(script) as judge:
        ended = score(data, "--out", out, f"--judge_base_url={judge.base_url}", *words)
        assert ended.code == 0, ended.said
    return sent(judge)


@pytest.mark.slow
@pytest.mark.parametrize("words", EXACT, ids=" ".join)
def test_calls_and_prompt_tokens_are_those_of_the_run(tmp_path: Path, words: Sequence[str]) -> None:
    data = write_lines(tmp_path / "data.jsonl", rows_of(kind_of(words)))
    plan = planned(data, words)
    calls, tokens = run(data, words)
    assert (plan.judge.calls, plan.judge.prompt_tokens) == (Range(calls, calls), Range(tokens, tokens))
    assert plan.judge.completion_tokens == Range(calls, 4096 * calls)
    assert (plan.rows, plan.equal) == (len(rows_of(kind_of(words))), 1 if plan.rows == 4 else 3)


@pytest.mark.slow
@pytest.mark.parametrize("agree", [True, False])
def test_votes_that_agree_are_the_fewest_calls_and_votes_that_differ_the_most(tmp_path: Path, agree: bool) -> None:
    words = ["--judge=aspect", "--aspects=correctness,coherence", "--strictness=5"]
    data = write_lines(tmp_path / "data.jsonl", rows_of("aspect"))

    def vote(request: Json, number: int) -> str:
        return f'{{"reason": "-", "verdict": {0 if agree else request["seed"] % 2}}}'

    plan = planned(data, words)
    calls, tokens = run(data, words, vote)
    assert not plan.judge.calls.is_exact
    if agree:
        assert (plan.judge.calls.low, plan.judge.prompt_tokens.low) == (calls, tokens)
    else:
        assert (plan.judge.calls.high, plan.judge.prompt_tokens.high) == (calls, tokens)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rubric", "aspect", "peer", "arena_hard", "choice"])
def test_self_critique_is_between_the_bounds(tmp_path: Path, kind: JudgeKind) -> None:
    words = [f"--judge={kind}", "--judge_critique_rounds=3"]
    data = write_lines(tmp_path / "data.jsonl", rows_of(kind))
    plan = planned(data, words)
    calls, tokens = run(data, words)
    assert plan.judge.calls.high is not None and plan.judge.prompt_tokens.high is not None
    assert 0 < plan.judge.calls.low <= calls <= plan.judge.calls.high
    assert plan.judge.prompt_tokens.low <= tokens <= plan.judge.prompt_tokens.high


@pytest.mark.slow
def test_the_calls_of_a_swiss_tournament_are_those_of_the_run(tmp_path: Path) -> None:
    words = ["--judge=tournament", "--schedule=swiss"]
    data = write_lines(tmp_path / "data.jsonl", rows_of("tournament"))
    plan = planned(data, words)
    calls, _ = run(data, words)
    assert plan.judge.calls == Range(calls, calls)
    assert any("swiss" in note for note in plan.notes)


@pytest.mark.slow
def test_many_units_are_counted_by_a_sample_and_their_calls_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"prompt": f"Question {number:03}", "response": GOOD} for number in range(300)]
    data = write_lines(tmp_path / "data.jsonl", rows)
    whole = planned(data, ["--judge=rubric"])
    monkeypatch.setattr(planning, "UNITS_COUNTED", 20)
    plan = planned(data, ["--judge=rubric"])
    assert (plan.judge.calls, plan.counted, plan.tasks) == (Range(300, 300), 20, 300)
    assert plan.judge.prompt_tokens == whole.judge.prompt_tokens  # the prompts are of one length
    assert any("(counted on 20 of 300)" in line for line in plan_lines(plan))


@pytest.mark.slow
def test_calls_that_depend_on_texts_are_an_average_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"prompt": f"{number}", "responses": [GOOD, GOOD, POOR]} for number in range(30)]
    data = write_lines(tmp_path / "data.jsonl", rows)
    monkeypatch.setattr(planning, "UNITS_GONE_THROUGH", 10)
    plan = planned(data, ["--judge=tournament"])
    assert (plan.judge.calls, plan.estimated_calls) == (Range(60, 60), 20)


@pytest.mark.slow
def test_costs_and_times(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": f"{n}", "response": GOOD} for n in range(100)])
    prices = ["--judge_price_input=2", "--judge_price_output=10", "--judge_price_cached_input=1"]
    plan = planned(data, [*prices, "--judge_max_tokens=1000", "--judge_requests_per_minute=10"])
    tokens = plan.judge.prompt_tokens.low
    assert plan.judge.cost == Range((tokens + 100 * 10) / 1e6, (2 * tokens + 100 * 1000 * 10) / 1e6)
    assert plan.rate_seconds == 540  # ten go at once
    assert planned(data, ["--judge_model_name=unlisted"]).judge.cost is None
    assert planned(data, [*prices, "--judge_max_tokens=0"]).judge.cost == Range((tokens + 100 * 10) / 1e6, None)


@pytest.mark.slow
def test_what_an_earlier_part_of_the_run_has_is_taken_off(tmp_path: Path) -> None:
    words = ["--judge=rubric", "--samples_per_item=2", "--judge_max_concurrency=1"]
    rows = [{"prompt": f"Question {number}", "response": GOOD} for number in range(10)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    with serving(verdict) as judge:
        flags = ["--out", out, f"--judge_base_url={judge.base_url}", *words]
        assert score(data, *flags, "--budget_calls=7").code == 3
        before = {path: path.read_bytes() for path in run_directory_of(out).iterdir()}
        plan = planned(data, words, run_directory_of(out))
        assert {path: path.read_bytes() for path in run_directory_of(out).iterdir()} == before
        assert (plan.judge.calls, plan.earlier.paid[False], plan.earlier.tokens[False]) == (Range(13, 13), 7, 35)
        assert plan.tasks + plan.earlier.judged == 10
        assert score(data, *flags, "--resume").code == 0
        assert len(judge.requests) == 7 + 13
    assert planned(data, words, run_directory_of(out)).judge.calls == Range(0, 0)


@pytest.mark.slow
def test_the_command_prints_a_plan_and_asks_nobody(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", rows_of("arena_hard"))
    with serving(verdict) as judge:
        words = [data, "--judge=arena_hard", f"--judge_base_url={judge.base_url}", "--plan", "--budget_calls=3"]
        ended = score(*words, "--out", tmp_path / "scored.parquet")
        assert (ended.code, len(judge.requests)) == (0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl"]
    assert "judge calls          12\n" in ended.out and "3 calls are not enough" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    assert score(data, "--plan").out.splitlines()[0] == "rows                 12"
    wrong = score(data, "--plan", "--judge=choice")
    assert (wrong.code, wrong.out) == (2, "")


@pytest.mark.slow
def test_a_plan_writes_nothing_so_what_is_there_is_not_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write_lines(tmp_path / "data.jsonl", [{"prompt": "p", "response": "r"}])
    assert score(rows, "--out", "scored.jsonl", "--offline").code == 0
    for words in ((rows,), (rows, "--out=scored.jsonl"), ("scored.jsonl", "--rescore")):
        ended = score(*words, "--plan")
        assert (ended.code, "judge calls          1\n" in ended.out) == (0, True), ended.said


PROMPTS = [{"prompt": f"Question {number}: why is the sky blue?"} for number in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("takes_n", [True, False])
@pytest.mark.parametrize("kind", ["rubric", "listwise", "tournament"])
def test_calls_are_those_of_the_run_and_tokens_between_the_bounds(tmp_path: Path, kind: str, takes_n: bool) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    words = [f"--judge={kind}", "--responses_per_prompt=3", "--eval_max_tokens=50"]
    plan = planned(data, words)

    def respond(request: Json, number: int) -> Reply:
        texts = (f"Response {number}.{place} scatters light." for place in range(request.get("n", 1)))
        return Reply(body=completion(*(texts if takes_n else [next(texts)])))

    with serving(respond) as policy, serving(verdict) as judge:
        urls = [f"--judge_base_url={judge.base_url}", f"--openai.base_url={policy.base_url}"]
        ended = score(data, "--out", tmp_path / "scored.jsonl", *words, *urls)
        assert ended.code == 0, ended.said
    assert plan.policy is not None and plan.judge.prompt_tokens.high is not None
    calls, tokens = sent(policy)
    assert calls == (3 if takes_n else 9)
    assert plan.policy.calls == Range(3, 9)
    assert (plan.policy.prompt_tokens.low if takes_n else plan.policy.prompt_tokens.high) == tokens
    assert plan.policy.completion_tokens == Range(9, 9 * 50)
    assert plan.judge.calls == Range(len(judge.requests), len(judge.requests))
    assert plan.judge.prompt_tokens.low <= sent(judge)[1] <= plan.judge.prompt_tokens.high


def test_the_costs_of_both_are_added(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    words = ["--responses_per_prompt=2", "--judge_price_input=1", "--judge_price_output=1"]
    assert planned(data, [*words, "--openai.model_name=unlisted"]).whole.cost is None
    plan = planned(data, [*words, "--openai.price=input=1,output=1"])
    assert plan.policy is not None and plan.policy.cost is not None and plan.judge.cost is not None
    assert plan.whole.cost == plan.judge.cost + plan.policy.cost


@pytest.mark.parametrize(
    ("words", "share"), [([], 0.5), (["--judge_batch=folder"], 1.0), (["--judge_batch_price=0"], 0)]
)
def test_in_a_batch_the_judge_costs_its_share_and_the_policy_all(
    tmp_path: Path, words: Sequence[str], share: float
) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    prices = ["--judge_price_input=1000", "--judge_price_output=1000", "--openai.price=input=1000,output=1000"]
    given = [*prices, "--responses_per_prompt=2", *words]
    plan = planned(data, given)
    assert plan.policy is not None and plan.policy.cost is not None and plan.judge.cost is not None
    cost = plan.policy.cost + plan.judge.cost.times(share)
    (line,) = (line for line in plan_lines(plan) if line.startswith("in a batch"))
    assert line.removeprefix("in a batch").strip() == cost_words(cost, "")
