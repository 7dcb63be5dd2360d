"""A plan against the run that it is the plan of: the same calls, and the same tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from judgegym.engine.plan import estimate as estimating
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.judges.scorers.settings import JudgeKind
from judgegym.llm.usage import count_tokens
from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import score
from tests.core.judges.scorers.kinds import FAIR, GOOD, ITEMS, KINDS, POOR, verdict
from tests.plans import Count, PrintedPlan, read_plan
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

QUESTIONS = (
    "Why is the sky blue?",
    "What is light?",
    "Why is the sky blue?",
    "Why is the sea blue?",
)
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
        responses = [
            [GOOD, POOR, FAIR],
            [GOOD, "", POOR, GOOD],
            [GOOD, POOR, FAIR],
            [GOOD, GOOD, " "],
        ]
        return [
            {"prompt": asked, "responses": given}
            for asked, given in zip(QUESTIONS, responses, strict=True)
        ]
    texts = [(asked, text) for asked in QUESTIONS for text in (GOOD, POOR, "")]
    return [{"prompt": asked, "response": text, "baseline": FAIR} for asked, text in texts]


def planned(data: Path, words: Sequence[str]) -> PrintedPlan:
    return read_plan(score(data, *words, "--plan").successful().out)


def kind_of(words: Sequence[str]) -> JudgeKind:
    return next(kind for kind in KINDS if f"--judge={kind}" in words)


def sent(judge: ScriptedEndpoint) -> tuple[int, int]:
    """The requests that have arrived, and the tokens of their prompts."""
    prompts = (message["content"] for body in judge.bodies for message in body["messages"])
    return len(judge.requests), sum(map(count_tokens, prompts))


def run(
    data: Path, words: Sequence[str], script: Callable[[Json, int], str] = verdict
) -> tuple[int, int]:
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
    assert (plan.calls, plan.prompt_tokens) == (Count(calls, calls, calls), tokens)
    assert plan.models["judge"].reply_tokens.usual == 500 * calls
    assert plan.words["rows"] == f"{len(rows_of(kind_of(words)))}"


def test_what_a_plan_counts_is_what_a_judge_is_sent(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", rows_of("peer")[:2])
    plan = planned(data, ["--judge=peer"])
    calls, tokens = run(data, ["--judge=peer"])
    assert (plan.calls, plan.prompt_tokens) == (Count(calls, calls, calls), tokens)


@pytest.mark.slow
@pytest.mark.parametrize("agree", [True, False])
def test_votes_that_agree_are_the_fewest_calls_and_votes_that_differ_the_most(
    tmp_path: Path, agree: bool
) -> None:
    words = ["--judge=aspect", "--aspects=correctness,coherence", "--strictness=5"]
    data = write_lines(tmp_path / "data.jsonl", rows_of("aspect"))

    def vote(request: Json, number: int) -> str:
        return f'{{"reason": "-", "verdict": {0 if agree else request["seed"] % 2}}}'

    plan = planned(data, words)
    calls, tokens = run(data, words, vote)
    prompts = plan.models["judge"].prompt_tokens
    assert plan.calls.low < plan.calls.high and any("In brackets" in note for note in plan.notes)
    assert (calls, tokens) == (
        (plan.calls.low, prompts.low) if agree else (plan.calls.high, prompts.high)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rubric", "aspect", "peer", "arena_hard", "choice"])
def test_self_critique_is_between_the_bounds(tmp_path: Path, kind: JudgeKind) -> None:
    words = [f"--judge={kind}", "--judge_critique_rounds=3"]
    data = write_lines(tmp_path / "data.jsonl", rows_of(kind))
    plan = planned(data, words)
    calls, _ = run(data, words)
    assert 0 < plan.calls.low <= calls <= plan.calls.high


@pytest.mark.slow
def test_a_sample_of_many_rows_stands_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"prompt": f"Question {number:03}", "response": GOOD} for number in range(300)]
    data = write_lines(tmp_path / "data.jsonl", rows)
    whole = planned(data, ["--judge=rubric"])
    monkeypatch.setattr(estimating, "ROWS", 20)
    plan = planned(data, ["--judge=rubric"])
    assert plan.calls == whole.calls == Count(300, 300, 300)
    assert plan.prompt_tokens == whole.prompt_tokens  # the prompts are of one length
    assert any("Counted on 20 of 300" in note for note in plan.notes)


def test_costs_budgets_and_times(tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "data.jsonl", [{"prompt": f"{n}", "response": GOOD} for n in range(10)]
    )
    prices = ["--judge_price_input=2000", "--judge_price_output=10000"]
    plan = planned(
        data, [*prices, "--judge_max_tokens=100", "--judge_requests_per_minute=5", "--budget_usd=3"]
    )
    assert plan.cost == pytest.approx(
        (2000 * plan.prompt_tokens + 10 * 100 * 10000) / 1e6, abs=0.01
    )
    assert plan.words["budget"] == "$3 are not enough"
    assert plan.words["least time"].startswith("60 s ")  # five go at once
    assert "per minute" in plan.words["least time"]
    short = read_plan(score(data, *prices, "--budget_calls=10", "--plan=20").successful().out)
    assert (short.models["judge"].reply_tokens.usual, short.words["budget"]) == (
        20 * 10,
        "10 calls are enough",
    )
    unknown = planned(data, ["--judge_model_name=unlisted"])
    assert unknown.cost is None and unknown.words["cost"] == "unknown"
    assert "set --judge_price_input" in score(data, "--judge_model_name=unlisted", "--plan").out


@pytest.mark.slow
def test_what_an_earlier_part_of_the_run_has_is_taken_off(tmp_path: Path) -> None:
    words = ["--judge=rubric", "--samples_per_item=2", "--judge_max_concurrency=1"]
    rows = [{"prompt": f"Question {number}", "response": GOOD} for number in range(10)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    with serving(verdict) as judge:
        flags = ["--out", f"{out}", f"--judge_base_url={judge.base_url}", *words]
        assert score(data, *flags, "--budget_calls=7").code == 3
        before = {path: path.read_bytes() for path in locate_run_directory(out).iterdir()}
        plan = planned(data, [*flags, "--resume", "--budget_calls=19"])
        assert {path: path.read_bytes() for path in locate_run_directory(out).iterdir()} == before
        assert plan.calls == Count(13, 13, 13)
        assert plan.words["budget"] == "19 calls are not enough", "seven are spent"
        assert plan.words["assumed"].startswith("a judge's reply of 5 tokens"), (
            "as long as those so far"
        )
        assert score(data, *flags, "--resume").code == 0
        assert len(judge.requests) == 7 + 13
        assert planned(data, [*flags, "--resume"]).calls == Count(0, 0, 0)


@pytest.mark.slow
def test_the_command_prints_a_plan_and_asks_nobody(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", rows_of("arena_hard"))
    with serving(verdict) as judge:
        words = [
            data,
            "--judge=arena_hard",
            f"--judge_base_url={judge.base_url}",
            "--plan",
            "--budget_calls=3",
        ]
        ended = score(*words, "--out", tmp_path / "scored.parquet")
        assert (ended.code, len(judge.requests)) == (0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl"]
    plan = read_plan(ended.out)
    assert (plan.calls.usual, plan.words["budget"]) == (12, "3 calls are not enough")
    wrong = score(data, "--plan", "--judge=choice")
    assert (wrong.code, wrong.out) == (2, "")


def test_an_endpoint_that_needs_a_key_is_planned_without_one(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": "p", "response": "r"}])
    words = [data, "--judge_base_url=https://api.openai.com/v1", "--judge_model_name=gpt-4.1"]
    refused = score(*words, "--out", tmp_path / "scored.jsonl")
    assert "--judge_api_key_env: api.openai.com" in refused.err and "API key" in refused.err
    plan = read_plan(score(*words, "--plan").successful().out)
    assert plan.calls.usual == 1 and plan.cost


@pytest.mark.slow
def test_a_plan_writes_nothing_so_what_is_there_is_not_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write_lines(tmp_path / "data.jsonl", [{"prompt": "p", "response": "r"}])
    assert score(rows, "--out", "scored.jsonl", "--offline").code == 0
    for words in ((rows,), (rows, "--out=scored.jsonl"), ("scored.jsonl", "--rescore")):
        ended = score(*words, "--plan")
        assert (ended.code, read_plan(ended.out).calls.usual) == (0, 1), ended.said


def test_a_judgment_cache_is_read_and_not_written(tmp_path: Path) -> None:
    data, cache = (
        write_lines(tmp_path / "data.jsonl", rows_of("peer")[:1]),
        tmp_path / "cache.sqlite",
    )
    words = ["--judge=peer", f"--judge_cache={cache}"]
    assert planned(data, words).calls.usual == 1 and not cache.exists()
    with serving(verdict) as judge:
        urls = [*words, f"--judge_base_url={judge.base_url}"]
        assert score(data, "--out", tmp_path / "scored.jsonl", *urls).code == 0
    assert planned(data, urls).calls.usual == 0


PROMPTS = [{"prompt": f"Question {number}: why is the sky blue?"} for number in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rubric", "listwise", "tournament"])
def test_responses_of_a_policy_are_as_long_as_assumed(tmp_path: Path, kind: str) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    words = [f"--judge={kind}", "--responses_per_prompt=3"]

    def respond(request: Json, number: int) -> Reply:
        texts = (f"Response {number}.{place} ".ljust(200, "x") for place in range(request["n"]))
        return Reply(body=completion(*texts))

    with serving(respond) as policy, serving(verdict) as judge:
        urls = [f"--judge_base_url={judge.base_url}", f"--openai.base_url={policy.base_url}"]
        plan = read_plan(score(data, *words, *urls, "--plan=50").successful().out)
        assert not policy.requests + judge.requests
        assert score(data, "--out", tmp_path / "scored.jsonl", *words, *urls).code == 0
    of_policy, of_judge = plan.models["policy"], plan.models["judge"]
    assert (of_policy.calls.usual, of_policy.prompt_tokens.usual) == sent(policy)
    assert of_policy.reply_tokens.usual == 9 * 50
    calls, tokens = sent(judge)
    assert of_judge.calls.usual == calls
    assert of_judge.prompt_tokens.usual == pytest.approx(tokens, rel=0.02)


def test_the_costs_of_both_are_added(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    words = ["--responses_per_prompt=2", "--judge_price_input=1000", "--judge_price_output=1000"]
    assert planned(data, [*words, "--openai.model_name=unlisted"]).cost is None
    plan = planned(data, [*words, "--openai.price=input=1000,output=1000"])
    costs = [model.cost for model in plan.models.values()]
    assert plan.cost == pytest.approx(sum(filter(None, costs)), abs=0.02) and None not in costs


@pytest.mark.parametrize(
    ("words", "share"),
    [([], 0.5), (["--judge_batch_price=0"], 0.0), (["--judge_batch=openai"], None)],
)
def test_in_a_batch_the_judge_costs_its_share_and_the_policy_all(
    tmp_path: Path, words: Sequence[str], share: float | None
) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    prices = [
        "--judge_price_input=1000",
        "--judge_price_output=1000",
        "--openai.price=input=1000,output=1000",
    ]
    live = planned(data, [*prices, "--responses_per_prompt=2"])
    plan = planned(data, [*prices, "--responses_per_prompt=2", *words])
    policy, judge = live.models["policy"].cost, live.models["judge"].cost
    assert policy is not None and judge is not None and plan.cost is not None
    if share is None:  # it is a run in batches
        assert (
            plan.cost == pytest.approx(policy + 0.5 * judge, abs=0.02)
            and "in a batch" not in plan.words
        )
    else:
        in_batch = float(plan.words["in a batch"].removeprefix("$"))
        assert in_batch == pytest.approx(policy + share * judge, abs=0.02)


RUBRICS = '{"a": {"judge": "rubric"}, "b": {"judge": "rubric"}}'
VOTING = (
    '{"a": {"judge": "aspect", "aspects": "correctness", "strictness": 3}, "b": {"judge": '
    '"rubric"}}'
)
JURY = '{"a": {"judge": "jury", "judges": ["a", "b", "c"]}, "b": {"judge": "rubric"}}'
SURE = '{"a": {"judge": "rubric", "weighting": "logprobs"}, "b": {"judge": "rubric"}}'
REWARDED = '{"a": {"judge": "reward_model"}, "b": {"judge": "rubric"}}'
GAMES = '{"a": {"judge": "arena_hard"}, "b": {"judge": "arena_hard"}}'
GATED = '{"gate": {"judge": "rubric", "gate": 0.5}, "other": {"judge": "rubric"}}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        ([f"--cascade={RUBRICS}"], 1, 2),
        ([f"--cascade={VOTING}", "--cascade_confidence=votes"], 2, 4),
        ([f"--cascade={JURY}", "--cascade_confidence=members"], 3, 4),
        ([f"--cascade={SURE}", "--cascade_confidence=probability"], 1, 2),
        ([f"--cascade={REWARDED}"], 1, 2),
        ([f"--cascade={GAMES}", "--cascade_confidence=orders"], 2, 4),
        (["--judge=composite", f"--reward={GATED}"], 1, 2),
        (["--judge=rubric", "--samples_per_item=3", "--judge_critique_rounds=3"], 6, 12),
    ],
    ids=["margin", "votes", "members", "probability", "rewards", "orders", "gate", "critique"],
)
def test_bounds_are_what_verdicts_can_make_of_it(
    tmp_path: Path, words: Sequence[str], low: int, high: int
) -> None:
    row = {"prompt": "Why?", "response": "Because of the tide.", "baseline": "It is so."}
    threshold = (
        ["--cascade_threshold=0.5", "--cascade_recheck=0"] if "--cascade" in words[0] else []
    )
    plan = planned(write_lines(tmp_path / "data.jsonl", [row]), [*words, *threshold])
    assert (plan.calls.low, plan.calls.high) == (low, high)
    assert low <= plan.calls.usual <= high
