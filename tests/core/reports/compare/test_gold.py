"""`compare --gold`: how far each run agrees with the gold labels of the rows that all share."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from judgegym.engine.metrics import GoldLabel
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.compare.__main__ import main
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.paired import kappa_interval
from tests.core.reports.compare.written import compare_runs, row, run

GOLD = ["ABCD"[number % 4] for number in range(200)]


def judged(path: Path, letters: Sequence[str | None], seed: int = 0) -> Path:
    """A run whose judge said these letters, each row in two orders."""
    rows = []
    for number, (gold, letter) in enumerate(zip(GOLD, letters, strict=True)):
        labels = (
            GoldLabel.from_labels(gold, letter, "as_shown"),
            GoldLabel.from_labels(gold, letter, "reversed"),
        )
        rows.append(row(f"row-{number}", float(letter == gold), gold=labels))
    return run(path, rows)


def drawn(seed: int, share: float) -> list[str]:
    numbers = random.Random(seed)
    return [gold if numbers.random() < share else numbers.choice("ABCD") for gold in GOLD]


@pytest.mark.slow
def test_agreement_of_each_run_with_gold_and_its_difference(tmp_path: Path) -> None:
    from sklearn.metrics import cohen_kappa_score

    letters = [drawn(1, 0.5), [*drawn(2, 0.8)[:-1], None]]
    runs = [
        SavedRun.open(judged(tmp_path / str(place), each)) for place, each in enumerate(letters)
    ]
    found = compare_runs(runs, with_gold=True, rounds=2000).gold
    assert found is not None
    assert (found.labels, found.rows, found.without, found.weighted) == (398, 199, 2, False)
    for agreement, said in zip(found.runs, letters, strict=True):
        right = [gold == letter for gold, letter in zip(GOLD, said, strict=True)][:-1]
        assert agreement.accuracy == pytest.approx(np.mean(right))
        assert agreement.kappa == pytest.approx(cohen_kappa_score(GOLD[:-1], said[:-1]))
        for value, interval in (
            (agreement.accuracy, agreement.interval),
            (agreement.kappa, agreement.kappa_interval),
        ):
            assert interval is not None and value is not None
            width = interval.high - interval.low
            assert interval.low < value < interval.high and 0.05 < width < 0.25
    (difference,) = found.differences
    assert difference.accuracy.value == pytest.approx(
        found.runs[1].accuracy - found.runs[0].accuracy
    )
    assert difference.accuracy.interval is not None and difference.accuracy.interval.low > 0
    assert difference.test.test.name == "mcnemar" and (difference.test.test.p or 1) < 0.001


def test_runs_with_another_gold_of_a_row_are_refused(tmp_path: Path) -> None:
    facts = {"environment": "score", "headline": "eval/mean_score", "headline_words": "mean score"}
    paths = []
    for name, gold in {"a": 3.0, "b": 2.0}.items():
        labels = [(GoldLabel("", 5.0 if n else gold, 3.0, bool(n)),) for n in range(4)]
        paths.append(
            run(
                tmp_path / name,
                [row(f"row-{n}", 0.5, gold=each) for n, each in enumerate(labels)],
                **facts,
            )
        )
    words = f"{paths[1]}: .*gold label of row-0 is 2.0, .*{paths[0]} it is 3.0"
    with pytest.raises(RunDirectoryError, match=words):
        compare_runs([SavedRun.open(path) for path in paths], with_gold=True, rounds=100)


@pytest.mark.slow
def test_kappa_of_scores_has_quadratic_weights_and_labels_of_a_row_are_drawn_together() -> None:
    from sklearn.metrics import cohen_kappa_score

    numbers = random.Random(3)
    gold = [float(numbers.randint(1, 5)) for _ in range(120)]
    judge = [max(1.0, min(5.0, each + numbers.choice([-1, 0, 0, 1]))) for each in gold]
    first, second = np.asarray(gold)[:, None], np.asarray(judge)[:, None]
    single = kappa_interval([(first, second)], range(120))
    assert isinstance(single, tuple) and single[1] is not None
    assert single[0] == pytest.approx(
        cohen_kappa_score(list(map(int, gold)), list(map(int, judge)), weights="quadratic")
    )
    twice = kappa_interval(
        [(np.repeat(first, 4, 0), np.repeat(second, 4, 0))], np.repeat(np.arange(120), 4).tolist()
    )
    assert isinstance(twice, tuple) and twice[1] is not None
    widths = [each[1].high - each[1].low for each in (single, twice) if each[1] is not None]
    assert widths[1] == pytest.approx(widths[0], rel=0.1), (
        "four equal labels of a row say what one says"
    )
    assert "the same label" in str(kappa_interval([(first[:1] * 0, second[:1] * 0)], [0]))


def test_command_prints_it_and_writes_it_to_page_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(judged(tmp_path / name, drawn(seed, 0.6))) for name, seed in (("a", 1), ("b", 2))]
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    assert (
        main(
            [*words, "--gold", f"--html={page}", f"--json={numbers}", "--rounds=200"],
            prog="compare",
        )
        == 0
    )
    printed = " ".join(capsys.readouterr().out.split())
    assert "gold on 400 labels of 200 rows (accuracy)" in printed
    found = json.loads(numbers.read_bytes())["gold"]
    for agreement in found["runs"]:
        for value in (agreement["accuracy"], agreement["kappa"]):
            assert f"{value:.4f}" in printed and f"{value:.4f}" in page.read_text()
    assert (
        "B: McNemar's exact test: p " in printed
        and "B: McNemar&#39;s exact test: p " in page.read_text()
    )


@pytest.mark.slow
def test_runs_without_gold_labels_are_refused_with_the_way_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        str(run(tmp_path / name, [row("row-1", 1.0), row("row-2", 0.0)])) for name in ("a", "b")
    ]
    assert main([*words, "--gold"], prog="compare") == 2
    assert "no shared row" in capsys.readouterr().err
    assert main(words, prog="compare") == 0
