"""`judgegym score SCORED --rescore`: a scored file under another judge, whose responses may be those of a policy."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from judgegym.datasets.files.row_text import remove_keys
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.llm.wire import JSON
from judgegym.reports.compare import __main__ as compare_command
from tests import listwise
from tests.command import Ended, RunFiles, called, clean_environment, serving, write_lines
from tests.core.datasets.scoring import by_points, rated, read_rows, response_in, score
from tests.plans import read_plan
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

LONG = "points, which is a long enough answer"
PROMPTS = [{"id": n, "prompt": f"Question {n}?", "at": [n, {"x": n / 2}]} for n in range(4)]
SINGLE = [
    {"prompt": f"Question {n // 2}", "response": f"{n % 4 + 1} points", "kind": n // 2}
    for n in range(8)
]
JUDGED = ("judge/score", "judge/status", "judge/label", "judge/explanation", "judge/detail")


def backwards(response: str) -> int:
    return 6 - by_points(response)


def by_prompt() -> Any:
    """A policy: of the prompt 0 the third response has no thinking, of the prompt 1 the second fails."""
    seen = Counter[str]()

    def script(request: Json, _: int) -> Reply:
        shown = request["messages"][-1]["content"]
        seen[shown] += 1
        number = seen[shown]
        if number == 2 and "Question 1" in shown:
            return Reply(status=400, body={"error": {"message": "not this one"}})
        has_no_tags = number == 3 and "Question 0" in shown
        text = (
            "no tags at all, but long"
            if has_no_tags
            else f"<think>about {number}</think>{number % 4 + 1} {LONG}"
        )
        return Reply(body=completion(text))

    return script


def sampled(out: Path, judge: ScriptedEndpoint) -> Path:
    """A file of sampled responses, one of which the policy never gave, and one without thinking."""
    data = write_lines(out.parent / "prompts.jsonl", PROMPTS)
    with serving(by_prompt()) as policy:
        urls = (
            f"--openai.base_url={policy.base_url}",
            f"--judge_base_url={judge.base_url}",
            "--openai.model_name=m",
        )
        words = ("--responses_per_prompt=4", "--thinking_mode=true")
        ended = score(
            data, "--out", out, *urls, *words, "--retry_delay=0", "--max_judge_error_rate=1"
        )
    assert ended.code == 0, ended.said
    return out


def again(data: Path, out: Path, judge: ScriptedEndpoint, *words: str) -> Ended:
    url = f"--judge_base_url={judge.base_url}"
    return score(
        data, "--out", out, "--rescore", url, "--retry_delay=0", "--max_judge_error_rate=1", *words
    )


def compare(*words: object) -> Ended:
    return called(
        lambda: compare_command.main([str(word) for word in words], prog="compare"),
        clean_environment(),
    )


def rows_of(path: Path) -> Sequence[Mapping[str, Any]]:
    if path.suffix == ".jsonl":
        return read_rows(path)
    rows: Sequence[Mapping[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_two_judges_of_sampled_responses_are_compared(tmp_path: Path, ending: str) -> None:
    with serving(rated(by_points)) as first, serving(rated(backwards)) as second:
        one = sampled(tmp_path / f"one.{ending}", first)
        other = tmp_path / f"other.{ending}"
        ended = again(one, other, second)
        assert ended.code == 0, ended.said
        asked = [response_in(body) for body in second.bodies]
    assert sorted(asked) == sorted(response_in(body) for body in first.bodies)
    before, after = rows_of(one), rows_of(other)
    assert [list(row) for row in after] == [list(row) for row in before]
    for old, new in zip(before, after, strict=True):
        assert {name: new[name] for name in new if name not in JUDGED} == {
            name: old[name] for name in old if name not in JUDGED
        }
        assert new["judge/status"] == old["judge/status"]
        for was, now, status in zip(
            old["judge/score"], new["judge/score"], old["judge/status"], strict=True
        ):
            assert (now == pytest.approx(1 - was)) if status == "ok" else now is None
    statuses = sorted(status for row in after for status in row["judge/status"])
    assert statuses == ["invalid_completion", *["ok"] * 14, "policy_failed"]
    for old, new in zip(before, after, strict=True):
        for place, status in enumerate(old["judge/status"]):
            if status != "ok":
                assert new["judge/explanation"][place] == old["judge/explanation"][place]

    ended = compare(one, other, "--json", tmp_path / "c.json")
    assert ended.code == 0, ended.said
    found = json.loads((tmp_path / "c.json").read_text("utf-8"))
    (difference,) = found["differences"]
    assert (found["rows"], found["item"]) == (15, "response"), (
        "all but the one that was never given"
    )
    assert difference["agreement"]["correlation"] < -0.7, "a malformed one is 0 for both"
    assert "B judges the same" in " ".join(ended.out.split())


@pytest.mark.slow
def test_the_run_has_the_responses_as_the_policys_run_has_them(tmp_path: Path) -> None:
    with serving(rated(by_points)) as judge:
        one = sampled(tmp_path / "one.jsonl", judge)
        other = tmp_path / "other.jsonl"
        assert again(one, other, judge).code == 0
    of_policy = (
        "category",
        "texts",
        "run",
        "task_digest",
    )  # what it has cost is the policy's run's
    for name in ("samples.jsonl", "failures.jsonl"):
        lines = [read_rows(locate_run_directory(path) / name) for path in (one, other)]
        assert lines[0]
        stripped = [
            [{k: v for k, v in line.items() if k not in of_policy} for line in each]
            for each in lines
        ]
        assert stripped[0] == stripped[1]
    general = RunFiles(locate_run_directory(other)).report["config_general"]
    assert general["model_name"] == "m on prompts"
    assert general["answers_of"]["path"] == str(locate_run_directory(one))
    assert [each["name"] for each in general["answers_of"]["datasets"]] == [
        str(tmp_path / "prompts.jsonl")
    ]


@pytest.mark.slow
def test_without_the_switch_the_refusal_names_it(tmp_path: Path) -> None:
    with serving(rated(by_points)) as judge:
        data = write_lines(tmp_path / "data.jsonl", SINGLE)
        url = f"--judge_base_url={judge.base_url}"
        one = tmp_path / "one.jsonl"
        assert score(data, "--out", one, url).code == 0
        before = len(judge.requests)
        refused = score(one, "--out", tmp_path / "other.jsonl", url)
        assert (refused.code, "--rescore" in refused.err, len(judge.requests)) == (
            2,
            True,
            before,
        ), refused.err
        for words, said in (
            (("--responses_per_prompt=2",), "--rescore judges .*--responses_per_prompt asks"),
            (("--out", str(one)), f"--out: {one} .*data set itself"),
        ):
            ended = again(one, tmp_path / "other.jsonl", judge, *words)
            assert ended.code == 2 and re.search(said, ended.err), ended.err
        ended = again(data, tmp_path / "other.jsonl", judge)
        assert (ended.code, "lacks judge/score" in ended.err) == (2, True), ended.err
        named = again(
            sampled(tmp_path / "s.jsonl", judge),
            tmp_path / "t.jsonl",
            judge,
            "--response_column=prompt",
        )
        assert named.code == 2, named.err
        assert "--response_column: " in named.err and "policy/response" in named.err
        grouped = again(
            tmp_path / "s.jsonl", tmp_path / "t.jsonl", judge, "--judge=listwise", "--group_by=id"
        )
        assert (grouped.code, "--group_by: each row" in grouped.err) == (2, True), grouped.err


@pytest.mark.slow
def test_a_row_keeps_its_own_text_but_for_the_judges_keys(tmp_path: Path) -> None:
    own = (
        '{ "prompt":"A\\u00e4",  "response": "2 points" ,"n": 1.50, "long": '
        "123456789012345678901234567890"
    )
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    (tmp_path / "data.jsonl").write_text(own + "}\n")
    with serving(rated(by_points)) as first, serving(rated(backwards)) as second:
        assert (
            score(tmp_path / "data.jsonl", "--out", one, f"--judge_base_url={first.base_url}").code
            == 0
        )
        assert again(one, other, second).code == 0
    before, after = one.read_text(), other.read_text()
    assert before.startswith(own + ',"judge/score":0.25') and after.startswith(
        own + ',"judge/score":0.75'
    )
    assert after.count("judge/score") == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b'{"a": 1, "judge/x": [1, {"b": ","}], "c" : "}"}', b'{"a": 1, "c" : "}"}'),
        (b'{"judge/x":null,\n "a":{"judge/x":1}}', b'{ "a":{"judge/x":1}}'),
        (b'{"judge\\/x":"\\"", "a":"judge/x"}\n', b'{ "a":"judge/x"}'),
        (b'{"judge/x":1}', b"{}"),
        (b"{ }", b"{}"),
    ],
)
def test_keys_are_taken_out_of_a_text_and_nothing_else(text: bytes, kept: bytes) -> None:
    assert remove_keys(text, "judge/x".__eq__) == kept


@pytest.mark.slow
def test_other_columns_of_parquet_keep_their_types(tmp_path: Path) -> None:
    types = pyarrow.schema(
        [
            ("prompt", pyarrow.large_string()),
            ("response", pyarrow.string()),
            ("price", pyarrow.decimal128(10, 3)),
            ("when", pyarrow.timestamp("ns", tz="UTC")),
            ("words", pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))),
        ],
        metadata={"made": "by hand"},
    )
    rows = [
        {"prompt": "A", "response": "2 points", "words": ["a", "b"]},
        {"prompt": "B", "response": "4 points"},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, types), tmp_path / "data.parquet")
    one, other, alone = (tmp_path / f"{name}.parquet" for name in ("one", "other", "alone"))
    with serving(rated(by_points)) as first, serving(rated(backwards)) as second:
        assert (
            score(
                tmp_path / "data.parquet", "--out", one, f"--judge_base_url={first.base_url}"
            ).code
            == 0
        )
        assert again(one, other, second).code == 0
        assert (
            score(
                tmp_path / "data.parquet", "--out", alone, f"--judge_base_url={second.base_url}"
            ).code
            == 0
        )
    assert other.read_bytes() == alone.read_bytes(), "as if the first judge had never been asked"
    assert compare(one, other).code == 0


@pytest.mark.slow
def test_a_run_is_planned_stopped_by_its_budget_and_resumed(tmp_path: Path) -> None:
    with serving(rated(by_points)) as first, serving(rated(backwards)) as second:
        one, other = sampled(tmp_path / "one.jsonl", first), tmp_path / "other.jsonl"
        plan = again(one, other, second, "--plan")
        assert plan.code == 0 and not second.requests
        assert read_plan(plan.out).calls.usual == 14
        stopped = again(one, other, second, "--budget_calls=5")
        assert (stopped.code, len(second.requests), other.exists()) == (3, 5, False), stopped.said
        assert "--rescore" in stopped.err
        assert again(one, other, second, "--resume").code == 0
        assert len(second.requests) == 14
        refused = score(one, "--out", other, "--resume", f"--judge_base_url={second.base_url}")
        assert refused.code == 2, "other columns: not the run of this file"


@pytest.mark.slow
def test_a_judge_that_compares_sees_those_that_can_be_judged(tmp_path: Path) -> None:
    seen: list[int] = []

    def worth(text: str, place: int) -> float:
        seen.append(place)
        return by_points(text) / 5

    with serving(rated(by_points)) as first, serving(listwise.judging(worth)) as second:
        one, other = sampled(tmp_path / "one.jsonl", first), tmp_path / "other.jsonl"
        assert again(one, other, second, "--judge=listwise").code == 0
        assert len(second.requests) == 4
    for row in read_rows(other):
        status: JSON = row["judge/status"]
        assert isinstance(status, list) and status.count("ok") >= 3
    assert len(seen) == 14


@pytest.mark.slow
def test_rows_that_the_policy_never_answered_do_not_stop_the_run(tmp_path: Path) -> None:
    """Ten tasks without a score end a run whose endpoint is down; here nobody was asked about them."""
    failed = {
        "judge/score": [None],
        "judge/status": ["policy_failed"],
        "judge/label": [None],
        "judge/detail": [None],
    }
    failed |= {"policy/response": [None], "policy/thinking": [None], "policy/finish_reason": [None]}
    rows: list[dict[str, JSON]] = [
        {"prompt": f"Q{n}", **failed, "judge/explanation": [f"the policy at {n}"]}
        for n in range(12)
    ]
    rows.append(
        {
            **rows[0],
            "prompt": "Last",
            "policy/response": ["2 points"],
            "judge/status": ["judge_failed"],
        }
    )
    one, other = write_lines(tmp_path / "one.jsonl", rows), tmp_path / "other.jsonl"
    with serving(rated(by_points)) as judge:
        assert again(one, other, judge, "--judge_max_concurrency=1").code == 0
    found = read_rows(other)
    assert [row["judge/status"] for row in found] == [["policy_failed"]] * 12 + [["ok"]]
    assert [row["judge/explanation"] for row in found[:12]] == [
        [f"the policy at {n}"] for n in range(12)
    ]


@pytest.mark.slow
def test_a_file_whose_columns_contradict_each_other_is_named_with_its_row(tmp_path: Path) -> None:
    with serving(rated(by_points)) as judge:
        one = sampled(tmp_path / "one.jsonl", judge)
        rows = [dict(row) for row in read_rows(one)]
        rows[2]["policy/response"] = ["alone"]
        ended = again(write_lines(tmp_path / "cut.jsonl", rows), tmp_path / "other.jsonl", judge)
        assert ended.code == 2, ended.err
        assert re.search("row 3: .*texts in policy/response", ended.err)
        rows = [dict(row) for row in read_rows(one)]
        rows[1]["policy/response"] = [None] * 4
        ended = again(write_lines(tmp_path / "null.jsonl", rows), tmp_path / "other.jsonl", judge)
        assert (ended.code, "row 2: a response is null in policy/response" in ended.err) == (
            2,
            True,
        ), ended.err
