"""The metrics of a scored data set, and what the command prints of it."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from judgegym.datasets.score.numbers import make_score_table
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.judges.core.naming import MetricNames
from judgegym.llm.cost.models import DEFAULT_JUDGE
from judgegym.llm.wire import JSON
from judgegym.reports.compare.rows import RunRows, select_common_rows
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page.rows import read_run_page
from judgegym.statistics.intervals import mean_interval
from tests.command import serving
from tests.core.datasets.scoring import Scoring, by_points, rated
from tests.scripted import Reply

KEY = "sk-not-to-be-shown-123456"


def rating(response: str) -> int | Reply:
    refused = Reply(status=400, body={"error": {"message": "too long"}})
    return refused if response == "refused" else by_points(response)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Scoring]:
    with serving(rated(rating)) as judge:
        yield Scoring(tmp_path, judge)


def single(*responses: str) -> list[dict[str, JSON]]:
    return [
        {"prompt": f"Question {n}", "response": response, "source": "ab"[n % 2]}
        for n, response in enumerate(responses)
    ]


def pairs(*rows: tuple[str | Sequence[str], str | Sequence[str]]) -> list[dict[str, JSON]]:
    return [
        {"prompt": f"Question {n}", "chosen": chosen, "rejected": rejected, "source": "ab"[n % 2]}
        for n, (chosen, rejected) in enumerate(rows)
    ]


def run_of(command: Scoring) -> SavedRun:
    return SavedRun.open(locate_run_directory(command.out))


def test_responses_to_one_prompt_are_resampled_together_also_in_rows_of_their_own(
    command: Scoring,
) -> None:
    """Their scores say the same of the judge: with each one for itself, intervals would be half as wide."""
    scores = {prompt: f"{1 + 4 * (prompt % 2)} points" for prompt in range(6)}
    rows: list[dict[str, JSON]] = [
        {"prompt": f"Question {prompt}", "response": f"{points}, {number}"}
        for prompt, points in scores.items()
        for number in range(4)
    ]
    assert command(rows=rows).code == 0
    run = run_of(command)
    assert run.headline is not None
    six = mean_interval([4.0 * (prompt % 2) for prompt in range(6)], [4.0] * 6)
    assert run.headline.interval == six
    units = select_common_rows([RunRows(run), RunRows(run)]).units
    assert units is not None and units.tolist() == [prompt for prompt in range(6) for _ in range(4)]


def test_failures_are_left_out_of_the_mean_and_empty_responses_count_as_0(command: Scoring) -> None:
    rows = single("5 points", "3 points", "refused", " ", "1 point")
    ended = command("--category_column=source", f"--judge_api_key={KEY}", rows=rows)
    run = run_of(command)
    assert run.headline is not None
    assert run.headline.value == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert run.headline.interval is not None and run.headline.interval.low < run.headline.value
    assert run.metrics["eval/mean_score_category_a"] == pytest.approx(1 / 2)
    assert run.metrics["eval/mean_score_category_b"] == pytest.approx(0.5 / 2)
    assert run.metrics["eval/unscored_rate"] == pytest.approx(2 / 5)
    assert run.metrics["eval/judge_error_rate"] == pytest.approx(1 / 5)
    assert run.metrics["eval/score_median"] == 0.5
    shares = [sample.headline for sample in run.samples()]
    assert sum(share.total for share in shares if share) / sum(
        share.weight for share in shares if share
    ) == (pytest.approx(run.headline.value))

    assert ended.code == 1
    assert "4 of 5 responses" in ended.out
    assert str(run.path / "failures.jsonl") in ended.out
    assert re.search(r"1 of 5 responses .*no score \(20\.0 %\).*too long", ended.err)
    assert ended.err.rstrip().splitlines()[-2].endswith("--resume")
    assert "--judge_api_key as before" in ended.err
    assert KEY not in ended.said + json.dumps(run.general) + (run.path / "run.log").read_text(
        "utf-8"
    )


@pytest.mark.slow
def test_the_file_can_be_cited_alone(command: Scoring) -> None:
    command("--rubric=Is it long?", rows=single("5 points", "3 points"))
    run = run_of(command)
    assert (run.environment, run.policy, run.judge) == ("score", "data", DEFAULT_JUDGE)
    (data,) = run.general["datasets"]  # type: ignore[union-attr, misc]
    assert isinstance(data, Mapping) and str(data["digest"]).startswith("sha256:")
    protocol = run.general["protocol"]
    assert isinstance(protocol, Mapping)
    assert protocol["judge"] == "rubric" and protocol["rubric"] == "Is it long?"
    assert "listwise_orders" not in protocol, "a setting of another kind of judge"
    assert run.metrics["eval/judge_calls"] == run.metrics["eval/judge_requests"] == 2


@pytest.mark.slow
def test_several_responses_to_a_prompt(command: Scoring) -> None:
    rows = pairs(
        ("5 points", "1 point"),  # higher
        ("3 points", "3 points, too"),  # a tie
        ("1 point", "2 points"),  # lower
        ("refused", "2 points"),  # left out
        ("3 points", " "),  # an empty response loses
        (["5 points", "2 points"], ["3 points"]),  # one of the chosen is lower
    )
    ended = command("--category_column=source", "--max_judge_error_rate=1", rows=rows)
    values = run_of(command).metrics
    assert values["eval/chosen_higher_rate"] == pytest.approx((1 + 0.5 + 0 + 1 + 0) / 5)
    assert values["eval/mean_margin"] == pytest.approx((1 + 0 - 0.25 + 0.5 + (0.625 - 0.5)) / 5)
    assert values["eval/mean_best_score"] == pytest.approx((1 + 0.5 + 0.25 + 0.5 + 1) / 5)
    assert values["eval/mean_worst_of_2"] == pytest.approx(
        (0 + 0.5 + 0 + 0 + (2 * 0.25 + 0.5) / 3) / 5
    )
    assert values["eval/incomplete_units"] == 1
    assert values["eval/chosen_higher_rate_category_a"] == pytest.approx((1 + 0 + 1) / 3)
    assert values["eval/data_rows"] == 6 and values["eval/selected_rows"] == 13
    assert "left out of" in ended.out
    shown = ended.out[ended.out.index("score: ") :].splitlines()
    assert (
        shown[1].startswith("chosen is higher")
        and " 0.5000  95 %: " in shown[1]
        and "5 prompts" in shown[1]
    )
    assert any(line.strip().startswith("mean score ") for line in shown[2:]), (
        "which compare takes, stands below"
    )
    assert ended.out.count("chosen is higher") == 1
    assert read_run_page(run_of(command).path)[0]["headline"].startswith(
        "chosen is higher 0.5000 (95 %: "
    )


@pytest.mark.slow
def test_categories_whose_names_differ_have_numbers_of_their_own(command: Scoring) -> None:
    names, points = (
        ("C", "C++", "C#", "c", "CI low"),
        ("5 points", "4 points", "3 points", "2 points", "1 point"),
    )
    rows = [{**row, "source": name} for row, name in zip(single(*points), names, strict=True)]
    command("--category_column=source", rows=rows)
    found = {name: value for name, value in run_of(command).metrics.items() if "_category_" in name}
    assert sorted(found.values()) == [0.0, 0.25, 0.5, 0.75, 1.0]  # type: ignore[type-var]
    assert found[f"eval/mean_score_category_{MetricNames(names)('C++')}"] == 0.75


@pytest.mark.slow
def test_equal_rows_are_one_observation(command: Scoring) -> None:
    rows = single("5 points", "3 points", "1 point", "2 points")
    command(rows=rows)
    once, command.out = run_of(command).headline, command.out.with_name("twice.jsonl")
    command(rows=[*rows, *rows])
    twice = run_of(command)
    assert twice.headline == once, "rows that share a judgment say nothing further"
    assert (twice.metrics["eval/equal_responses"], twice.metrics["eval/judge_calls"]) == (4, 4)


@pytest.mark.slow
def test_judging_the_failed_rows_again_gives_the_numbers_of_an_undisturbed_run(
    command: Scoring,
) -> None:
    rows = single("5 points", "3 points", "1 point", "2 points")
    command(rows=rows)
    undisturbed, judge, command.out = (
        run_of(command),
        command.judge,
        command.out.with_name("other.jsonl"),
    )
    with serving(
        rated(lambda text: Reply(status=400, body={}) if text[0] == "3" else int(text[0]))
    ) as command.judge:
        assert command().code == 1
    command.judge = judge
    assert command("--resume").code == 0
    run = run_of(command)
    assert (run.headline, run.metrics["eval/judge_calls"]) == (undisturbed.headline, 4)
    assert (command.run.failures, len(command.samples)) == ([], 4)


@pytest.mark.slow
def test_of_a_column_with_many_values_the_most_frequent_have_metrics(command: Scoring) -> None:
    rows = [
        {"prompt": f"Question {n}", "response": "3 points", "source": f"source {n}"}
        for n in range(102)
    ]
    ended = command("--category_column=source", rows=[*rows, {**rows[101], "prompt": "Another"}])
    run = run_of(command)
    names = [name for name in run.metrics if name.startswith("eval/mean_score_category_")]
    assert len(names) == 100 and "eval/mean_score_category_source_101" in names
    said = ended.out.replace("\n", " ")
    assert "source has 102 values" in said and "the 100 most frequent" in said
    assert "90 more" in ended.out, "on the terminal are the largest, and the others together"


def test_a_score_at_a_border_is_in_the_upper_tenth_as_in_the_card_of_select() -> None:
    scores = array("d", [n / 10 for n in range(11)])
    (counts, shares) = make_score_table(scores).rows
    assert counts == ("responses", *["1"] * 9, "2")
    assert shares == ("share", *["9.1 %"] * 9, "18.2 %")
