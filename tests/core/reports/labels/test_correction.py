"""Results corrected by labels: what counts, what has no number or interval and why, and which labels are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgegym.llm.errors import DataError, RunDirectoryError
from judgegym.reports.labels.correction import CorrectedNumber, correct_run, read_correction
from judgegym.reports.labels.file import assign_strata, read_labels, row_digest, run_digest
from judgegym.reports.labels.rendering import make_fact, make_section, make_table
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.corrected import CorrectedMean, corrected_mean
from judgegym.statistics.intervals import UNIT
from tests.core.engine.samples_of import sample
from tests.core.reports.compare.written import opened, row, run

RANDOM = {"drawn": {"how": "random", "seed": 0, "rows": 200, "run": ""}}
GENERATOR = np.random.default_rng(0)
TRUTH = (GENERATOR.random(200) < 0.6).astype(float)
JUDGE = np.where(GENERATOR.random(200) < 0.85, TRUTH, 1 - TRUTH)


def of_run(path: Path, values: Sequence[float] = JUDGE.tolist(), **facts: Any) -> SavedRun:
    rows = [
        row(f"row-{n}", value, category="code" if n % 3 else "math")
        for n, value in enumerate(values)
    ]
    return opened(path / "run", rows, **facts)


def label(number: int, value: float | None, **fields: Any) -> dict[str, Any]:
    return {"uid": f"row-{number}", "labeller": "ann", "label": value, **fields}


def labelled(path: Path, *lines: Any) -> Any:
    (path / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_labels(path / "labels.jsonl")


def said(number: CorrectedNumber) -> Any:
    assert number.interval is not None, number.reason
    interval = number.interval.low, number.interval.high
    return number.value, *interval, number.labels_only, number.weight, number.effective_labels


def expected(found: CorrectedMean | str) -> Any:
    assert isinstance(found, CorrectedMean), found
    interval = found.interval.low, found.interval.high
    return pytest.approx(
        (found.value, *interval, found.labels_only.value, found.weight, found.effective_labels)
    )


def test_a_win_rate_is_corrected_as_a_whole_and_by_category(tmp_path: Path) -> None:
    run, labels = (
        of_run(tmp_path),
        labelled(tmp_path, RANDOM, *(label(n, TRUTH[n]) for n in range(60))),
    )
    found = correct_run(run, labels)
    given = np.where(np.arange(200) < 60, TRUTH, np.nan)
    assert said(found.whole) == expected(corrected_mean(JUDGE, given, kind="rate"))
    assert (found.whole.raw, found.whole.labels, found.whole.rows) == (JUDGE.mean(), 60, 200)
    assert [each.name for each in found.categories] == ["code"], (
        "math has 20 labels, and 30 are the fewest"
    )
    code = np.arange(200) % 3 > 0
    assert said(found.categories[0]) == expected(
        corrected_mean(JUDGE[code], given[code], kind="rate")
    )


def test_words_of_the_terminal_and_of_the_page_have_the_same_numbers(tmp_path: Path) -> None:
    lines = [
        *(label(n, TRUTH[n]) for n in range(60)),
        *({**label(n, 1.0), "labeller": "ben"} for n in range(10)),
    ]
    found = correct_run(of_run(tmp_path), labelled(tmp_path, RANDOM, *lines))
    section, table = make_section(found), make_table(found)
    whole = found.whole
    assert whole.value is not None and whole.interval is not None
    interval = f"95 %: {whole.interval.low:.4f} to {whole.interval.high:.4f}"
    assert section.title == "corrected by 60 labels"
    assert (section.lines[0].label, section.lines[0].value) == ("win rate", f"{whole.value:.4f}")
    assert section.lines[0].remark == interval
    assert table.rows[0][:2] == ("judge alone", f"{JUDGE.mean():.4f}")
    assert table.rows[1] == ("corrected", f"{whole.value:.4f}", interval)
    fact = make_fact(found)[1]
    for words in (
        "60 labels and the judge",
        "(λ = 0.",
        "the same label",
        "of 10 rows",
    ):
        assert words in fact
        assert any(words in line.remark for line in section.lines)
    useless = labelled(tmp_path, RANDOM, *(label(n, 1 - JUDGE[n]) for n in range(40)))
    assert (
        "adds nothing here (λ = 0)"
        in make_fact(correct_run(of_run(tmp_path / "other"), useless))[1]
    )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([label(0, 1.0), label(1, 0.0), label(2, 1.0)], "not drawn at"),
        ([RANDOM, label(0, 1.0)], "1 label; at least 2"),
        ([RANDOM, label(0, None), label(1, None)], "0 labels; at least 2"),
    ],
)
def test_without_a_number_or_an_interval_the_reason_is_said(
    tmp_path: Path, lines: list[Any], reason: str
) -> None:
    found = correct_run(of_run(tmp_path), labelled(tmp_path, *lines))
    assert (found.whole.interval, found.whole.labels_only_interval) == (None, None)
    assert reason in found.whole.reason
    assert (found.whole.value is None) == (len(lines) < 3 or lines[1] == label(0, None))
    assert any(reason in line.remark for line in make_section(found).lines)
    assert any(reason in cells[2] for cells in make_table(found).rows)


def test_unequal_weights_have_no_corrected_number(tmp_path: Path) -> None:
    rows = [row(f"row-{n}", n % 2, weight=3.0 if n % 5 else 1.0) for n in range(20)]
    found = correct_run(
        opened(tmp_path / "run", rows), labelled(tmp_path, RANDOM, label(0, 1.0), label(1, 0.0))
    )
    assert "unequal weights" in found.whole.reason
    same = [row(f"row-{n}", n % 2, weight=2.0) for n in range(20)]
    given = labelled(tmp_path, RANDOM, label(0, 1.0), label(1, 0.0))
    assert correct_run(opened(tmp_path / "same", same), given).whole.value == pytest.approx(0.5)


def test_labels_drawn_by_score_count_by_their_strata(tmp_path: Path) -> None:
    run = of_run(tmp_path)
    strata = assign_strata({f"row-{n}": value for n, value in enumerate(JUDGE)})
    sizes = [
        {"name": name, "rows": [*strata.values()].count(name)}
        for name in sorted({*strata.values()})
    ]
    drawn = {"drawn": {"how": "by_score", "seed": 0, "rows": 200, "run": "", "strata": sizes}}
    given = [*np.flatnonzero(JUDGE == 0)[:25], *np.flatnonzero(JUDGE == 1)[:15]]
    found = correct_run(run, labelled(tmp_path, drawn, *(label(n, TRUTH[n]) for n in given)))
    columns = JUDGE, np.where(np.isin(np.arange(200), given), TRUTH, np.nan)
    assert said(found.whole) == expected(
        corrected_mean(*columns, kind="rate", strata=JUDGE.astype(int))
    )
    sizes[0]["rows"] -= 1
    sizes[1]["rows"] += 1
    other = correct_run(run, labelled(tmp_path, drawn, *(label(n, TRUTH[n]) for n in given)))
    assert "another judge" in other.whole.reason


def test_scores_are_means_and_responses_of_a_prompt_depend_on_each_other(tmp_path: Path) -> None:
    values, truth = GENERATOR.random(120).round(2), GENERATOR.random(120).round(2)
    facts = {"environment": "score", "headline": "eval/mean_score", "headline_words": "mean score"}
    lines = [RANDOM, *({**label(0, truth[n]), "uid": f"row-{n // 3}/{n % 3}"} for n in range(60))]
    numbered = [*enumerate(values.tolist())]
    rows = [row(f"row-{n // 3}/{n % 3}", value, question=f"Q {n // 3}") for n, value in numbered]
    found = correct_run(opened(tmp_path / "run", rows, **facts), labelled(tmp_path, *lines))
    given = np.where(np.arange(120) < 60, truth, np.nan)
    columns = values, given
    assert said(found.whole) == expected(
        corrected_mean(*columns, kind="mean", clusters=np.arange(120) // 3, ends=UNIT)
    )
    equal = [
        row(f"row-{n}", value, question=f"Q {n % 60}", task_digest=f"{n}") for n, value in numbered
    ]
    labels = labelled(tmp_path, RANDOM, *(label(n, truth[n]) for n in range(60)))
    found = correct_run(opened(tmp_path / "equal", equal, **facts), labels)
    assert said(found.whole) == expected(
        corrected_mean(*columns, kind="mean", clusters=np.arange(120) % 60, ends=UNIT)
    )


def test_prompts_in_the_same_words_are_no_cluster_if_what_they_show_is_another(
    tmp_path: Path,
) -> None:
    facts = {"environment": "score", "headline": "eval/mean_score", "headline_words": "mean score"}
    lines = [RANDOM, *(label(n, n % 4 / 4) for n in range(30))]
    places = np.arange(60)
    alone = corrected_mean(
        places % 5 / 5, np.where(places < 30, places % 4 / 4, np.nan), kind="mean", ends=UNIT
    )
    contexts = [
        row(f"row-{n}", n % 5 / 5, question="Sum it up", texts={"context": f"Page {n}"})
        for n in range(60)
    ]
    images = [
        row(f"row-{n}", n % 5 / 5, question="What is [image 1]?", task_digest=f"{n}")
        for n in range(60)
    ]
    for name, rows in {"contexts": contexts, "images": images}.items():
        found = correct_run(opened(tmp_path / name, rows, **facts), labelled(tmp_path, *lines))
        assert said(found.whole) == expected(alone)


def test_each_label_of_a_row_is_of_the_response_that_the_run_has(tmp_path: Path) -> None:
    run = of_run(tmp_path, [0.0, 1.0, 1.0])
    own = row_digest(next(iter(run.samples())))
    other = {**label(0, 1.0, row="of an earlier response"), "labeller": "ben"}
    with pytest.raises(DataError, match=r"row 'row-0' .*another response"):
        correct_run(run, labelled(tmp_path, RANDOM, other, label(0, 0.0, row=own), label(1, 1.0)))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([label(999, 1.0)], "row 'row-999' is not in"),
        ([label(999, None)], "row 'row-999' is not in"),
        ([label(0, 4.0)], "row 'row-0': .* from 0 to 1, found 4"),
        ([label(0, 1.0, row="other")], "row 'row-0' .*another response"),
        (
            [{"drawn": {**RANDOM["drawn"], "run": "other"}}, label(0, 1.0)],
            "from another run",
        ),
    ],
)
def test_labels_that_are_not_of_the_run_are_refused(
    tmp_path: Path, lines: list[Any], words: str
) -> None:
    with pytest.raises(DataError, match=words) as error:
        correct_run(of_run(tmp_path, [0.0, 1.0, 1.0]), labelled(tmp_path, *lines))
    assert "labels.jsonl" in str(error.value)


def test_labels_of_the_run_by_its_digests_are_taken(tmp_path: Path) -> None:
    run = of_run(tmp_path, [0.0, 1.0, 1.0])
    digests = {each.uid: row_digest(each) for each in run.samples()}
    drawn = {"drawn": {**RANDOM["drawn"], "run": run_digest(digests)}}
    assert (
        correct_run(run, labelled(tmp_path, drawn, label(0, 1.0), label(1, 0.0))).whole.labels == 2
    )
    drawn["drawn"]["run"] = "these rows and a failed one"
    lines = [label(n, 1.0, row=digests[f"row-{n}"]) for n in range(2)]
    assert correct_run(run, labelled(tmp_path, drawn, *lines)).whole.labels == 2


def test_labelled_rows_that_failed_are_left_out_and_said(tmp_path: Path) -> None:
    rows = [*(row(f"row-{n}", n % 2) for n in range(9)), sample("row-9", status="judge_failed")]
    labels = labelled(tmp_path, RANDOM, *(label(n, 1.0 - (n % 3 == 0)) for n in range(10)))
    found = correct_run(opened(tmp_path / "run", rows), labels)
    assert (found.left_out, found.whole.labels, found.whole.rows) == (1, 9, 9)
    assert "left out: 1, labelled rows" in make_fact(found)[1]


def test_rows_that_nobody_could_tell_are_said(tmp_path: Path) -> None:
    lines = [label(n, None if n < 3 else float(n % 2)) for n in range(20)]
    lines += [{**label(0, 1.0), "labeller": "ben"}, {**label(1, None), "labeller": "ben"}]
    found = correct_run(of_run(tmp_path), labelled(tmp_path, RANDOM, *lines))
    assert (found.undecided, found.whole.labels) == (2, 18)
    assert "cannot tell: 2, rows" in make_fact(found)[1]
    assert read_correction(of_run(tmp_path / "again", corrected=asdict(found))) == found


def test_runs_without_a_mean_over_rows_or_without_an_end_are_refused(tmp_path: Path) -> None:
    labels = labelled(tmp_path, RANDOM, label(0, 1.0))
    with pytest.raises(DataError, match="no mean"):
        correct_run(opened(tmp_path / "ratings", [sample("row-0")]), labels)
    path = run(tmp_path / "begun", [row("row-0", 1.0)])
    (path / "metrics.json").unlink()
    with pytest.raises(RunDirectoryError, match="is not finished"):
        correct_run(SavedRun.open(path), labels)


def test_a_correction_is_read_back_from_metrics_json(tmp_path: Path) -> None:
    found = correct_run(
        of_run(tmp_path), labelled(tmp_path, RANDOM, *(label(n, TRUTH[n]) for n in range(40)))
    )
    assert read_correction(of_run(tmp_path / "again", corrected=asdict(found))) == found
    assert read_correction(of_run(tmp_path / "without")) is None
    assert read_correction(of_run(tmp_path / "other", corrected={"whole": 3})) is None
