"""`compare --succession`: what changes when another judge judges the same completions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.juries import LLMBAR
from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample
from judgegym.reports.compare import comparison as comparisons
from judgegym.reports.compare.__main__ import main
from judgegym.reports.compare.page import write_page
from judgegym.reports.compare.succession import SuccessionOptions, count_crossings
from judgegym.statistics.intervals import UNIT
from judgegym.statistics.paired import (
    RatioTerms,
    RowsForWidth,
    paired_intervals,
    rows_for_half_width,
)
from tests.command import serving, write_lines
from tests.core.datasets.scoring import by_points, rated, score
from tests.core.reports.compare.written import opened, row, run

SCORE = {"headline": "eval/mean_score", "headline_words": "mean score", "environment": "mine"}
OLD, NEW = "claude-sonnet-4-20250514", "claude-sonnet-4-6"
needs_llmbar = pytest.mark.skipif(
    not LLMBAR.is_dir(), reason="the real data is not there: ../shared/data/llmbar"
)
BEFORE = [0.0, 0.25, 0.5, 0.75, 1.0, 0.5]
AFTER = [0.25, 0.25, 0.25, 1.0, 0.75, 0.5]


def scored_rows(values: list[float], **fields: Any) -> list[Sample[Any]]:
    """A row for each value, in two categories."""
    return [
        row(f"row-{place}", value, category="code" if place > 3 else "math", **fields)
        for place, value in enumerate(values)
    ]


def with_parts(sample: Sample[Any], parts: dict[str, float]) -> Sample[Any]:
    """The row with the scores of its judge's parts."""
    assert sample.judgment is not None
    return replace(sample, judgment=replace(sample.judgment, members=parts))


def succession(*runs: Any, **options: Any) -> dict[str, Any]:
    """The succession between two runs."""
    compared = comparisons.compare_runs(runs, succession=SuccessionOptions(**options))
    measured: dict[str, Any] = compared["succession"]
    return measured


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """Two runs of the same completions, whose judges differ."""
    return [
        str(run(tmp_path / name, scored_rows(values), judge_model_name=judge, **SCORE))
        for name, values, judge in (("old", BEFORE, OLD), ("new", AFTER, NEW))
    ]


@pytest.mark.slow
def test_the_table_says_what_changes(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair, "--succession", "--threshold=0.5", "--threshold=0.9"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "B − A: mean score 0.0000 (95 %: ",
        f"Succession from {OLD} to {NEW}",
        f"{OLD} was retired on 2026-06-15; its successor is {NEW} (at Anthropic)",
        "before 2027-02-17 (at Anthropic)",
        "No score is",
        "reach a threshold",
        "│ 0.5 │ 6 │ 4 │ 3 │ 0 │ 1 │ −0.1667 │",
        "│ 0.9 │ 6 │ 1 │ 1 │ 1 │ 1 │ 0.0000 │",
        "± x (95 %)",
    ):
        assert words in out, words
    assert "pilot" not in out


def test_each_model_of_a_jury_has_its_dates(tmp_path: Path) -> None:
    old, new = (
        opened(tmp_path / name, scored_rows(BEFORE), judge_model_name=name, **SCORE)
        for name in ("gpt-4+anthropic/claude-sonnet-4-6+mine", "gpt-4, gpt-6-luna")
    )
    judges = succession(old, new)["judges"]
    assert [[model["provider"] for model in judge["models"]] for judge in judges] == [
        ["OpenAI", "Anthropic", None],
        ["OpenAI", "OpenAI"],
    ]


def test_numbers_equal_their_definitions(tmp_path: Path) -> None:
    old, new = (
        opened(tmp_path / name, scored_rows(values), judge_model_name=name, **SCORE)
        for name, values in (("old", BEFORE), ("new", AFTER))
    )
    measured = succession(old, new, half_widths=(0.1,))
    (crossing,) = measured["thresholds"]
    assert crossing["threshold"] == 0.5
    passes = [RatioTerms([float(v >= 0.5) for v in side], [1.0] * 6) for side in (BEFORE, AFTER)]
    expected = paired_intervals(*passes, ends=UNIT)
    assert not isinstance(expected, str)
    assert crossing["difference"]["interval"] == expected.difference
    (needed,) = measured["half_widths"]
    rows = 10 * [*zip(BEFORE, AFTER, strict=True)]
    sides = [RatioTerms(side, np.ones(60)) for side in zip(*rows, strict=True)]
    repeated = paired_intervals(*sides, ends=UNIT)
    assert not isinstance(repeated, str)
    half_width = (repeated.difference.high - repeated.difference.low) / 2
    assert rows_for_half_width(*sides, half_width, ends=UNIT).rows == pytest.approx(60, rel=0.05)
    assert needed.interval.low < needed.rows < needed.interval.high
    assert measured["rows"] == 6 and measured["missing_categories"] == []


