"""Budgets of `judgegym score`: no request too many, nothing paid for twice, and the same file in the end."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from judgegym.judges.scorers.settings import JudgeKind
from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import Scoring, read_rows, score
from tests.core.judges.scorers.kinds import FAIR, GOOD, ITEMS, KINDS, POOR, SETTINGS, verdict
from tests.scripted import Json, Reply, completion

QUESTIONS = ("Why is the sky blue?", "What is light?", "Why is the sea blue?")


def words_of(kind: JudgeKind) -> Sequence[str]:
    values = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in SETTINGS[kind].items()
    }
    return [f"--judge={kind}", *(f"--{name}={value}" for name, value in values.items())]


def rows_of(kind: JudgeKind) -> Sequence[Mapping[str, JSON]]:
    if len(ITEMS[kind].responses) > 1:
        return [{"prompt": question, "responses": [GOOD, POOR, FAIR]} for question in QUESTIONS]
    texts = [(question, text) for question in QUESTIONS for text in (GOOD, POOR)]
    return [{"prompt": question, "response": text, "baseline": FAIR} for question, text in texts]


def going_on(said: str) -> Sequence[str]:
    """The words of the command that a message gives."""
    command = next(line for line in said.splitlines() if line.strip().startswith("judgegym score"))
    return shlex.split(command)[2:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_that_a_spent_budget_prints_leads_to_the_file_of_one_run(
    tmp_path: Path, kind: JudgeKind
) -> None:
    data = write_lines(tmp_path / "data.jsonl", rows_of(kind))
    with serving(verdict) as judge:
        words = [data, f"--judge_base_url={judge.base_url}", *words_of(kind)]
        assert score(*words, "--out", tmp_path / "whole.jsonl").code == 0
        needed = len(judge.requests)

    out = tmp_path / "parts.jsonl"
    with serving(verdict) as judge:
        again: Sequence[object] = [
            *words[:1],
            f"--judge_base_url={judge.base_url}",
            *words[2:],
            "--out",
            out,
        ]
        budget = 1
        ended = score(*again, f"--budget_calls={budget}")
        while budget < needed:
            assert (ended.code, len(judge.requests), out.exists()) == (3, budget, False), ended.said
            again, budget = going_on(ended.said), 2 * budget
            ended = score(*again)
    assert (ended.code, len(judge.requests)) == (0, needed), ended.said
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def rows_to_judge(count: int) -> Sequence[Mapping[str, JSON]]:
    return [{"prompt": f"{number}", "response": GOOD} for number in range(count)]


@pytest.mark.slow
def test_a_command_that_is_started_again_and_again_spends_its_budget_once(tmp_path: Path) -> None:
    """Of three requests one fails, and each attempt counts."""

    def failing(request: Json, number: int) -> Reply | str:
        return Reply(status=500) if number % 3 == 0 else verdict(request)

    with serving(failing) as judge:
        command = Scoring(tmp_path, judge)
        for _ in range(3):
            ended = command(
                "--resume", "--budget_calls=11", "--judge_max_concurrency=3", rows=rows_to_judge(20)
            )
            assert (ended.code, len(judge.requests)) == (3, 11)
    assert (
        "the budget of 11 calls is spent" in ended.said
        and "8 of 20 responses are judged" in ended.said
    )
    assert not command.out.exists()


@pytest.mark.slow
def test_a_file_of_an_earlier_run_stays_when_its_failures_are_judged_again(tmp_path: Path) -> None:
    def failing(request: Json, number: int) -> Reply | str:
        return Reply(status=400) if number in (2, 3) else verdict(request)

    with serving(failing) as judge:
        command = Scoring(tmp_path, judge)
        assert command(rows=rows_to_judge(4)).code == 1
        before = command.out.read_bytes()
        ended = command("--resume", "--budget_calls=5", "--judge_max_concurrency=1")
    assert (ended.code, command.out.read_bytes()) == (3, before)
    assert "3 of 4 responses are judged" in ended.said
    assert re.search(f"{command.out} .*earlier run", ended.said)


@pytest.mark.slow
def test_a_budget_of_dollars_ends_the_run_and_a_corrected_price_mends_it(tmp_path: Path) -> None:
    with serving(lambda request, number: Reply(body=completion(verdict(request)))) as judge:
        command = Scoring(tmp_path, judge)
        words = (
            "--judge_price_output=1e6",
            "--judge_max_tokens=10",
            "--budget_usd=18",
            "--judge_max_concurrency=1",
        )
        unknown = command(*words, rows=rows_to_judge(20))
        assert (unknown.code, len(judge.requests)) == (2, 0)
        assert "--judge_price_input and --judge_price_output" in unknown.said
        ended = command(*words, "--judge_price_input=0")
        assert (ended.code, len(judge.requests)) == (
            3,
            2,
        )  # of five dollars each, which could have been ten
        assert "(2 calls and $10.00 in all)" in ended.said
        assert going_on(ended.said)[-1] == "--budget_usd=36"
        ended = command(*words, "--judge_price_input=0", "--judge_price_output=1", "--resume")
        assert (ended.code, len(judge.requests), len(command.rows)) == (0, 20, 20), ended.said


def test_an_endpoint_without_counts_ends_a_budget_of_dollars_with_the_way_on(
    tmp_path: Path,
) -> None:
    def uncounted(request: Json, number: int) -> Reply:
        return Reply(body={"choices": completion(verdict(request))["choices"]})

    with serving(uncounted) as judge:
        prices = ("--judge_price_input=1", "--judge_price_output=1", "--judge_max_concurrency=1")
        ended = Scoring(tmp_path, judge)(*prices, "--budget_usd=1", rows=rows_to_judge(3))
        sent = len(judge.requests)
        assert ended.code == 3
        assert sent < 3, "what had reserved its worst cost is sent, and nothing after that"
        assert "no token counts" in ended.said
        assert going_on(ended.said)[-1] == f"--budget_calls={2 * sent}"
        ended = score(*going_on(ended.said)[:-1], "--budget_calls=3", *prices)
        assert (ended.code, len(judge.requests)) == (0, 3), ended.said


@pytest.mark.slow
def test_judge_and_policy_share_a_budget(tmp_path: Path) -> None:
    """Each part of the run sends one request more than the one before, to whichever it is, and none twice."""
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": question} for question in QUESTIONS])
    out = tmp_path / "scored.jsonl"

    def respond(request: Json, number: int) -> Reply:
        return Reply(
            body=completion(
                *(f"{number}.{place} scatters light." for place in range(request.get("n", 1)))
            )
        )

    with serving(respond) as policy, serving(verdict) as judge:
        words = [f"--judge_base_url={judge.base_url}", f"--openai.base_url={policy.base_url}"]
        words += ["--responses_per_prompt=3", "--judge=listwise", "--listwise_orders=2"]
        for budget in range(1, 9):
            ended = score(data, "--out", out, *words, "--resume", f"--budget_calls={budget}")
            assert (ended.code, len(policy.requests) + len(judge.requests)) == (3, budget), (
                ended.said
            )
        ended = score(data, "--out", out, *words, "--resume", "--budget_calls=9")
        assert (ended.code, len(policy.requests), len(judge.requests)) == (0, 3, 6), ended.said
    assert len(read_rows(out)) == 3
