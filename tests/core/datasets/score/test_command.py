"""`judgegym score` against scripted judges: what it writes, what it asks, and how it goes on."""

from __future__ import annotations

import re
import resource
from collections.abc import Sequence
from pathlib import Path

import pytest

from judgegym.datasets.score.command import MOST_USED
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.scorers.settings import AnyJudgeSettings
from tests.command import serving
from tests.core.datasets.scoring import Scoring, by_points, response_in, score

ROWS = [
    {"id": n, "prompt": f"Question {n}", "response": f"{n % 5 + 1} points", "source": "ab"[n % 2]}
    for n in range(20)
]


@pytest.mark.slow
def test_a_run_of_rows_with_a_response_each(command: Scoring) -> None:
    ended = command("--category_column=source", rows=ROWS)
    assert ended.code == 0, ended.said
    rows, before = command.rows, command.out.read_bytes()
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert command.column("judge/score") == [(n % 5) / 4 for n in range(20)]
    assert {row["judge/status"] for row in rows} == {"ok"}
    assert (rows[3]["judge/label"], rows[3]["judge/detail"]) == ("4", {"raw": 4.0})
    assert rows[3]["judge/explanation"].startswith("Because.")
    samples = command.samples
    assert [sample["uid"] for sample in samples] == [f"row-{n}" for n in range(1, 21)]
    assert [sample["category"] for sample in samples] == ["a", "b"] * 10
    assert [sample["model_answer"] for sample in samples] == [row["response"] for row in ROWS]
    assert f"--out {command.out.parent / 'good' / 'train.jsonl'} --threshold 0.5" in ended.out

    again = command("--category_column=source")
    assert (again.code, "--resume" in again.err) == (2, True), "a run is not overwritten"
    ended = score("--config", locate_run_directory(command.out) / "config.yaml", "--resume")
    assert (ended.code, command.out.read_bytes()) == (0, before), ended.said
    changed = command(
        "--category_column=source",
        "--resume",
        rows=[*ROWS[:3], {**ROWS[3], "source": "c"}, *ROWS[4:]],
    )
    assert changed.code == 0, changed.said
    assert "".join(sample["category"] for sample in command.samples) == "abac" + "ab" * 8
    assert len(command.judge.requests) == 20, "nothing was asked again"


@pytest.mark.slow
def test_equal_rows_are_judged_once_and_an_empty_response_costs_no_call(command: Scoring) -> None:
    twice = [{**row, "id": number} for number, row in enumerate([*ROWS, *reversed(ROWS)])]
    assert command(rows=[*twice, {"id": 40, "prompt": "p", "response": " \u200b"}]).code == 0
    assert len(command.judge.requests) == 20
    *scores, empty = command.column("judge/score")
    assert scores[:20] == scores[:19:-1]
    assert (empty, command.column("judge/status")[-1]) == (None, "invalid_completion")


@pytest.mark.slow
def test_changed_and_new_rows_alone_are_judged_on_resuming(command: Scoring) -> None:
    command(rows=ROWS)
    new = {"prompt": "new", "response": "5 points"}
    ended = command(
        "--resume", rows=[*ROWS[:3], {**ROWS[3], "response": "1 points"}, *ROWS[4:], new]
    )
    assert ended.code == 0, ended.said
    assert sorted(response_in(body) for body in command.judge.bodies[20:]) == [
        "1 points",
        "5 points",
    ]
    assert command.column("judge/score")[3] == 0.0


def test_several_responses_of_a_row_are_lists(command: Scoring) -> None:
    rows = [
        {"prompt": "p", "responses": ["1 point", "5 points", "1 point"]},
        {"prompt": "q", "responses": ["3 points"]},
    ]
    ended = command(rows=rows)
    assert ended.code == 0
    assert command.column("judge/score") == [[0.0, 1.0, 0.0], [0.5]]
    assert [sample["uid"] for sample in command.samples] == [
        "row-1/1",
        "row-1/2",
        "row-1/3",
        "row-2/1",
    ]
    assert len(command.judge.requests) == 3
    for folder, rule in (("best", "--best"), ("pairs", "--pairs")):
        assert f"--out {command.out.parent / folder / 'train.jsonl'} {rule}" in ended.out


@pytest.mark.slow
def test_rows_of_a_group_are_judged_together(command: Scoring) -> None:
    rows = [
        {"g": g, "prompt": f"p{g}", "response": text}
        for g, text in ((1, "a"), (2, "b"), (2, "c"), (1, "d"))
    ]
    ended = command("--judge=listwise", "--offline", rows=rows)
    assert ended.code == 2
    assert "--judge_base_url: --offline uses stand-ins" in ended.err
    words = (command.data, "--out", command.out, "--judge=listwise", "--offline")
    ended = score(*words)
    assert (
        ended.code,
        "row 1: responses: expected several" in ended.err,
        "--group_by" in ended.err,
    ) == (2, True, True)
    assert score(*words, "--group_by=g").code == 0
    assert all(isinstance(found, float) for found in command.column("judge/score"))


@pytest.mark.parametrize(("count", "said"), [(1, "found 1; --group_by COLUMN"), (27, "found 27\n")])
def test_how_responses_come_together_is_said_where_one_is_alone_and_not_where_there_are_too_many(
    command: Scoring, count: int, said: str
) -> None:
    ended = command(
        "--judge=choice", rows=[{"prompt": "p", "responses": [str(n) for n in range(count)]}]
    )
    assert (ended.code, said in ended.err) == (2, True), ended.said


