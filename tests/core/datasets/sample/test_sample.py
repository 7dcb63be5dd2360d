"""`judgegym score --responses_per_prompt` against a scripted policy and judge: what is asked, and what is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import listwise
from tests.command import Ended, eventually, serving, write_lines
from tests.core.datasets.scoring import (
    Scoring,
    by_points,
    rated,
    read_rows,
    response_in,
    samples_of,
    score,
)
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

PROMPTS = [{"id": n, "prompt": f"Question {n}?"} for n in range(6)]
LONG = "points, which is a long enough answer"


def numbered(request: Json, number: int) -> Reply:
    """A policy that takes `n`: choice k of a prompt is worth k + 1 points."""
    return Reply(body=completion(*(f"{k % 5 + 1} {LONG}" for k in range(request.get("n", 1)))))


def asked(request: Json) -> str:
    """What a policy was asked last."""
    return str(request["messages"][-1]["content"])


class Sampling(Scoring):
    """The command, with a policy and a judge of a test."""

    def __init__(self, folder: Path, policy: ScriptedEndpoint, judge: ScriptedEndpoint) -> None:
        super().__init__(folder, judge)
        self.policy = policy

    def __call__(self, *words: object, rows: Sequence[Mapping[str, Any]] | None = PROMPTS) -> Ended:
        return super().__call__(
            f"--openai.base_url={self.policy.base_url}", "--retry_delay=0", *words, rows=rows
        )


@pytest.mark.slow
def test_responses_are_asked_for_and_judged(tmp_path: Path) -> None:
    with serving(numbered) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        ended = command(
            "--responses_per_prompt=3", "--openai.model_name=m", "--eval_temperature=0.9"
        )
    assert ended.code == 0, ended.said
    assert [{name: row[name] for name in PROMPTS[0]} for row in command.rows] == PROMPTS
    for row in command.rows:
        assert row["policy/response"] == [f"{k} {LONG}" for k in (1, 2, 3)]
        assert row["policy/thinking"] == [None] * 3
        assert row["policy/finish_reason"] == ["stop"] * 3
        assert row["judge/score"] == [0.0, 0.25, 0.5]
        assert row["judge/status"] == ["ok"] * 3
    assert len(policy.requests) == 6
    assert {(body["model"], body["n"], body["temperature"]) for body in policy.bodies} == {
        ("m", 3, 0.9)
    }
    assert len(judge.requests) == 18
    assert [sample["uid"] for sample in samples_of(command.out)][:4] == [
        "row-1/1",
        "row-1/2",
        "row-1/3",
        "row-2/1",
    ]
    calls = [len(each["run"]["policy_calls"]) for each in samples_of(command.out)]
    assert calls == [1, 0, 0] * 6  # one request for three responses


@pytest.mark.slow
def test_an_endpoint_that_ignores_n_is_asked_for_each(tmp_path: Path) -> None:
    def policy_script(request: Json, number: int) -> str:
        return f"{number % 5 + 1} {LONG} ({number})"

    with serving(policy_script) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        assert command("--responses_per_prompt=4").code == 0
    assert len(policy.requests) == 24
    texts = [text for row in command.rows for text in row["policy/response"]]
    assert len(set(texts)) == 24
    assert [row["judge/score"] for row in command.rows] == [
        [(by_points(text) - 1) / 4 for text in row["policy/response"]] for row in command.rows
    ]


@pytest.mark.slow
def test_a_conversation_stays_one_and_equal_prompts_are_asked_apart(tmp_path: Path) -> None:
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three?"},
    ]
    given = [
        {"messages": [*turns, {"role": "assistant", "content": "an answer that is there"}]},
        {"messages": turns},
    ]
    with serving(numbered) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        assert (
            command("--responses_per_prompt=2", "--custom_system_prompt=Be kind.", rows=given).code
            == 0
        )
    system = {"role": "system", "content": "Be kind.\n\nBe brief."}
    assert [body["messages"] for body in policy.bodies] == [[system, *turns[1:]]] * 2
    assert [row["messages"] for row in command.rows] == [row["messages"] for row in given]
    shown = judge.bodies[0]["messages"][-1]["content"]
    assert "system: Be brief.\n\nuser: One\n\nassistant: Two\n\nuser: Three?" in shown
    assert "Be kind." not in shown


@pytest.mark.slow
def test_what_cannot_be_judged_has_its_reason_and_costs_no_judge_call(tmp_path: Path) -> None:
    good = f"<think>4 is best</think>4 {LONG}"

    def policy_script(request: Json, number: int) -> Reply:
        body = completion(
            good, "no tags at all, but long", "I must not", good.replace("4 points", "1 points")
        )
        body["choices"][2]["finish_reason"] = "content_filter"
        return Reply(body=body)

    with serving(policy_script) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        ended = command("--responses_per_prompt=4", "--thinking_mode=true", rows=PROMPTS[:1])
    assert ended.code == 0, ended.said
    (row,) = command.rows
    assert row["judge/status"] == ["ok", "invalid_completion", "invalid_completion", "ok"]
    assert row["judge/score"] == [0.75, None, None, 0.0]
    assert row["judge/explanation"][1] == "no_open_tag"
    assert "policy refused" in row["judge/explanation"][2]
    assert row["policy/response"] == [
        f"4 {LONG}",
        "no tags at all, but long",
        "I must not",
        f"1 {LONG}",
    ]
    assert row["policy/thinking"] == ["4 is best", None, None, "4 is best"]
    assert row["policy/finish_reason"] == ["stop", "stop", "content_filter", "stop"]
    assert sorted(response_in(body) for body in judge.bodies) == [f"1 {LONG}", f"4 {LONG}"]
    assert command.run.metrics["equal_responses"] == 0
    assert (
        command.run.metrics["mean_score"] == 0.75 / 4
    )  # a malformed answer is an answer, and a wrong one
    assert command.run.metrics["thinking_valid_rate"] == 0.5
    faults = [sample["thinking_fault"] for sample in samples_of(command.out)]
    assert faults == [None, "no_open_tag", "no_open_tag", None]


@pytest.mark.slow
def test_a_response_that_the_policy_never_gave_fails_alone_and_is_asked_for_on_resuming(
    tmp_path: Path,
) -> None:
    is_broken = True

    def policy_script(request: Json, number: int) -> Reply | str:
        if is_broken and number == 3:
            return Reply(status=400, body={"error": {"message": "not this one"}})
        return f"{number} {LONG}"

    with serving(policy_script) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        words = ("--responses_per_prompt=4",)
        ended = command(*words, rows=PROMPTS[:1])
        assert ended.code == 1
        assert "1 of 4 responses" in ended.err and "no score" in ended.err
        (row,) = command.rows
        failed = row["judge/status"].index("policy_failed")
        assert row["judge/status"].count("ok") == 3
        assert (row["judge/score"][failed], row["policy/response"][failed]) == (None, None)
        assert "last answer: not this one" in row["judge/explanation"][failed]
        assert [line["uid"] for line in command.run.failures] == [f"row-1/{failed + 1}"]
        is_broken = False
        before = len(policy.requests), len(judge.requests)
        assert command(*words, "--resume", rows=PROMPTS[:1]).code == 0
        assert (len(policy.requests), len(judge.requests)) == (before[0] + 1, before[1] + 1)
    (resumed,) = command.rows
    kept = [place for place in range(4) if place != failed]
    assert [resumed["policy/response"][place] for place in kept] == [
        row["policy/response"][place] for place in kept
    ]
    assert resumed["judge/status"] == ["ok"] * 4


@pytest.mark.slow
def test_no_row_waits_for_another(tmp_path: Path) -> None:
    """The policy writes the second row's responses only once the judge has been asked about the first's."""

    async def waiting(request: Json, number: int) -> Reply:
        if number == 2:
            await asyncio.to_thread(
                eventually, lambda: bool(judge.requests), "the judge's first request"
            )
        return numbered(request, number)

    with serving(waiting) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        assert command("--responses_per_prompt=2", "--openai.num_requests_for_eval=1").code == 0
    assert policy.peak == 1


@pytest.mark.slow
def test_shards_merge_to_the_bytes_of_one_run(tmp_path: Path) -> None:
    with serving(numbered) as policy, serving(rated(by_points)) as judge:
        command = Sampling(tmp_path, policy, judge)
        assert command("--responses_per_prompt=2").code == 0
        whole, samples = command.out.read_bytes(), command.run.without_run()
        command.out = tmp_path / "parts" / "scored.jsonl"
        command.out.parent.mkdir()
        assert [command("--responses_per_prompt=2", f"--shard={n}/2").code for n in (1, 2)] == [
            0,
            0,
        ]
        asked_before = len(policy.requests), len(judge.requests)
        merged = command("--responses_per_prompt=2", "--merge=2")
        assert merged.code == 0, merged.said
        assert (len(policy.requests), len(judge.requests)) == asked_before
    assert command.out.read_bytes() == whole
    assert command.run.without_run() == samples


@pytest.mark.slow
def test_a_judge_that_compares_sees_the_responses_of_a_prompt_together(tmp_path: Path) -> None:
    judging = listwise.judging(lambda text, place: by_points(text) / 5)
    with serving(numbered) as policy, serving(judging) as judge:
        command = Sampling(tmp_path, policy, judge)
        assert command("--judge=listwise", "--responses_per_prompt=3").code == 0
        assert len(judge.requests) == 6
        assert all(row["judge/score"] == [0.2, 0.4, 0.6] for row in command.rows)
        refused = command("--judge=listwise", "--responses_per_prompt=1", "--resume")
    assert refused.code == 2
    assert "several to compare" in refused.err
    assert "--responses_per_prompt" in refused.err


@pytest.mark.slow
def test_one_response_that_is_left_cannot_be_compared(tmp_path: Path) -> None:
    def policy_script(request: Json, number: int) -> Reply:
        body = completion(f"1 {LONG}", "I must not say")
        body["choices"][1]["finish_reason"] = "content_filter"
        return Reply(body=body)

    with (
        serving(policy_script) as policy,
        serving(listwise.judging(lambda text, place: 0.5)) as judge,
    ):
        command = Sampling(tmp_path, policy, judge)
        assert (
            command("--judge=listwise", "--responses_per_prompt=2", rows=[*PROMPTS[:1]]).code == 1
        )
        assert not judge.requests
        rows = [{**PROMPTS[0], "baseline": f"2 {LONG}"}]
        command.out = tmp_path / "with_baseline.jsonl"
        assert command("--judge=listwise", "--responses_per_prompt=2", rows=rows).code == 0
    assert [row["judge/status"] for row in command.rows] == [["ok", "invalid_completion"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--openai.model_name=m",), r"--openai\.model_name: .*without --responses_per_prompt"),
        (("--thinking_mode=true",), "--thinking_mode: .*without --responses_per_prompt"),
        (
            ("--responses_per_prompt=2", "--openai.server_type=vllm"),
            r"--openai\.server_type: .*training",
        ),
        (
            ("--responses_per_prompt=2", "--response_column=a"),
            "--response_column: .*with --responses_per_prompt",
        ),
        (("--responses_per_prompt=0",), "--responses_per_prompt"),
    ],
)
def test_flags_that_nothing_reads_are_refused(
    tmp_path: Path, words: Sequence[str], said: str
) -> None:
    data = write_lines(tmp_path / "data.jsonl", PROMPTS)
    ended = score(data, "--out", tmp_path / "scored.jsonl", "--offline", *words)
    assert ended.code == 2 and re.search(said, ended.err), ended.err


@pytest.mark.slow
def test_stand_ins_of_policy_and_judge_and_a_row_without_a_prompt(tmp_path: Path) -> None:
    data, out = (
        write_lines(tmp_path / "data.jsonl", [PROMPTS[0], {"id": 3}]),
        tmp_path / "scored.jsonl",
    )
    words = ("--out", out, "--offline", "--responses_per_prompt=2")
    ended = score(data, *words)
    assert (ended.code, "row 2" in ended.err, "--prompt_column" in ended.err) == (2, True, True)
    ended = score(write_lines(data, PROMPTS), *words)
    assert ended.code == 0, ended.said
    assert all(len(row["judge/score"]) == 2 for row in read_rows(out))  # type: ignore[arg-type]


def test_a_budget_of_dollars_needs_the_prices_of_the_policy(tmp_path: Path) -> None:
    with serving(numbered) as policy, serving(rated(by_points)) as judge:
        unpriced = ("--judge_price_input=1", "--judge_price_output=1", "--budget_usd=1")
        refused = Sampling(tmp_path, policy, judge)("--responses_per_prompt=2", *unpriced)
    assert (refused.code, policy.requests) == (2, [])
    assert "set --openai.price input=" in refused.err
