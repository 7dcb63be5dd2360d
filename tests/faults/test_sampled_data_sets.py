"""`judgegym score --responses_per_prompt` while processes and endpoints fail: nothing is asked for twice, or lost."""

from __future__ import annotations

import random
import re
import signal
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.command import Started, serving, write_lines
from tests.core.datasets.scoring import rated, read_rows, score
from tests.forking import ROOT
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

PROMPTS = [{"id": n, "prompt": f"Question {n}?"} for n in range(20)]
RESPONSES, AT_ONCE = 3, 4
SCRIPT = ROOT / "judgegym" / "__main__.py"


def by_text(response: str) -> Reply:
    """A rating that is a function of the response, after 10 ms, so that a moment in mid-run can be met."""
    return Reply(
        text=f"[FEEDBACK] Because. [SCORE] {zlib.crc32(response.encode()) % 5 + 1}", delay_s=0.01
    )


def responses(request: Json, number: int) -> Reply:
    """Responses that are a function of the prompt and the place."""
    question = request["messages"][-1]["content"]
    return Reply(
        body=completion(*(f"Response {k} to {question}" for k in range(request["n"]))), delay_s=0.01
    )


def words_of(data: Path, out: Path, policy: ScriptedEndpoint, judge: ScriptedEndpoint) -> list[str]:
    limits = [
        f"--judge_max_concurrency={AT_ONCE}",
        f"--openai.num_requests_for_eval={AT_ONCE}",
        "--retry_delay=0",
    ]
    urls = [f"--judge_base_url={judge.base_url}", f"--openai.base_url={policy.base_url}"]
    return [str(data), f"--out={out}", f"--responses_per_prompt={RESPONSES}", *urls, *limits]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments_it_asks_neither_twice_but_for_what_was_in_flight(
    tmp_path: Path, seed: int
) -> None:
    numbers, data = random.Random(seed), write_lines(tmp_path / "data.jsonl", PROMPTS)
    with serving(responses) as policy, serving(rated(by_text)) as judge:
        whole = tmp_path / "whole.jsonl"
        assert score(*words_of(data, whole, policy, judge)).code == 0
    out, stops = tmp_path / "scored.jsonl", [signal.SIGKILL, signal.SIGINT, signal.SIGKILL]
    with serving(responses) as policy, serving(rated(by_text)) as judge:
        words = words_of(data, out, policy, judge)
        for number, stop in enumerate(stops):
            after = len(policy.requests) + len(judge.requests) + numbers.randint(1, 20)
            again = ["--resume"] if number else []
            with Started(str(SCRIPT), "score", *words, *again, cwd=tmp_path) as started:
                arrived = lambda after=after: len(policy.requests) + len(judge.requests) >= after  # noqa: E731
                started.until(arrived, f"request {after}")
                started.send(stop)
                assert started.ended().code == (-stop if stop is signal.SIGKILL else 128 + stop)
            assert not out.exists()
        ended = score(*words, "--resume")
        assert ended.code == 0, ended.said
        asked = [
            Counter(request.raw for request in endpoint.requests) for endpoint in (policy, judge)
        ]
    assert out.read_bytes() == whole.read_bytes()
    for once, of_one in zip((len(PROMPTS), RESPONSES * len(PROMPTS)), asked, strict=True):
        assert len(of_one) == once
        assert of_one.total() <= once + AT_ONCE * len(stops)
    assert max(policy.peak, judge.peak) <= AT_ONCE


def test_a_fifth_of_the_responses_fails_for_good_and_leaves_its_siblings(tmp_path: Path) -> None:
    """The endpoint ignores `n`, so that each response is a request of its own."""

    def one(request: Json, number: int) -> Reply | str:
        question = int(re.findall(r"\d+", request["messages"][-1]["content"])[0])
        if number % 5 == 0 and request.get("n", 1) == 1 and question:
            return Reply(status=400, body={"error": {"message": "refused"}})
        return f"Response {number} to question {question}"

    data, out = write_lines(tmp_path / "data.jsonl", PROMPTS), tmp_path / "scored.jsonl"
    with serving(one) as policy, serving(rated(by_text)) as judge:
        ended = score(*words_of(data, out, policy, judge))
        assert ended.code == 1
        rows: list[Any] = list(read_rows(out))
        failed = sum(row["judge/status"].count("policy_failed") for row in rows)
        assert 0 < failed < 2 * len(PROMPTS)
        assert len(judge.requests) == RESPONSES * len(PROMPTS) - failed
    for row in rows:
        for text, status, number in zip(
            row["policy/response"], row["judge/status"], row["judge/score"], strict=True
        ):
            assert (text is None) == (number is None) == (status == "policy_failed")
            assert text is None or text.endswith(f"to question {row['id']}")


def test_a_policy_that_is_down_ends_the_run_early(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", PROMPTS * 5), tmp_path / "scored.jsonl"
    down = Reply(status=401, body={"error": {"message": "no such key"}})
    with serving(down) as policy, serving(rated(by_text)) as judge:
        ended = score(*words_of(data, out, policy, judge))
    assert ended.code == 1
    rejected = (
        rf"the policy at {re.escape(policy.base_url)} rejected .*\d requests: HTTP 401: no such key"
    )
    assert re.search(rejected, ended.err), ended.err
    assert (
        f"0 of {RESPONSES * len(PROMPTS) * 5} responses are judged" in ended.err
        and "--resume" in ended.err
    )
    assert len(policy.requests) < len(PROMPTS) * 5
    assert not judge.requests
    assert not out.exists()
