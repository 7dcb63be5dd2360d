"""`judgegym score --judge_batch`: the file and the samples of a live run for half the cost, whatever batches do."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from judgegym.cli import batch as batch_command
from tests.batching import BatchEndpoint, Line, SentBatch, serving_folder
from tests.command import Ended, called, clean_environment, serving, write_lines
from tests.core.datasets.scoring import Scoring, by_points, rated, response_in
from tests.scripted import Json, Reply, Script

ROWS = [
    {"prompt": f"question {number}", "response": f"{number % 5 + 1} points, {number}"}
    for number in range(12)
]
PRICES = ("--judge_price_input=1", "--judge_price_output=2")
KINDS = ("openai", "anthropic")
POINTS = rated(by_points)


def in_batches(kind: str, *words: str) -> Sequence[str]:
    api = kind if kind == "anthropic" else "openai"
    return [
        f"--judge_batch={kind}",
        f"--judge_api={api}",
        "--judge_batch_poll=0.005",
        *PRICES,
        *words,
    ]


def without_run(samples: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return [{name: value for name, value in sample.items() if name != "run"} for sample in samples]


@contextmanager
def batches(
    folder: Path, script: Script = POINTS, **options: Any
) -> Iterator[tuple[BatchEndpoint, Scoring]]:
    """An endpoint that takes batches, and the command with it as the judge."""
    with serving(BatchEndpoint(script, **options)) as judge:
        assert isinstance(judge, BatchEndpoint)
        yield judge, Scoring(folder, judge)


def cost_of(scoring: Scoring) -> float:
    return scoring.run.metrics["judge_cost_usd"]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Scoring:
    with serving(BatchEndpoint(rated(by_points))) as judge:
        scoring = Scoring(tmp_path_factory.mktemp("live"), judge)
        assert scoring(*PRICES, rows=ROWS).code == 0
    return scoring


def expired(batch: SentBatch, lines: list[Line]) -> list[Line]:
    """The first batch expires with half of its lines."""
    if batch.number > 1:
        return lines
    batch.state = "expired"
    for line in lines[::2]:
        if "result" in line:
            line["result"] = {"type": "expired"}
        else:
            line |= {"response": None, "error": {"code": "batch_expired", "message": "expired"}}
    return lines


def shuffled(batch: SentBatch, lines: list[Line]) -> list[Line]:
    """Reordered lines, one twice with another verdict, one of an unknown id, one that is missing, one no line."""
    random.Random(7).shuffle(lines)
    other = json.loads(json.dumps(lines[0]).replace("[SCORE]", "[SCORE] 9"))
    kept = [*lines[:-1], other, {**lines[0], "custom_id": "stranger-1"}, {"no": "line"}]
    return kept if batch.number == 1 else lines


def failing(batch: SentBatch, lines: list[Line]) -> list[Line]:
    """Errors of the server in some lines of the first batch."""
    if batch.number == 1:
        for line in lines[:3]:
            if "result" in line:
                error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
                line["result"] = {"type": "errored", "error": error}
            else:
                line["response"] = {"status_code": 429, "body": {"error": {"message": "busy"}}}
    return lines


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [None, expired, shuffled, failing])
def test_the_samples_are_those_of_a_live_run_and_cost_half(
    tmp_path: Path,
    live: Scoring,
    kind: str,
    fault: Callable[[SentBatch, list[Line]], list[Line]] | None,
) -> None:
    with batches(tmp_path, looks=3, fault=fault) as (judge, scoring):
        ended = scoring(*in_batches(kind), rows=ROWS)
    assert ended.code == 0, ended.said
    assert without_run(scoring.samples) == without_run(live.samples)
    assert scoring.out.read_bytes() == live.out.read_bytes()
    assert judge.live == 0 and len(judge.batches) == (1 if fault is None else 2)
    assert (
        max(judge.asked.values()) <= 2
        and sum(judge.asked.values())
        == len(ROWS) + {None: 0, expired: 6, shuffled: 1, failing: 3}[fault]
    )
    assert cost_of(scoring) == pytest.approx(cost_of(live) / 2)


def test_what_a_batch_left_out_is_sent_live_at_the_live_price(
    tmp_path: Path, live: Scoring
) -> None:
    with batches(tmp_path, fault=expired) as (judge, scoring):
        ended = scoring(*in_batches("openai", "--judge_batch_fallback=live"), rows=ROWS)
    assert ended.code == 0, ended.said
    assert without_run(scoring.samples) == without_run(live.samples)
    assert judge.live == 6 and len(judge.batches) == 1
    assert cost_of(scoring) == pytest.approx(cost_of(live) * 0.75)


def test_a_request_is_sent_again_a_bounded_number_of_times(tmp_path: Path) -> None:
    def never(batch: SentBatch, lines: list[Line]) -> list[Line]:
        return [line for line in lines if not line["custom_id"].endswith("-0")]

    with batches(tmp_path, fault=never) as (judge, scoring):
        ended = scoring(*in_batches("openai", "--judge_batch_retries=2"), rows=ROWS)
    assert ended.code == 1
    assert "no line for" in scoring.run.path.joinpath("failures.jsonl").read_text()
    assert (
        len(judge.batches) == 3
        and sum(status != "ok" for status in scoring.column("judge/status")) == 1
    )


def test_a_verdict_that_cannot_be_read_is_drawn_again_in_a_further_batch(
    tmp_path: Path, live: Scoring
) -> None:
    asked: Counter[str] = Counter()

    def unsure(request: Json, number: int) -> str | Reply:
        asked[response_in(request)] += 1
        first = asked[response_in(request)] == 1 and by_points(response_in(request)) > 3
        return "I am not sure." if first else rated(by_points)(request, number)

    with batches(tmp_path, script=unsure) as (judge, scoring):
        assert scoring(*in_batches("openai"), rows=ROWS).code == 0
    assert [len(batch.requests) for batch in judge.batches] == [12, 4]
    assert scoring.out.read_bytes() == live.out.read_bytes()


def test_the_limits_of_rows_and_lines_make_several_batches(tmp_path: Path, live: Scoring) -> None:
    with batches(tmp_path) as (judge, scoring):
        words = in_batches("openai", "--judge_batch_rows=8", "--judge_batch_lines=5")
        assert scoring(*words, rows=ROWS).code == 0
    sizes = [len(batch.requests) for batch in judge.batches]
    assert sum(sizes) == len(ROWS) and max(sizes) == 5 and len(sizes) >= 3
    assert scoring.out.read_bytes() == live.out.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "requests.2.params: too long"), (400, "line 3 is wrong"), (413, "too large")],
)
def test_one_request_that_is_refused_does_not_fail_the_others(
    tmp_path: Path, kind: str, status: int, message: str
) -> None:
    def refusal(batch: SentBatch) -> tuple[int, str] | None:
        is_there = any("3 points, 2" in json.dumps(body) for body in batch.requests.values())
        return (
            (status, message) if (len(batch.requests) > 6 if status == 413 else is_there) else None
        )

    with batches(tmp_path) as (judge, scoring):
        judge.refuses = refusal
        ended = scoring(*in_batches(kind, "--max_judge_error_rate=1"), rows=ROWS)
    assert ended.code == 0, ended.said
    refused = [row["response"] for row in scoring.rows if row["judge/status"] != "ok"]
    assert refused == ([] if status == 413 else ["3 points, 2"])
    assert [len(batch.requests) for batch in judge.batches] == ([6, 6] if status == 413 else [11])


def test_a_batch_that_fails_after_its_upload_names_the_lines_that_do(tmp_path: Path) -> None:
    def invalid(batch: SentBatch, lines: list[Line]) -> list[Line]:
        if len(lines) == len(ROWS):
            batch.state, batch.errors = (
                "failed",
                [{"code": "invalid", "message": "no such field", "line": 4}],
            )
        return lines

    def exhausted(batch: SentBatch, lines: list[Line]) -> list[Line]:
        batch.state, batch.errors = (
            "failed",
            [{"code": "token_limit_exceeded", "message": "Enqueued tokens: too many"}],
        )
        return lines

    with batches(tmp_path, fault=invalid) as (judge, scoring):
        assert scoring(*in_batches("openai", "--max_judge_error_rate=1"), rows=ROWS).code == 0
        assert [row["response"] for row in scoring.rows if row["judge/status"] != "ok"] == [
            "4 points, 3"
        ]
        assert [len(batch.requests) for batch in judge.batches] == [12, 11]

        judge.fault, scoring.out = exhausted, tmp_path / "other.jsonl"
        ended = scoring(*in_batches("openai"))
        assert (
            ended.code == 1
            and "Enqueued tokens: too many" in ended.said
            and "--resume" in ended.said
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_creation_was_not_answered_is_found_and_not_created_again(
    tmp_path: Path, live: Scoring, kind: str
) -> None:
    answers = iter([web.Response(status=502, text="proxy")])

    def lost(method: str, path: str) -> web.Response | None:
        return next(answers, None) if method == "POST" and path.endswith("batches") else None

    with batches(tmp_path) as (judge, scoring):
        judge.after = lost
        ended = scoring(*in_batches(kind), rows=ROWS)
    assert ended.code == 0, ended.said
    assert len(judge.batches) == 1 and scoring.out.read_bytes() == live.out.read_bytes()


def endless(number: int = 0) -> SentBatch:
    """Another batch of the account, with as many requests as the rows make."""
    requests: dict[str, Json] = {f"other-{place}": {"messages": []} for place in range(len(ROWS))}
    return SentBatch(number, "other", requests, looks=-(10**9))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [429, 529])
def test_a_busy_provider_has_created_nothing_and_no_other_batch_is_waited_for(
    tmp_path: Path, live: Scoring, kind: str, status: int
) -> None:
    answers = iter(
        [
            web.json_response(
                {"error": {"message": "busy"}}, status=status, headers={"Retry-After": "0"}
            )
        ]
    )
    asked: list[tuple[str, str]] = []

    def busy(method: str, path: str) -> web.Response | None:
        asked.append((method, path))
        return next(answers, None) if method == "POST" and path.endswith("batches") else None

    with batches(tmp_path) as (judge, scoring):
        judge.batches.append(endless())
        judge.before = busy
        ended = scoring(*in_batches(kind), rows=ROWS)
    assert ended.code == 0, ended.said
    assert [batch.name for batch in judge.batches] == ["other", "batch_1"]
    assert scoring.out.read_bytes() == live.out.read_bytes()
    assert not [
        path
        for method, path in asked
        if method == "GET" and path.endswith(("batches", "batches?limit=100"))
    ]


def test_a_lost_batch_that_has_ended_is_found_beside_one_that_goes_on(
    tmp_path: Path, live: Scoring
) -> None:
    answers = iter([web.Response(status=502, text="proxy")])
    with batches(tmp_path) as (judge, scoring):
        judge.batches.append(endless())
        judge.after = lambda method, path: (
            next(answers, None) if (method, path[-7:]) == ("POST", "batches") else None
        )
        ended = scoring(*in_batches("anthropic"), rows=ROWS)
    assert ended.code == 0, ended.said
    assert len(judge.batches) == 2 and scoring.out.read_bytes() == live.out.read_bytes()


def test_a_batch_that_is_not_found_is_created_anew_after_a_time_and_that_is_said(
    tmp_path: Path, live: Scoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judgegym.llm.batches.kinds._WAIT_S", 0.02)
    monkeypatch.setattr("judgegym.llm.batches.kinds._LOOK_S", 0.01)
    answers = iter([web.Response(status=502, text="proxy")])
    with batches(tmp_path) as (judge, scoring):
        judge.batches.append(endless())
        judge.before = lambda method, path: (
            next(answers, None) if (method, path[-7:]) == ("POST", "batches") else None
        )
        ended = scoring(*in_batches("anthropic"), rows=ROWS)
    assert ended.code == 0, ended.said
    assert "waiting for other" in ended.said
    assert len(judge.batches) == 2 and scoring.out.read_bytes() == live.out.read_bytes()


def test_polling_waits_where_it_is_told_to_and_ends_the_run_where_the_key_is_refused(
    tmp_path: Path,
) -> None:
    answers = iter(
        [web.Response(status=429, headers={"Retry-After": "0"}), web.Response(status=500)]
    )
    with batches(tmp_path, looks=3) as (judge, scoring):
        judge.before = lambda method, path: (
            next(answers, None) if path == "/batches/batch_0" else None
        )
        assert scoring(*in_batches("openai", "--retry_delay=0.01"), rows=ROWS).code == 0

        scoring.out = tmp_path / "other.jsonl"
        judge.before = lambda method, path: (
            web.Response(status=401) if path == "/batches/batch_1" else None
        )
        ended = scoring(*in_batches("openai"))
        assert ended.code == 1 and "batch 1" in ended.said and "--resume" in ended.said
        judge.before = lambda method, path: None
        assert scoring(*in_batches("openai"), "--resume").code == 0
        assert len(judge.batches) == 2


def test_a_resumed_run_takes_up_its_batches_and_a_live_one_is_an_error(
    tmp_path: Path, live: Scoring
) -> None:
    with batches(tmp_path) as (judge, scoring):
        judge.before = lambda method, path: (
            web.Response(status=403) if path.startswith("/batches/") else None
        )
        assert scoring(*in_batches("openai", "--budget_calls=12"), rows=ROWS).code == 1
        live_now = scoring(*PRICES, "--resume")
        assert live_now.code == 2
        assert "12 requests" in live_now.said and "judge_batch" in live_now.said

        shown = called(
            lambda: batch_command.main([str(scoring.out)], prog="judgegym batch"),
            clean_environment(),
        )
        assert shown.code == 1 and "batch 1: 0 of 12 done, uploading" in shown.out
        judge.before = lambda method, path: None
        words = [str(scoring.run.path), "--cancel"]
        cancelled = called(
            lambda: batch_command.main(words, prog="judgegym batch"), clean_environment()
        )
        assert cancelled.code == 0 and "batch 1: 12 of 12 done" in cancelled.out

        ended = scoring(*in_batches("openai", "--budget_calls=12"), "--resume")
        assert ended.code == 0, ended.said
        assert len(judge.batches) == 1 and judge.live == 0
    assert scoring.out.read_bytes() == live.out.read_bytes()


def shown_batches(*words: object) -> Ended:
    return called(
        lambda: batch_command.main([*map(str, words)], prog="judgegym batch"), clean_environment()
    )


def test_a_cancelled_batch_of_a_folder_is_said_to_be_so(tmp_path: Path) -> None:
    run, sent = tmp_path / "out.run", tmp_path / "batches"
    run.mkdir()
    sent.mkdir()
    (sent / "name-1.jsonl").write_text("{}\n")
    batch: Json = {
        "batch": 1,
        "at": 0,
        "kind": "folder",
        "endpoint": str(sent),
        "model": "m",
        "requests": [[0, "a"]],
    }
    write_lines(run / "batches.jsonl", [{"run": "name"}, batch, {"batch": 1, "id": "name-1"}])
    assert "batch 1: 0 of 1 done, waits for" in shown_batches(run).out
    cancelled = shown_batches(tmp_path / "out.jsonl", "--cancel")
    assert cancelled.code == 0 and "batch 1: 0 of 1 done, cancelled" in cancelled.out
    later = shown_batches(run)
    assert later.code == 0 and "it is gone" in later.out and "--resume" in later.out


def test_what_has_no_batches_is_told_apart(tmp_path: Path) -> None:
    missing, without = shown_batches(tmp_path / "none"), shown_batches(tmp_path)
    assert missing.code == without.code == 2
    assert f"{tmp_path / 'none'}: " in missing.err and "no such run" in missing.err
    assert "run with --judge_batch" in without.err


def test_a_budget_holds_for_what_is_in_batches(tmp_path: Path) -> None:
    with batches(tmp_path) as (judge, scoring):
        ended = scoring(*in_batches("openai", "--budget_calls=5"), rows=ROWS)
        assert ended.code == 3, ended.said
        assert sum(judge.asked.values()) == 5
        assert scoring(*in_batches("openai"), "--resume").code == 0
        assert sum(judge.asked.values()) == len(ROWS) == len(judge.asked)


def test_a_folder_is_answered_by_another_program(tmp_path: Path, live: Scoring) -> None:
    folder = tmp_path / "batches"
    with batches(tmp_path) as (judge, scoring):
        words = in_batches("folder", f"--judge_batch_folder={folder}")

        with serving_folder(folder, rated(by_points)):
            ended = scoring(*words, rows=ROWS)
    assert ended.code == 0 and "vllm run-batch -i" in ended.said, ended.said
    assert judge.live == 0 and scoring.out.read_bytes() == live.out.read_bytes()
    assert cost_of(scoring) == pytest.approx(cost_of(live))


@pytest.mark.parametrize("is_known", [True, False], ids=["404", "never created"])
def test_a_batch_that_does_not_exist_any_more_is_sent_again(
    tmp_path: Path, live: Scoring, is_known: bool
) -> None:
    with batches(tmp_path) as (judge, scoring):
        judge.before = lambda method, path: (
            web.Response(status=403) if path.startswith("/batches/") else None
        )
        assert scoring(*in_batches("openai"), rows=ROWS).code == 1
        judge.before = lambda method, path: None
        judge.batches.clear()
        if not is_known:
            path = scoring.run.path / "batches.jsonl"
            lines = [
                line for line in path.read_text().splitlines(keepends=True) if '"id"' not in line
            ]
            path.write_text("".join(lines))
        ended = scoring(*in_batches("openai"), "--resume")
        assert ended.code == 0, ended.said
        assert [len(batch.requests) for batch in judge.batches] == [12]
        assert scoring(*in_batches("openai"), "--resume").code == 0 and len(judge.batches) == 1
    assert scoring.out.read_bytes() == live.out.read_bytes()


def test_each_model_of_a_jury_has_batches_of_its_own(tmp_path: Path) -> None:
    with batches(tmp_path) as (judge, scoring):
        ended = scoring(*in_batches("openai", "--judge=jury", "--judges=one,two"), rows=ROWS)
    assert ended.code == 0, ended.said
    models = [{body["model"] for body in batch.requests.values()} for batch in judge.batches]
    assert sorted(models, key=str) == [{"one"}, {"two"}] and judge.live == 0
