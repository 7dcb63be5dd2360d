"""Reward models in commands and the server: ledger, budget, plan, a label that is missing, preferences, `--offline`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from tests.command import serving
from tests.core.datasets.scoring import Scoring, score
from tests.core.judges.reward_models.servers import TOKENS, reward_server
from tests.judged import evaluate
from tests.plans import read_plan
from tests.scripted import Json, Reply

ROWS = [{"prompt": f"Question {number}", "response": str(number)} for number in range(4)]
RAW = ("--judge=reward_model", "--reward_scale=raw")
IN_TWOS = (*RAW, "--reward_protocol=openrlhf", "--reward_tokenizer=none", "--reward_batch=2")


@pytest.mark.parametrize(("words", "requests"), [(RAW, 4), (IN_TWOS, 2)])
def test_a_run_that_its_budget_ends_asks_no_response_again(
    tmp_path: Path, words: tuple[str, ...], requests: int
) -> None:
    protocol: Any = "vllm_classify" if words == RAW else "openrlhf"
    with serving(reward_server(protocol, float)) as judge:
        scoring = Scoring(tmp_path, judge)
        stopped = scoring(*words, "--budget_calls=1", rows=ROWS)
        assert (stopped.code, len(judge.requests)) == (3, 1)
        assert "the budget of 1 call is spent" in stopped.err
        ended = scoring(*words, "--budget_calls=9", "--resume")
        assert (ended.code, len(judge.requests)) == (0, requests), ended.said
        assert re.search("requests in flight .*at most 0", ended.err)
    assert scoring.column("judge/score") == [0.0, 1.0, 2.0, 3.0]


def test_scores_may_be_beyond_0_and_1_and_metrics_say_how_they_lie(tmp_path: Path) -> None:
    with serving(reward_server("vllm_score", lambda text: float(text) - 2.0)) as judge:
        scoring = Scoring(tmp_path, judge)
        prices = ("--judge_price_input=1000", "--judge_price_output=0")
        ended = scoring(*RAW, "--reward_protocol=vllm_score", *prices, rows=ROWS)
        assert ended.code == 0, ended.said
    assert scoring.column("judge/score") == [-2.0, -1.0, 0.0, 1.0]
    assert scoring.column("judge/detail")[0] == {"raw": -2.0}
    metrics = scoring.run.metrics
    assert (metrics["mean_score"], metrics["score_min"], metrics["score_max"]) == (-0.5, -2.0, 1.0)
    assert metrics["score_std"] == pytest.approx(1.25**0.5)
    assert metrics["judge_cost_usd"] == pytest.approx(4 * TOKENS * 1000 / 1e6)


def test_without_a_chosen_label_a_run_ends_with_one_line(tmp_path: Path) -> None:
    def classes(request: Json, number: int) -> Reply:
        return reward_server("vllm_classify", lambda text: [0.25, 4.0])(request, number)

    line = r"reward_label: .*2 classes, 0 to 1 .*highest is 1, 'LABEL_0'\); expected the index"
    with serving(classes) as judge:
        scoring = Scoring(tmp_path, judge)
        ended = scoring(*RAW, rows=ROWS)
        assert (ended.code, "Traceback" in ended.said, scoring.out.exists()) == (2, False, False)
        assert re.match(f"--{line}", ended.err.splitlines()[-1])
        assert scoring(*RAW, "--reward_label=9", "--out", tmp_path / "other.jsonl").code == 2
    evaluation = evaluate(
        PromptsEnv,
        tmp_path,
        "--env.judge=reward_model",
        rows=[{"prompt": "Why?"}],
        judge=classes,
        policy="Since it is so.",
    )
    assert evaluation.code == 2
    assert re.search(rf"--env\.{line}", evaluation.said)


@pytest.mark.parametrize(("words", "calls"), [((*RAW, "--reward_label=2"), 4), (IN_TWOS, 2)])
def test_a_plan_counts_requests_and_no_reply_tokens(
    tmp_path: Path, words: tuple[str, ...], calls: int
) -> None:
    with serving(reward_server("vllm_classify", float)) as judge:
        plan = Scoring(tmp_path, judge)(*words, "--plan", rows=ROWS)
    assert (plan.code, judge.requests) == (0, []), plan.said
    (model,) = read_plan(plan.out).models.values()
    assert (model.calls.usual, model.reply_tokens.usual) == (calls, 0)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (
            "--judge_temperature=0.5",
            r"--judge_temperature \(command line\): .*--judge=reward_model",
        ),
        (
            "--judge_system_prompt=Judge.",
            r"--judge_system_prompt \(command line\): .*--judge=reward_model",
        ),
        (
            "--reward_protocol=openrlhf",
            "--reward_tokenizer: reward_protocol=openrlhf sends texts; expected the token",
        ),
    ],
)
def test_what_a_reward_model_does_not_read_is_refused(tmp_path: Path, flag: str, said: str) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(ROWS[0]))
    ended = score(data, "--out", tmp_path / "out.jsonl", "--offline", *RAW, flag)
    assert ended.code == 2 and re.match(said, ended.err.splitlines()[-1]), ended.err


@pytest.mark.parametrize(
    "protocol", ["vllm_classify", "vllm_score", "vllm_pooling", "sglang_classify", "openrlhf"]
)
def test_the_stand_in_answers_all_protocols(tmp_path: Path, protocol: str) -> None:
    data = tmp_path / "data.jsonl"
    rows = [
        {
            "prompt": "Why is the sky blue?",
            "responses": ["Air scatters the blue light of the sun.", "No."],
        }
    ]
    data.write_text("\n".join(map(json.dumps, rows)))
    text = ["--reward_tokenizer=none"] if protocol in ("sglang_classify", "openrlhf") else []
    words = ["--judge=reward_model", f"--reward_protocol={protocol}", *text]
    ended = score(data, "--out", tmp_path / "out.jsonl", "--offline", *words)
    assert ended.code == 0, ended.said
    (row,) = _scores(tmp_path / "out.jsonl")
    assert 1 > row[0] > row[1] > 0


def _scores(path: Path) -> list[list[float]]:
    return [json.loads(line)["judge/score"] for line in path.read_text().splitlines()]