def test_default_half_widths_are_shares_of_the_scale(tmp_path: Path) -> None:
    sides = [BEFORE, AFTER]
    old, new = (
        opened(
            tmp_path / f"{place}",
            scored_rows([1 + 4 * value for value in values]),
            headline_scale=[1, 5],
            judge_model_name=f"judge-{place}",
            **SCORE,
        )
        for place, values in enumerate(sides)
    )
    measured = succession(old, new)
    assert [needed.half_width for needed in measured["half_widths"]] == pytest.approx(
        [0.04, 0.08, 0.12, 0.2]
    )
    assert [crossing["threshold"] for crossing in measured["thresholds"]] == [3.0]


def test_a_win_rate_has_flips_and_no_threshold_of_its_own(tmp_path: Path) -> None:
    old, new = (
        opened(tmp_path / name, scored_rows([float(v > 0.4) for v in values]))
        for name, values in (("old", BEFORE), ("new", AFTER))
    )
    assert succession(old, new)["thresholds"] == []


def test_a_pilot_is_named_with_the_categories_that_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = run(tmp_path / "old", scored_rows(BEFORE), **SCORE)
    new = run(tmp_path / "new", scored_rows(AFTER)[:3], **SCORE)
    assert main([str(old), str(new), "--succession"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "pilot: 3 of A's 6 rows" in out
    assert "categories of A: code." in out


def test_a_run_with_rows_that_do_not_count_is_no_pilot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = scored_rows(AFTER)
    old = run(tmp_path / "old", scored_rows(BEFORE), **SCORE)
    uncounted = [row(sample.uid, 0, weight=0, category="code") for sample in rows[4:]]
    new = run(tmp_path / "new", [*rows[:4], *uncounted], **SCORE)
    assert main([str(old), str(new), "--succession"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "pilot" not in out and "categories of A: code." in out


def test_equal_judgments_of_an_unknown_scale_have_no_number_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [20 * value for value in BEFORE]
    paths = [
        str(run(tmp_path / name, scored_rows(values), judge_model_name=name, **SCORE))
        for name in ("old", "new")
    ]
    assert main([*paths, "--succession"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("same amount") == 1
    assert "± x" not in out


def composed(path: Path, scores: list[float | None], settings: str) -> Any:
    """A run whose judge has the part `correct`, by the settings of its environment."""
    rows = [
        with_parts(sample, {} if score is None else {"correct": score, "cascade.escalated": score})
        for sample, score in zip(scored_rows(BEFORE), scores, strict=True)
    ]
    folder = run(path, rows, judge_model_name=path.name, **SCORE)
    (folder / "config.yaml").write_text(settings)
    return comparisons.SavedRun.open(folder)


def test_gates_are_those_of_the_old_run(tmp_path: Path) -> None:
    settings = (
        "env: {judge: composite, reward: {correct: {judge: rubric, gate: 0.5}, style: {judge: "
        "rubric}}}"
    )
    old = composed(tmp_path / "old", [0.0, 0.5, 1.0, 1.0, None, 0.25], settings)
    new = composed(tmp_path / "new", [0.5, 0.25, 1.0, None, 1.0, 0.0], settings)
    (gate,) = succession(old, new)["gates"]
    counts = {name: gate[name] for name in ("name", "rows", "before", "after", "rise", "fall")}
    assert counts == {"name": "correct", "rows": 4, "before": 2, "after": 2, "rise": 1, "fall": 1}
    single = composed(tmp_path / "single", [None] * 6, "env: {judge: rubric}")
    (gate,) = succession(old, single)["gates"]
    assert (gate["rows"], gate["difference"]) == (0, None)


def test_a_cascade_is_told_that_its_threshold_is_of_the_old_judges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = "env: {judge: cascade, cascade_threshold: 0.6, cascade_harm: 0.05}"
    old = composed(tmp_path / "old", [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], settings)
    new = composed(tmp_path / "new", [0.0, 1.0, 1.0, 1.0, 1.0, 1.0], settings)
    assert main([str(old.path), str(new.path), "--succession"]) == 0
    out = " ".join(capsys.readouterr().out.split()).replace("\u00a0", " ")
    assert "(threshold 0.6 of margin) escalates 50.0 % of 6 rows in A, 83.3 % in B." in out
    assert "promise of 5.0 % were chosen" in out


def test_anchors_begin_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    anchors = {"rows": 60, "agreeing": 55}
    old = run(tmp_path / "old", scored_rows(BEFORE), anchors=anchors, **SCORE)
    new = run(tmp_path / "new", scored_rows(AFTER), anchors={"rows": 60, "agreeing": 50}, **SCORE)
    assert main([str(old), str(new), "--succession"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "baseline of 60 anchors" in out and "B has started" in out
    assert "with 55 labels, B with 50." in out


def test_the_page_and_the_json_have_it(pair: list[str], tmp_path: Path) -> None:
    assert main([*pair, "--succession", "--half_width=0.05", f"--json={tmp_path / 'c.json'}"]) == 0
    measured = json.loads((tmp_path / "c.json").read_bytes())["succession"]
    assert [needed["half_width"] for needed in measured["half_widths"]] == [0.05]
    runs = [comparisons.SavedRun.open(Path(path)) for path in pair]
    compared = comparisons.compare_runs(runs, succession=SuccessionOptions())
    page = b"".join(write_page(compared)).decode()
    assert f"Succession from {OLD} to {NEW}" in page and "reach a threshold" in page
    plain = comparisons.compare_runs(runs, across=["judge"])
    assert plain["succession"] is None and b"Succession" not in b"".join(write_page(plain))


def test_wrong_input_is_one_line(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [replace(sample, completions=(Completion("another"),)) for sample in scored_rows(AFTER)]
    elsewhere = str(run(tmp_path / "other", other, **SCORE))
    without = str(run(tmp_path / "without", scored_rows(AFTER, completions=()), **SCORE))
    cases = {
        (*pair, elsewhere, "--succession"): "NEW, found 3",
        (pair[0], elsewhere, "--succession"): "other completions than",
        (pair[0], without, "--succession"): "no recorded completions",
        (*pair, "--across_judges", "--threshold=1"): "--threshold: nothing reads",
        (*pair, "--across_judges", "--half_width=1"): "--half_width: nothing reads",
        (*pair, "--succession", "--half_width=0"): "above 0, found '0'",
        (*pair, "--succession", "--threshold=nan"): "number, found 'nan'",
    }
    for words, message in cases.items():
        try:
            code: Any = main([*words])
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        assert (code, out) == (2, ""), words
        assert message in err and len(err.splitlines()) == 1, err


@pytest.mark.parametrize("threshold", [1 / 3, 2 / 3, 0.3, 0.7])
def test_a_score_that_equals_the_threshold_reaches_it(threshold: float) -> None:
    below = np.array([threshold - 1e-9, threshold])
    crossing = count_crossings([below, below[::-1]], threshold, None, 0.95)
    assert (crossing["before"], crossing["after"], crossing["rise"], crossing["fall"]) == (
        *(1, 1),
        *(1, 1),
    )


def test_no_interval_of_rows_is_below_two() -> None:
    sides = [RatioTerms(side, np.ones(6)) for side in (BEFORE, AFTER)]
    needed = rows_for_half_width(sides[0], sides[1], 5.0, ends=UNIT)
    assert needed.interval is not None
    assert (needed.rows, needed.interval.low, needed.interval.high) == (2, 2.0, 2.0)


def test_dependent_rows_are_one_unit() -> None:
    before, after = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0])
    alone = count_crossings([before, after], 0.5, None, 0.95)
    together = count_crossings([before, after], 0.5, np.array([0, 0, 1, 1]), 0.95)
    assert alone["difference"]["value"] == together["difference"]["value"] == 0.5
    widths = [
        entry["difference"]["interval"].high - entry["difference"]["interval"].low
        for entry in (alone, together)
    ]
    assert widths[0] < widths[1]


def test_the_range_of_rows_holds_the_true_number_in_nine_of_ten_pilots() -> None:
    draw = np.random.default_rng(5)
    held = 0
    changes = np.repeat([-1.0, 0.0, 1.0], [100, 750, 150])
    true_rows = rows_of_changes(changes)
    assert true_rows.rows is not None
    for _ in range(400):
        needed = rows_of_changes(draw.choice(changes, 50))
        assert needed.interval is not None
        held += needed.interval.low <= true_rows.rows <= needed.interval.high
    assert 0.86 <= held / 400 <= 0.97


def rows_of_changes(changes: Any) -> RowsForWidth:
    """The rows that make the mean of these changes ± .03."""
    sides = [RatioTerms(values, np.ones(len(changes))) for values in (0 * changes, changes)]
    return rows_for_half_width(sides[0], sides[1], 0.03, ends=UNIT)


def recorded_values(judge: str, prompt: str) -> dict[str, float]:
    """A recorded judge's value of each pair: mean over both orders of 1 if it prefers the first response."""
    for line in (LLMBAR / "verdicts.jsonl").read_text("utf-8").splitlines():
        verdicts = json.loads(line)
        if (verdicts["judge"], verdicts["prompt"]) == (judge, prompt):
            worth = {1: 1.0, 2: 0.0, None: 0.5}
            return {
                uid: sum(worth[winner] for winner in winners) / len(winners)
                for uid, winners in verdicts["winner"].items()
            }
    raise AssertionError(judge, prompt)


def mid_p_by_draws(changes: Any, draws: int = 200_000) -> tuple[float, float]:
    """The mid-P interval by its definition: random weights of all rows and of one at either end."""
    draw = np.random.default_rng(7)
    values, counts = np.unique(changes, return_counts=True)
    weights = draw.gamma(counts, size=(draws, len(values)))
    extra = draw.exponential(size=draws)
    totals = weights @ values + extra * draw.choice([-1.0, 1.0], draws)
    low, high = np.quantile(totals / (weights.sum(axis=1) + extra), [0.025, 0.975])
    return float(low), float(high)


@needs_llmbar
@pytest.mark.parametrize(
    ("judge", "prompt", "published"),
    [
        ("GPT-4", "Metrics_Reference", 176),
        ("PaLM2", "Metrics_Reference", 617),
        ("PaLM2", "Vanilla", 685),
    ],
)
def test_recorded_judges_equal_an_independent_computation(
    tmp_path: Path, judge: str, prompt: str, published: int
) -> None:
    """Shift, interval and rows of LLMBar's judges, by the command, against draws and the literature's formula."""
    sides = [recorded_values("GPT-4", "Vanilla"), recorded_values(judge, prompt)]
    paths = [
        str(
            run(
                tmp_path / name,
                [row(uid, value) for uid, value in values.items()],
                judge_model_name=name,
            )
        )
        for name, values in zip(("old", "new"), sides, strict=True)
    ]
    out = tmp_path / "compared.json"
    assert main([*paths, "--succession", "--half_width=0.03", f"--json={out}"]) == 0
    compared = json.loads(out.read_bytes())
    difference = compared["differences"][0]["difference"]
    changes = np.array([sides[1][uid] - value for uid, value in sides[0].items()])
    assert difference["value"] == pytest.approx(changes.mean(), abs=1e-12)
    interval = (difference["interval"]["low"], difference["interval"]["high"])
    assert interval == pytest.approx(mid_p_by_draws(changes), abs=0.0005)
    normal = (1.959964 * np.std(changes) / 0.03) ** 2
    assert normal == pytest.approx(published, abs=1)
    (needed,) = compared["succession"]["half_widths"]
    repeated = np.resize(changes, needed["rows"])
    assert np.subtract(*mid_p_by_draws(repeated)) / -2 == pytest.approx(0.03, rel=0.04)
    assert 1 <= needed["rows"] / normal < 1.25


@pytest.mark.slow
def test_a_scored_file_that_another_judge_judges_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"Question {n}", "response": f"{n % 5 + 1} points"} for n in range(20)]
    data, out, again = (tmp_path / name for name in ("data.jsonl", "a.jsonl", "b.jsonl"))
    write_lines(data, rows)
    with serving(rated(by_points)) as old, serving(rated(lambda text: 6 - by_points(text))) as new:
        assert score(data, "--out", out, f"--judge_base_url={old.base_url}").code == 0
        url = f"--judge_base_url={new.base_url}"
        ended = score(out, "--out", again, "--rescore", url, "--limit=10")
        assert ended.code == 0, ended.said
    capsys.readouterr()
    assert main([str(out), str(again), "--succession", "--json=-"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert (compared["rows"], compared["succession"]["rows"]) == (10, 20)
    (crossing,) = compared["succession"]["thresholds"]
    assert (crossing["before"], crossing["after"], crossing["rise"], crossing["fall"]) == (
        *(6, 6),
        *(4, 4),
    )


@pytest.mark.slow
def test_gates_of_a_scored_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": f"Question {n}", "response": f"{n + 1} points"} for n in range(5)]
    data, out, again = (tmp_path / name for name in ("data.jsonl", "a.jsonl", "b.jsonl"))
    write_lines(data, rows)
    parts = {"fit": {"judge": "rubric", "gate": 0.5}, "style": {"judge": "rubric"}}
    words = "--judge=composite", f"--reward={json.dumps(parts)}"
    with serving(rated(by_points)) as old, serving(rated(lambda _: 2)) as new:
        assert score(data, "--out", out, f"--judge_base_url={old.base_url}", *words).code == 0
        url = f"--judge_base_url={new.base_url}"
        ended = score(out, "--out", again, "--rescore", url, *words)
        assert ended.code == 0, ended.said
    capsys.readouterr()
    assert main([str(out), str(again), "--succession"]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    assert "│ fit ≥ 0.5 │ 5 │ 3 │ 0 │ 0 │ 3 │ −0.6000 │" in lines
