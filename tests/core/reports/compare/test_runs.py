"""What is compared, and what a comparison says: recomputed here from the rows."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from judgegym.engine.completions import Completion
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.compare.comparison import NotComparableError
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.paired import holm
from tests.core.engine.samples_of import sample
from tests.core.reports.compare.written import compare_runs, opened, row, rows_of, run

DRAW = random.Random(15)
FIRST = [DRAW.choice((0.0, 0.5, 0.75, 1.0)) for _ in range(60)]
SECOND = [DRAW.choice((value, value, 1.0, 0.25)) for value in FIRST]


def compared(
    folder: Path, *values: list[float], across: tuple[str, ...] = (), most: int = 10
) -> Any:
    runs = [opened(folder / str(number), rows_of(each)) for number, each in enumerate(values)]
    return compare_runs(runs, across=across, rounds=500, most=most)  # type: ignore[arg-type]


def only(comparison: Any) -> Any:
    (found,) = comparison.differences
    return found


def outcome(value: float) -> str:
    return "won" if value > 0.5 else "lost" if value < 0.5 else "tied"


def test_headlines_difference_and_tests_are_those_of_the_rows(tmp_path: Path) -> None:
    found = compared(tmp_path, FIRST, SECOND)
    first, second = sum(FIRST) / 60, sum(SECOND) / 60
    assert [each.headline for each in found.runs] == pytest.approx([first, second])
    difference = only(found)
    assert difference.difference.value == pytest.approx(second - first)
    interval = difference.difference.interval
    assert interval is not None and interval.low < second - first < interval.high
    changes = [after - before for before, after in zip(FIRST, SECOND, strict=True)]
    higher, lower = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    assert (difference.higher, difference.lower, difference.same) == (
        higher,
        lower,
        60 - higher - lower,
    )
    sign, wilcoxon = (result.test for result in difference.tests)
    assert (sign.name, wilcoxon.name) == ("sign", "wilcoxon")
    assert sign.p == pytest.approx(stats.binomtest(higher, higher + lower).pvalue)
    assert wilcoxon.p == pytest.approx(stats.wilcoxon(SECOND, FIRST).pvalue)


def test_flips_are_counted_by_both_outcomes(tmp_path: Path) -> None:
    found = only(compared(tmp_path, FIRST, SECOND))
    pairs = [(outcome(before), outcome(after)) for before, after in zip(FIRST, SECOND, strict=True)]
    assert len(found.transitions) == 9
    for each in found.transitions:
        assert each.rows == pairs.count((each.before, each.after))


def two(folder: Path, first: list[Any], second: list[Any], **options: Any) -> Any:
    return compare_runs(
        [opened(folder / "0", first), opened(folder / "1", second)], rounds=100, **options
    )


def test_a_row_counts_by_its_weight(tmp_path: Path) -> None:
    found = two(
        tmp_path, [row("a", 0.0, weight=3.0), row("b", 1.0)], [row("a", 1.0), row("b", 1.0)]
    )
    assert [each.headline for each in found.runs] == [0.25, 1.0]
    assert only(found).difference.value == 0.75


def test_rows_that_a_run_lacks_or_has_failed_are_left_out_and_counted(tmp_path: Path) -> None:
    first = [
        row("a", 1.0),
        row("b", 0.0),
        row("c", 0.0),
        row("only-here", 1.0),
        sample("no-share", headline=None),
    ]
    second = [
        row("a", 1.0),
        row("b", 1.0),
        sample("c", "judge_failed"),
        row("other", 0.0),
        row("another", 0.0),
    ]
    found = two(tmp_path, first, second)
    assert found.rows == 2
    one, other = found.runs
    assert (one.rows, one.failed, one.uncounted, one.not_shared, one.headline) == (5, 0, 1, 2, 0.5)
    assert (other.rows, other.failed, other.uncounted, other.not_shared, other.headline) == (
        5,
        1,
        0,
        2,
        1.0,
    )


def test_a_row_without_an_answer_or_in_the_wrong_format_counts_where_it_counts_in_the_result(
    tmp_path: Path,
) -> None:
    """A policy that judges and gives no verdict is wrong (`policy_failed` with a share)."""
    for status in ("policy_failed", "invalid_completion"):
        second = [row("a", 0.0, status=status), row("b", 1.0)]
        found = two(tmp_path / status, [row("a", 1.0), row("b", 1.0)], second)
        assert (found.rows, found.runs[1].failed, only(found).difference.value) == (2, 0, -0.5)


def test_with_three_runs_rows_that_all_have_are_compared_and_p_values_are_corrected(
    tmp_path: Path,
) -> None:
    values = [FIRST, SECOND, [1.0] * 50]
    found = compared(tmp_path, *values)
    assert found.rows == 50
    assert [each.letter for each in found.differences] == ["B", "C"]
    for number in range(2):
        results = [each.tests[number] for each in found.differences]
        p_values = [result.test.p or 0.0 for result in results]
        assert [result.corrected for result in results] == pytest.approx(holm(p_values))
    assert any("corrected" in note for note in found.notes)
    assert only(compared(tmp_path / "two", FIRST, SECOND)).tests[0].corrected is None


def test_values_of_0_and_1_make_a_pass_rate_with_mcnemars_test(tmp_path: Path) -> None:
    first, second = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    facts = {"headline": "eval/percent_correct", "headline_words": "correct"}
    runs = [
        opened(tmp_path / str(place), rows_of(each), **facts)
        for place, each in enumerate((first, second))
    ]
    found = compare_runs(runs, rounds=100)
    assert found.kind == "pass_rate"
    assert [result.test.name for result in only(found).tests] == ["mcnemar"]
    assert only(found).tests[0].test.p == pytest.approx(stats.binomtest(1, 4).pvalue)
    moved = {(each.before, each.after): each.rows for each in only(found).transitions}
    assert moved == {("0", "0"): 0, ("0", "1"): 3, ("1", "0"): 1, ("1", "1"): 2}


def test_other_values_are_scores_which_go_up_or_down(tmp_path: Path) -> None:
    from sklearn.metrics import cohen_kappa_score

    facts = {"headline": "eval/mean_reward", "headline_words": "reward"}
    runs = [
        opened(tmp_path / str(place), rows_of(each), **facts)
        for place, each in enumerate(([1, 2, 5], [3, 2, 4]))
    ]
    found = compare_runs(runs, rounds=100, across=("judge",))
    assert (found.kind, only(found).transitions) == ("score", [])
    assert (only(found).higher, only(found).lower, only(found).same) == (1, 1, 1)
    agreement = only(found).agreement
    assert agreement is not None and agreement.same == pytest.approx(1 / 3)
    expected = cohen_kappa_score([1, 2, 5], [3, 2, 4], labels=[1, 2, 3, 4, 5], weights="quadratic")
    assert agreement.kappa == pytest.approx(expected)


def test_categories_are_compared_each_by_itself(tmp_path: Path) -> None:
    first = [
        row("a", 0.0),
        row("b", 1.0, category="code"),
        row("c", 0.0),
        row("d", 1.0, category=None),
    ]
    second = [
        row("a", 1.0),
        row("b", 1.0, category="code"),
        row("c", 0.0),
        row("d", 0.0, category=None),
    ]
    found = only(two(tmp_path, first, second))
    assert [(each.name, each.rows, each.difference.value) for each in found.categories] == [
        ("code", 1, 0.0),
        ("math", 2, 0.5),
        (None, 1, -1.0),
    ]
    assert found.categories[0].difference.interval is None
    assert found.categories[0].difference.reason.startswith("fewer than two")
    assert found.categories[1].difference.interval is not None


def test_the_rows_that_changed_most_come_first_with_the_start_of_their_question(
    tmp_path: Path,
) -> None:
    first = [row("a", 0.5), row("b", 0.0), row("c", 1.0), row("d", 0.25)]
    question = "What\n is\tthis? " + "Long. " * 100
    second = [row("a", 0.25), row("b", 1.0), row("c", 1.0), row("d", 0.75)]
    runs = [
        opened(tmp_path / str(place), [*rows, row("e", place, question=question)])
        for place, rows in enumerate((first, second))
    ]
    found = only(compare_runs(runs, rounds=100, most=4)).changed
    assert [(each.uid, each.before, each.after) for each in found] == [
        ("b", 0.0, 1.0),
        ("e", 0.0, 1.0),
        ("d", 0.25, 0.75),
        ("a", 0.5, 0.25),
    ]
    assert found[0].start == "Question of b"
    assert found[1].start.startswith("What is this? Long.") and len(found[1].start) == 100
    assert [each.uid for each in only(compare_runs(runs, rounds=100, most=1)).changed] == ["b"]


def test_it_says_how_many_more_rows_would_settle_it(tmp_path: Path) -> None:
    found = only(compared(tmp_path, FIRST, [1.0 - value for value in FIRST]))
    assert found.needed.rows is not None and found.more == max(0, found.needed.rows - 60)
    equal = only(compared(tmp_path / "equal", FIRST, FIRST))
    assert (equal.needed.rows, equal.more, equal.settled) == (None, None, False)
    assert "no number" in equal.needed.reason
    assert "equal values" in equal.tests[0].test.reason
    sure = only(compared(tmp_path / "sure", [0.0, 0.5] * 30, [1.0, 0.75] * 30))
    assert (sure.settled, sure.more) == (True, 0)


def test_across_judges_says_how_far_the_judges_agree(tmp_path: Path) -> None:
    from sklearn.metrics import cohen_kappa_score

    first, second = opened(tmp_path / "0", rows_of(FIRST)), opened(
        tmp_path / "1", rows_of(SECOND), judge_model_name="b-judge"
    )  # fmt: skip
    found = compare_runs([first, second], across=("judge",), rounds=100)
    agreement = only(found).agreement
    assert agreement is not None and agreement.weighted
    sides = [
        [("lost", "tied", "won").index(outcome(value)) for value in values]
        for values in (FIRST, SECOND)
    ]
    assert agreement.kappa == pytest.approx(
        cohen_kappa_score(*sides, labels=[0, 1, 2], weights="quadratic")
    )
    assert agreement.same == pytest.approx(
        sum(one == other for one, other in zip(*sides, strict=True)) / 60
    )
    assert agreement.correlation == pytest.approx(stats.spearmanr(FIRST, SECOND).statistic)
    assert [(each.name, each.reference, each.run) for each in found.differing] == [
        ("env.judge_model_name", "a-judge", "b-judge")
    ]


def test_judges_of_other_answers_do_not_agree_or_disagree(tmp_path: Path) -> None:
    sides = [
        rows_of(values, completions=(Completion(f"by {policy}"),))
        for values, policy in ((FIRST, 1), (SECOND, 2))
    ]
    both = [
        opened(tmp_path / str(n), rows, judge_model_name=f"judge-{n}")
        for n, rows in enumerate(sides)
    ]
    found = compare_runs(both, across=("judge",), rounds=100)
    assert only(found).agreement is None
    assert any("A in 0 of 60 rows" in note for note in found.notes)


def test_agreement_that_is_undefined_has_a_reason(tmp_path: Path) -> None:
    agreement = only(compared(tmp_path, [1.0, 1.0], [1.0, 1.0], across=("judge",))).agreement
    assert agreement is not None and (agreement.kappa, agreement.correlation) == (None, None)
    assert "the same value" in agreement.kappa_reason
    assert "one side gives 1 to every item" in agreement.correlation_reason


def test_equal_answers_are_said_to_be_equal_and_equal_seeds_give_equal_comparisons(
    tmp_path: Path,
) -> None:
    first, again = compared(tmp_path, FIRST, SECOND), compared(tmp_path / "again", FIRST, SECOND)
    assert any("the same answers" in note for note in first.notes)
    assert first.differences == again.differences
    others = [row(f"row-{number}", value, completions=()) for number, value in enumerate(SECOND)]
    assert not any(
        "answers" in note for note in two(tmp_path / "others", rows_of(FIRST), others).notes
    )


@pytest.mark.slow
def test_of_rows_numbers_are_kept_and_no_text(tmp_path: Path) -> None:
    """1,000 rows of 20,000 characters in each run: 40 MB of text, of which no list is made."""
    text = "A long answer. " * 1400
    for name in ("0", "1"):
        run(
            tmp_path / name,
            [row(f"row-{place}", place % 2, question=text) for place in range(1000)],
        )
    runs = [SavedRun.open(tmp_path / name) for name in ("0", "1")]
    compare_runs(runs, rounds=100)  # what is imported at the first use is not counted
    tracemalloc.start()
    try:
        compare_runs(runs, rounds=100)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


def test_runs_that_cannot_be_compared_are_refused_with_the_reason(tmp_path: Path) -> None:
    good = [row("a", 1.0)]
    one = opened(tmp_path / "0", good)
    unfinished = opened(tmp_path / "unfinished", good)
    (unfinished.path / "metrics.json").unlink()
    anything: Any = ("judge", "protocol", "data")
    cases: Sequence[tuple[Sequence[SavedRun], str]] = [
        ([one], "expected two runs"),
        ([one, SavedRun.open(tmp_path / "0" / ".." / "0")], "given twice"),
        ([one, opened(tmp_path / "1", [row("b", 1.0)])], "share no row"),
        ([one, SavedRun.open(unfinished.path)], "unfinished is not finished"),
        ([one, opened(tmp_path / "e", good, environment="another")], "another"),
        ([one, opened(tmp_path / "h", good, headline="eval/another")], "another"),
    ]
    for runs, why in cases:
        with pytest.raises(NotComparableError, match=why):
            compare_runs(runs, across=anything)
    former = opened(tmp_path / "former", [sample("a")])
    with pytest.raises(
        RunDirectoryError,
        match=r"former: no line .* adds to eval/overall_winrate.*--resume adds it",
    ):
        compare_runs([one, former])
    with pytest.raises(RunDirectoryError, match=r"failed: .*nothing to compare"):
        compare_runs([one, opened(tmp_path / "failed", [sample("a", "judge_failed")])])


def test_a_run_that_has_lost_lines_is_named(tmp_path: Path) -> None:
    rows = [row("a", 1.0), row("b", 0.0), sample("c", "judge_failed")]
    runs = [opened(tmp_path / name, rows, rows={"selected": 3}) for name in ("0", "1")]
    assert compare_runs(runs, rounds=100).rows == 2
    lines = (tmp_path / "1" / "samples.jsonl").read_bytes()
    (tmp_path / "1" / "samples.jsonl").write_bytes(b"".join(lines.splitlines(keepends=True)[:-1]))
    with pytest.raises(RunDirectoryError, match=r"1: metrics.json is of 3 rows, and .* hold 2"):
        compare_runs(runs)
