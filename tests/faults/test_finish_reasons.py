"""Every finish reason that endpoints are known to send, and unknown ones, for judge and policy: what becomes of it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.llm.responses import finish_reasons
from judgegym.llm.responses.finish_reasons import normalize_reason
from tests.arena import Arena, Run, for_model, model_is_a, uid_of
from tests.command import in_process, serving
from tests.scripted import Json, Reply, completion

TABLE = [
    json.loads(line)
    for line in Path(__file__).with_name("data").joinpath("finish_reasons.jsonl").open()
]
STATES: Mapping[str, str] = {f"row-{number}": line["state"] for number, line in enumerate(TABLE)}
WORDS: Mapping[str, str] = {f"row-{number}": line["word"] for number, line in enumerate(TABLE)}
ONCE = ("--env.judge_max_retries=1", "--env.max_retries=1", "--env.max_judge_error_rate=1")
OF_JUDGE = {"whole": "ok", "cut_off": "unparsable", "refused": "unparsable"}
"""The status of a judgment by the state of the judge's answers; that of all others is `judge_failed`."""
OF_POLICY = {"whole": "ok", "tool_calls": "ok", "cut_off": "ok", "refused": "invalid_completion"}
"""Likewise of the policy's, `policy_failed`: what was cut off is judged as it is, and counted."""


def judged(request: Json, _: int) -> Reply:
    """A judge whose texts look whole, and end with the word of their row."""
    uid = uid_of(request)
    return Reply(body=completion(for_model(uid, model_is_a(request)), finish_reason=WORDS[uid]))


def answered(request: Json, _: int) -> Reply:
    """A policy of the same kind."""
    uid = uid_of(request)
    texts = [f"ANSWER {index} of the model to {uid}" for index in range(request.get("n", 1))]
    return Reply(body=completion(*texts, finish_reason=WORDS[uid]))


def statuses(run: Run) -> dict[str, str]:
    return {line["uid"]: line["status"] for line in (*run.files.samples, *run.files.failures)}


def counted(run: Run, role: str) -> set[str]:
    return set(run.files.report["config_general"]["finish_reasons"][role])


def test_table_has_every_state() -> None:
    assert len(TABLE) >= 60
    of_table = {
        state: {normalize_reason(line["word"]) for line in TABLE if line["state"] == state}
        for state in STATES.values()
    }
    for state in ("whole", "cut_off", "refused", "broken_off", "tool_calls"):
        assert of_table[state] <= set(finish_reasons.WORDS[state].split())  # type: ignore[index]
    assert len(of_table["unknown"]) >= 8