@pytest.mark.slow
def test_equal_groups_that_move_up_keep_whose_score_is_whose(command: Scoring) -> None:
    """Row 2 is `5 points` of one group at first, and then `1 points` of an equal group."""
    rows = [{"g": n // 2, "prompt": "p", "response": f"{4 * (n % 2) + 1} points"} for n in range(6)]
    assert command("--group_by=g", rows=rows).code == 0
    assert command("--group_by=g", "--resume", rows=rows[1:]).code == 0
    assert command.column("judge/score") == [
        (by_points(response) - 1) / 4 for response in command.column("response")
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a data set:"),
        (("missing.jsonl",), "--out: .*--out scored"),
        (("missing.jsonl", "--out", "x.jsonl", "--offline"), r"missing\.jsonl: .*no such file"),
        (("missing.jsonl", "--out", "x.jsonl", "--jugde=peer"), "--jugde"),
        (("missing.jsonl", "--out", "x.jsonl", "--judge=best"), "--judge"),
        (("missing.jsonl", "--out", "x.jsonl", '--faults={"500": 0.1}'), "--offline"),
        (
            ("missing.jsonl", "--out", "x.jsonl", "--aspects=harmfulness"),
            "--aspects .*without --judge=aspect",
        ),
    ],
)
def test_bad_input_is_one_message(words: Sequence[str], said: str) -> None:
    ended = score(*words)
    assert ended.code == 2 and re.search(said, ended.err) and "Traceback" not in ended.said


@pytest.mark.slow
def test_the_first_rows_are_tried_and_then_the_others(command: Scoring) -> None:
    out, command.out = command.out, command.out.with_name("whole.jsonl")
    assert command(rows=ROWS).code == 0
    whole, command.out = command.out.read_bytes(), out
    for limit, asked in ((3, 3), (5, 2)):
        before = len(command.judge.requests)
        assert command(f"--limit={limit}", "--resume").code == 0
        assert len(command.judge.requests) == before + asked
        assert out.read_bytes().splitlines() == whole.splitlines()[:limit]
    ended = command("--limit=4", "--resume")
    assert ended.code == 2, ended.said
    assert "row-5 is judged" in ended.err and "--limit 4" in ended.err
    assert command("--resume").code == 0
    assert (len(command.judge.requests), out.read_bytes()) == (20 + 20, whole)
    assert "leave out --limit" in command("--limit=4", "--shard=1/2").err


@pytest.mark.slow
def test_a_limit_does_not_divide_a_group(command: Scoring) -> None:
    rows = [
        {"g": n // 3, "prompt": f"Question {n // 3}", "response": f"{n % 5 + 1} points"}
        for n in range(9)
    ]
    assert command("--group_by=g", "--limit=4", rows=rows).code == 0
    assert command.column("g") == [0, 0, 0, 1, 1, 1]


def test_help_lists_the_most_used_settings_in_their_order() -> None:
    ended = score("--help")
    flags = [
        line.split()[0].removeprefix("--")
        for line in ended.out.splitlines()
        if line.startswith("  --")
    ]
    of_rubrics = AnyJudgeSettings.add_choices(["judge=rubric"]).model_fields
    others = expand_choices(AnyJudgeSettings).model_fields.keys() - of_rubrics
    assert flags == [name for name in MOST_USED if name not in others]
    assert "--strictness" in score("--judge=aspect", "--help_all").out
    assert "other:" not in score("--help_all").out


@pytest.mark.slow
def test_the_mean_and_the_cost_of_the_progress_are_those_of_the_result(command: Scoring) -> None:
    words = (
        "--judge_price_input=100000",
        "--judge_price_output=0",
    )  # a dollar for each of the 20 answers
    empty = {"id": 20, "prompt": "Say nothing.", "response": "", "source": "a"}  # 0 in the mean
    assert (
        command(*words, "--budget_calls=12", "--judge_max_concurrency=1", rows=[*ROWS, empty]).code
        == 3
    )
    ended = command(*words, "--resume")
    assert "21 of 21 responses" in ended.err and "mean score 0.476" in ended.err
    assert "0.4762" in ended.out.splitlines()[1]
    assert "judge $20.00" in ended.err
    assert any("$20.00" in line and "20 calls" in line for line in ended.out.splitlines())


def test_a_flag_that_may_stand_alone_takes_the_word_after_it() -> None:
    words = ("data.jsonl", "--out", "scored.jsonl", "--show_config")
    changed, everything = score(*words, "changed", "--offline"), score(*words, "--offline")
    assert changed.code == everything.code == 0
    assert {line.split()[0] for line in changed.out.splitlines()} == {
        "data",
        "out",
        "show_config",
        "offline",
    }
    assert len(everything.out.splitlines()) > 50


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows(command: Scoring) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = (
        sum(1 for _ in Path("/dev/fd").iterdir()) + 100
    )  # other tests of this process may have left files open
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(low, hard), hard))
    try:
        assert command(rows=[{"prompt": "Q", "response": "3 points"}]).code == 0
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_judge_without_any_verdict_is_shown_in_the_message(tmp_path: Path) -> None:
    with serving("They are the same.\nI would say\u202e four of five.") as judge:
        command = Scoring(tmp_path, judge)
        ended = command(rows=[{"prompt": "Why?", "response": "Because."}])
    assert ended.code == 1
    assert 'which ends "They are the same. I would say  four of five."' in ended.said
    assert f"(all answers: {command.run.path / 'calls.jsonl'})" in ended.said
