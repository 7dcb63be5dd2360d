"""`judgegym score` against scripted judges: what it writes, what it asks, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from judgegym.datasets.score.command import MOST_USED
from judgegym.engine.runs.directory import run_directory_of
from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.datasets.scoring import rated, read_rows, response_in, samples_of, score
from tests.scripted import Json, Reply, ScriptedEndpoint

ROWS = [
    {"id": n, "prompt": f"Question {n}", "response": f"{n % 5 + 1} points", "source": "ab"[n % 2]} for n in range(20)
]


def by_points(response: str) -> int:
    return int(response.split()[0])


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    with serving(rated(by_points)) as endpoint:
        yield endpoint


def data(tmp_path: Path, rows: Sequence[Mapping[str, JSON]] = ROWS) -> Path:
    return write_lines(tmp_path / "data.jsonl", rows)


def test_each_row_gets_its_score_in_its_place(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    ended = score(data(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}")
    assert ended.code == 0, ended.said
    rows = read_rows(out)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["judge/score"] for row in rows] == [(n % 5) / 4 for n in range(20)]
    assert {row["judge/status"] for row in rows} == {"ok"}
    assert rows[3]["judge/label"] == "4"
    assert rows[3]["judge/detail"] == '{"raw":4.0}'
    assert str(rows[3]["judge/explanation"]).startswith("Because.")
    assert len(judge.requests) == 20


def test_the_run_beside_it_has_a_line_for_each_response(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    score(data(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}", "--category_column=source")
    samples = samples_of(out)
    assert [sample["uid"] for sample in samples] == [f"row-{n}" for n in range(1, 21)]
    assert [sample["category"] for sample in samples] == ["a", "b"] * 10
    assert [sample["model_answer"] for sample in samples] == [row["response"] for row in ROWS]


def test_equal_rows_are_judged_once(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    rows = [{**row, "id": number} for number, row in enumerate([*ROWS, *reversed(ROWS)])]
    out = tmp_path / "scored.jsonl"
    assert score(data(tmp_path, rows), "--out", out, f"--judge_base_url={judge.base_url}").code == 0
    assert len(judge.requests) == 20
    written = [row["judge/score"] for row in read_rows(out)]
    assert written[:20] == written[:19:-1]


def test_an_empty_response_costs_no_call_and_has_no_score(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    rows = [{"prompt": "p", "response": " \u200b"}, {"prompt": "p", "response": "3 points"}]
    assert score(data(tmp_path, rows), "--out", out, f"--judge_base_url={judge.base_url}").code == 0
    assert [(row["judge/score"], row["judge/status"]) for row in read_rows(out)] == [
        (None, "invalid_completion"),
        (0.5, "ok"),
    ]
    assert len(judge.requests) == 1


def test_a_failed_judge_is_a_null_and_is_judged_again_on_resuming(tmp_path: Path) -> None:
    is_broken = True

    def rating(response: str) -> int | Reply:
        if is_broken and response.startswith("2"):
            return Reply(status=400, body={"error": {"message": "no"}})
        return by_points(response)

    out = tmp_path / "scored.jsonl"
    rows = [{**row, "prompt": f"Question {number}"} for number, row in enumerate(ROWS)]
    with serving(rated(rating)) as judge:
        words = (data(tmp_path, rows), "--out", out, f"--judge_base_url={judge.base_url}")
        ended = score(*words)
        assert ended.code == 1
        assert "4 of 20 responses have no score" in ended.err
        statuses = [(row["judge/score"], row["judge/status"]) for row in read_rows(out)]
        assert [place for place, found in enumerate(statuses) if found == (None, "judge_failed")] == [1, 6, 11, 16]
        is_broken = False
        before = len(judge.requests)
        assert score(*words, "--resume").code == 0
        assert len(judge.requests) == before + 4
    assert [row["judge/score"] for row in read_rows(out)] == [(n % 5) / 4 for n in range(20)]


def test_changed_and_new_rows_alone_are_judged_on_resuming(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    words = (data(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}")
    score(*words)
    changed = [*ROWS[:3], {**ROWS[3], "response": "1 points"}, *ROWS[4:], {"prompt": "new", "response": "5 points"}]
    data(tmp_path, changed)
    before = len(judge.requests)
    ended = score(*words, "--resume")
    assert ended.code == 0, ended.said
    assert sorted(response_in(body) for body in judge.bodies[before:]) == ["1 points", "5 points"]
    assert [row["judge/score"] for row in read_rows(out)][3] == 0.0


def test_a_category_that_has_changed_is_another_one_on_resuming_and_costs_no_call(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    out = tmp_path / "scored.jsonl"
    words = (data(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}", "--category_column=source")
    score(*words)
    data(tmp_path, [*ROWS[:3], {**ROWS[3], "source": "c"}, *ROWS[4:]])
    assert score(*words, "--resume").code == 0
    assert "".join(str(sample["category"]) for sample in samples_of(out)) == "abac" + "ab" * 8
    assert len(judge.requests) == 20


def test_several_responses_of_a_row_are_lists(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    rows = [
        {"prompt": "p", "responses": ["1 point", "5 points", "1 point"]},
        {"prompt": "q", "responses": ["3 points"]},
    ]
    assert score(data(tmp_path, rows), "--out", out, f"--judge_base_url={judge.base_url}").code == 0
    assert [row["judge/score"] for row in read_rows(out)] == [[0.0, 1.0, 0.0], [0.5]]
    assert [sample["uid"] for sample in samples_of(out)] == ["row-1/1", "row-1/2", "row-1/3", "row-2/1"]
    assert len(judge.requests) == 3


def test_rows_of_a_group_are_judged_together(tmp_path: Path) -> None:
    def listwise(request: Json, number: int) -> str:
        return json.dumps({"scores": [9, 3]})

    rows = [{"g": 1, "prompt": "p", "response": "a"}, {"g": 2, "prompt": "q", "response": "b"},
            {"g": 2, "prompt": "q", "response": "c"}, {"g": 1, "prompt": "p", "response": "d"}]  # fmt: skip
    out = tmp_path / "scored.jsonl"
    words = (data(tmp_path, rows), "--out", out, "--judge=listwise", "--offline")
    ended = score(*words)
    assert ended.code == 2
    assert "row 1: responses: expected several" in ended.err
    assert "--group_by" in ended.err
    assert score(*words, "--group_by=g").code == 0
    assert all(isinstance(row["judge/score"], float) for row in read_rows(out))


def test_how_responses_come_together_is_said_where_one_is_alone_and_not_where_there_are_too_many(
    tmp_path: Path,
) -> None:
    for count, said in ((1, "found 1; --group_by COLUMN"), (27, "found 27\n")):
        rows = [{"prompt": "p", "responses": [str(n) for n in range(count)]}]
        ended = score(data(tmp_path, rows), "--out", tmp_path / "scored.jsonl", "--judge=choice", "--offline")
        assert (ended.code, said in ended.err) == (2, True), ended.said


def test_equal_groups_that_move_up_keep_whose_score_is_whose(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    """Row 2 is `5 points` of one group at first, and then `1 points` of an equal group."""
    rows = [{"g": n // 2, "prompt": "p", "response": f"{4 * (n % 2) + 1} points"} for n in range(6)]
    out = tmp_path / "scored.jsonl"
    words = (data(tmp_path, rows), "--out", out, f"--judge_base_url={judge.base_url}", "--group_by=g")
    assert score(*words).code == 0
    data(tmp_path, rows[1:])
    assert score(*words, "--resume").code == 0
    assert [(row["response"], row["judge/score"]) for row in read_rows(out)] == [
        (row["response"], (by_points(row["response"]) - 1) / 4) for row in rows[1:]
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected a data set"),
        (("missing.jsonl",), "--out: expected the file to write"),
        (("missing.jsonl", "--out", "x.jsonl", "--offline"), "missing.jsonl: there is no such file"),
        (("missing.jsonl", "--out", "x.jsonl", "--jugde=peer"), "--jugde"),
        (("missing.jsonl", "--out", "x.jsonl", "--judge=best"), "--judge"),
        (("missing.jsonl", "--out", "x.jsonl", "--latency_ms=3"), "--offline"),
        (("missing.jsonl", "--out", "x.jsonl", "--aspects=harmfulness"), "nothing reads it without --judge=aspect"),
    ],
)
def test_bad_input_is_one_message(words: Sequence[str], said: str) -> None:
    ended = score(*words)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.said


def test_a_run_is_not_overwritten(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    words = (data(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}")
    score(*words)
    ended = score(*words)
    assert ended.code == 2
    assert "--resume" in ended.err
    assert len(judge.requests) == 20


def test_the_settings_of_a_run_are_a_configuration_that_goes_on_with_it(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    out = tmp_path / "scored.jsonl"
    assert score(data(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}").code == 0
    asked, before = len(judge.requests), out.read_bytes()
    ended = score("--config", run_directory_of(out) / "config.yaml", "--resume")
    assert (ended.code, len(judge.requests), out.read_bytes()) == (0, asked, before), ended.said


@pytest.mark.slow
def test_the_first_rows_are_tried_and_then_the_others(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "scored.jsonl"
    words = (data(tmp_path), f"--judge_base_url={judge.base_url}", "--out")
    assert score(*words, whole).code == 0
    for limit, asked in ((3, 3), (5, 2)):
        before = len(judge.requests)
        assert score(*words, out, f"--limit={limit}", "--resume").code == 0
        assert len(judge.requests) == before + asked
        assert out.read_bytes().splitlines() == whole.read_bytes().splitlines()[:limit]
    ended = score(*words, out, "--limit=4", "--resume")
    assert (ended.code, "row-5 is judged, and --limit 4 leaves it out" in ended.err) == (2, True), ended.said
    assert score(*words, out, "--resume").code == 0
    assert len(judge.requests) == 20 + 20
    assert out.read_bytes() == whole.read_bytes()
    assert "expected --limit, or --shard and --merge" in score(*words, out, "--limit=4", "--shard=1/2").err


def test_a_limit_does_not_divide_a_group(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    out = tmp_path / "scored.jsonl"
    rows = [{"g": n // 3, "prompt": f"Question {n // 3}", "response": f"{n % 5 + 1} points"} for n in range(9)]
    words = (data(tmp_path, rows), f"--judge_base_url={judge.base_url}", "--out", out, "--group_by=g", "--limit=4")
    assert score(*words).code == 0
    assert [row["g"] for row in read_rows(out)] == [0, 0, 0, 1, 1, 1]


def test_what_to_type_next_fits_the_data_and_has_a_folder_of_its_own(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    ended = score(data(tmp_path), "--out", tmp_path / "one.jsonl", f"--judge_base_url={judge.base_url}")
    assert f"--out {tmp_path / 'good' / 'train.jsonl'} --threshold 0.5" in ended.out
    pairs = [{"prompt": f"Question {n}", "responses": ["1 point", "4 points"]} for n in range(3)]
    ended = score(data(tmp_path, pairs), "--out", tmp_path / "two.jsonl", f"--judge_base_url={judge.base_url}")
    assert f"--out {tmp_path / 'best' / 'train.jsonl'} --best" in ended.out
    assert f"--out {tmp_path / 'pairs' / 'train.jsonl'} --pairs" in ended.out


def test_help_lists_the_most_used_settings_in_their_order() -> None:
    ended = score("--help")
    flags = [line.split()[0].removeprefix("--") for line in ended.out.splitlines() if line.startswith("  --")]
    assert flags == list(MOST_USED)
    assert "other:" not in score("--help_all").out


def test_the_mean_and_the_cost_of_the_progress_are_those_of_the_result(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    rows = [*ROWS, {"id": 20, "prompt": "Say nothing.", "response": "", "source": "a"}]  # 0 in the mean
    words = (data(tmp_path, rows), "--out", tmp_path / "scored.jsonl", f"--judge_base_url={judge.base_url}")
    words += ("--judge_price_input=100000", "--judge_price_output=0")  # a dollar for each of the 20 answers
    assert score(*words, "--budget_calls=12", "--judge_max_concurrency=1").code == 1
    ended = score(*words, "--resume")
    assert "21 of 21 responses" in ended.err and "mean score 0.476" in ended.err
    assert "0.4762" in ended.out.splitlines()[1]
    assert "judge $20.00" in ended.err
    assert any("$20.00" in line and "20 calls" in line for line in ended.out.splitlines())


def test_a_flag_that_may_stand_alone_takes_the_word_after_it(tmp_path: Path) -> None:
    words = (data(tmp_path), "--out", tmp_path / "scored.jsonl", "--show_config")
    changed, everything = score(*words, "changed", "--offline"), score(*words, "--offline")
    assert changed.code == everything.code == 0
    assert [line.split()[0] for line in changed.out.splitlines()] == [
        "data",
        "out",
        "show_config",
        "offline",
    ]
    assert len(everything.out.splitlines()) > 50