def test_only_whole_answers_of_a_judge_become_scores_and_cache_entries(tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    run = (
        Arena(tmp_path)
        .rows(len(TABLE))
        .evaluate(*ONCE, f"--env.judge_cache={cache}", judge_script=judged)
    )
    assert run.code == 0, run.said
    assert statuses(run) == {
        uid: OF_JUDGE.get(state, "judge_failed") for uid, state in STATES.items()
    }
    assert all(line["score"] is None for line in run.files.failures)
    with closing(sqlite3.connect(cache)) as database:
        kept = [
            json.loads(answer)["finish_reason"]
            for (answer,) in database.execute("SELECT answer FROM answers")
        ]
    assert sorted(kept) == sorted(
        [word for uid, word in WORDS.items() if STATES[uid] == "whole"] * 2
    )
    assert counted(run, "judge") == set(map(normalize_reason, WORDS.values())), (
        "also those of answers that cannot be used"
    )


def test_only_known_answers_of_a_policy_are_judged(tmp_path: Path) -> None:
    run = Arena(tmp_path).rows(len(TABLE)).evaluate(*ONCE, policy=answered)
    assert run.code in (0, 1), run.said
    assert statuses(run) == {
        uid: OF_POLICY.get(state, "policy_failed") for uid, state in STATES.items()
    }
    cut_off = {line["uid"] for line in run.files.samples if line["finish_reason"] == "length"}
    assert cut_off == {uid for uid, state in STATES.items() if state == "cut_off"}
    assert counted(run, "policy") == set(map(normalize_reason, WORDS.values()))


def test_only_known_answers_of_a_policy_become_training_data(tmp_path: Path) -> None:
    arena, groups = Arena(tmp_path).rows(len(TABLE)), tmp_path / "groups.jsonl"
    trained = {uid for uid, state in STATES.items() if state in OF_POLICY}
    with (
        serving(answered) as policy,
        serving(lambda request, _: for_model("", model_is_a(request))) as judge,
    ):
        ended = in_process(
            "process",
            *arena.flags,
            f"--env.judge_base_url={judge.base_url}",
            f"--openai.base_url={policy.base_url}",
            f"--env.data_path_to_save_groups={groups}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            f"--env.total_steps={len(TABLE)}",
            f"--limit={len(TABLE)}",
            "--env.group_size=2",
            "--env.retry_delay=0",
            "--env.ensure_scores_are_not_same=False",
            *ONCE[:2],
        )
    assert ended.code in (0, 1), ended.said
    lines = [json.loads(line) for line in groups.read_bytes().splitlines()]
    assert {
        uid for line in lines for uid in re.findall(r"Question of (row-\d+)", json.dumps(line))
    } == trained


UNKNOWN = "odd-ending"


@pytest.mark.parametrize("side", ["judge", "policy"])
def test_endpoint_that_ends_every_answer_with_one_unknown_word_fails_at_once_and_names_the_setting(
    tmp_path: Path, side: str
) -> None:
    setting = "--env.judge_finish_reasons" if side == "judge" else "--openai.finish_reasons"

    def odd(request: Json, number: int) -> Reply:
        reply = (judged if side == "judge" else answered)(request, number)
        reply.body["choices"][0]["finish_reason"] = UNKNOWN
        return reply

    scripts: dict[str, Any] = {"judge_script": odd} if side == "judge" else {"policy": odd}
    arena = Arena(tmp_path).rows(20)
    run = arena.evaluate(
        "--env.judge_max_concurrency=1", "--openai.num_requests_for_eval=1", **scripts
    )
    assert run.code == 1, run.said
    assert "'odd_ending'" in run.said and f"{setting}=odd_ending" in run.said
    assert len(getattr(run, side).requests) == 3
    assert not (run.files.path / "samples.jsonl").exists()
    again = arena.evaluate(f"{setting}={UNKNOWN}", "--resume", **scripts)
    assert again.code == 0, again.said
    assert {line["status"] for line in again.files.samples} == {"ok"} and len(
        again.files.samples
    ) == 20
    assert again.files.report["config_general"]["finish_reasons"][side]["odd_ending"] > 0


def test_unknown_word_among_known_ones_is_asked_again(tmp_path: Path) -> None:
    def at_times(request: Json, number: int) -> Reply:
        body = completion(
            for_model("", model_is_a(request)), finish_reason=UNKNOWN if number % 3 == 0 else "stop"
        )
        return Reply(body=body)

    run = Arena(tmp_path).rows(9).evaluate(judge_script=at_times)
    assert run.code == 0, run.said
    assert len(run.files.samples) == 9
    assert set(run.files.report["config_general"]["finish_reasons"]["judge"]) == {
        "stop",
        "odd_ending",
    }


@pytest.mark.parametrize("word", ["length", "CONTENT-FILTER", "abort", "tool_calls", " "])
def test_word_that_is_known_to_end_no_whole_answer_cannot_be_accepted(
    tmp_path: Path, word: str
) -> None:
    run = Arena(tmp_path).rows(1).evaluate(f"--env.judge_finish_reasons={json.dumps([word])}")
    assert run.code == 2
    assert "judge_finish_reasons" in run.said and "Traceback" not in run.said
    assert run.judge.requests == []
