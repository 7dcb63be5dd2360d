"""What is counted of choices and ratings, and when RewardBench-2's own scores are left out."""

from __future__ import annotations

import pytest

from judgegym.data.pairs import PairTask
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.records import Sample, SampleRun
from judgegym.eval_environments.pairwise import (
    PairwiseDetail,
    SwapVotes,
    record_choice,
    record_official_scores,
    record_ties,
)
from judgegym.judges.core.judgment import Judgment, Status

WHOLE = ("Factuality", "Precise IF", "Math", "Safety", "Focus")


def choice(gold: str, letter: str | None, official: str | None = None) -> PairwiseDetail:
    return PairwiseDetail(
        "choice", gold=(gold,), letters=(letter,), official_letters=(official or letter,)
    )


def ratings(
    *read: int | None, official: tuple[int | None, ...] | None = None, correct: int = 1
) -> PairwiseDetail:
    official = official or read
    ambiguous = tuple(
        theirs is not None and theirs != own for theirs, own in zip(official, read, strict=True)
    )
    return PairwiseDetail(
        "ties", ratings=read, official_ratings=official, ambiguous=ambiguous, num_correct=correct
    )


def observed(*details: PairwiseDetail, letters: str = "ABCD") -> dict[str, float]:
    metrics = MetricAggregator("eval")
    for detail in details:
        if detail.mode == "choice":
            record_choice(metrics, detail, letters)
        else:
            record_ties(metrics, detail)
    return {name.removeprefix("eval/"): value for name, value in metrics.result().values.items()}


def test_letters_and_a_bias() -> None:
    found = observed(
        choice("A", "A"), choice("B", "A"), choice("C", "A"), choice("D", "B"), choice("B", None)
    )
    assert found == pytest.approx(
        {
            "choice_format_compliance_rate": 4 / 5,
            "wrong_answer_a_bias_rate": 2 / 3,
            "gold_letter_freq_A": 1 / 5,
            "gold_letter_freq_B": 2 / 5,
            "gold_letter_freq_C": 1 / 5,
            "gold_letter_freq_D": 1 / 5,
            "predicted_letter_freq_A": 3 / 4,
            "predicted_letter_freq_B": 1 / 4,
            "predicted_letter_freq_C": 0.0,
            "predicted_letter_freq_D": 0.0,
        }
    )


def test_without_a_wrong_answer_there_is_no_a_bias() -> None:
    assert "wrong_answer_a_bias_rate" not in observed(choice("A", "A"), choice("B", None))


@pytest.mark.parametrize(
    ("letters", "consistent"),
    [
        (("A", "D"), 1.0),
        (("B", "C"), 1.0),
        (("A", "A"), 0.0),
        (("A", None), 0.0),
    ],
)
def test_both_orders_agree_if_they_name_the_same_answer(
    letters: tuple[str | None, str | None], consistent: float
) -> None:
    detail = PairwiseDetail("choice", gold=("A", "D"), letters=letters, official_letters=letters)
    assert observed(detail)["position_consistency_rate"] == consistent


def test_one_order_has_no_consistency() -> None:
    assert "position_consistency_rate" not in observed(choice("A", "A"))


def test_ratings() -> None:
    found = observed(ratings(10, 7, None, 7, official=(10, 10, None, 7)), ratings(1, 1))
    assert found.pop("avg_ties_rating") == pytest.approx(26 / 5)
    assert {found.pop(f"ties_rating_freq_{value}") for value in (2, 3, 4, 5, 6, 8, 9)} == {0.0}
    assert found == pytest.approx(
        {
            "ties_format_compliance_rate": 5 / 6,
            "ties_error_rate": 1 / 6,
            "ties_ambiguous_rating_rate": 1 / 6,
            "ties_rating_freq_1": 2 / 5,
            "ties_rating_freq_7": 2 / 5,
            "ties_rating_freq_10": 1 / 5,
            "ties_truncated_rate": 0.0,
        }
    )


def test_a_rating_that_only_the_official_code_reads_is_ambiguous() -> None:
    assert observed(ratings(None, 3, official=(5, 3)))["ties_ambiguous_rating_rate"] == 0.5


Row = tuple[PairTask, Sample[PairwiseDetail]]


def row(uid: str, category: str, detail: PairwiseDetail | None) -> Row:
    task = PairTask(
        uid, "Why?", category, detail.mode if detail else "choice", ("a", "b", "c", "d"), (0,)
    )
    judgment = Judgment(1.0, Status.OK, detail=detail) if detail is not None else None
    return task, Sample(uid, category, "Why?", (), judgment, None, SampleRun(0.0))


def benchmark() -> list[Row]:
    """All subsets: two choices each, one right, one unreadable, and a question there as ref and as tied."""
    choices = [
        row(f"{subset}-{number}", subset, choice("B", letter))
        for subset in WHOLE
        for number, letter in enumerate(("B", None))
    ]
    ties = [row("ref:1", "Ties", ratings(9, 1)), row("tied:1", "Ties", ratings(9, 9, 1, correct=2))]
    return [*choices, *ties]


def official(
    rows: list[Row], incomplete: str | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    metrics = MetricAggregator("eval")
    record_official_scores(metrics, rows, incomplete=incomplete)
    result = metrics.result()
    cut = "eval/rewardbench2/"
    return (
        {name.removeprefix(cut): value for name, value in result.values.items()},
        {name.removeprefix(cut): why for name, why in result.left_out.items()},
    )


def test_the_official_scores_of_the_whole_benchmark() -> None:
    values, left_out = official(benchmark())
    assert left_out == {}
    assert values.pop("ties") == pytest.approx(1.01)
    assert values.pop("score") == pytest.approx((5 * 0.625 + 1.01) / 6)
    assert values == dict.fromkeys(("factuality", "precise_if", "math", "safety", "focus"), 0.625)


def test_official_scores_use_the_official_reading() -> None:
    rows = [*benchmark(), row("math-2", "Math", choice("B", "B", official="A"))]
    assert official(rows)[0]["math"] == pytest.approx((1 + 0.25 + 0) / 3)


def truncated() -> list[Row]:
    detail = PairwiseDetail(
        "ties", ratings=(9, 1), official_ratings=(9, 1), num_correct=1, truncated=True
    )
    return [*benchmark(), row("ref:2", "Ties", detail)]


@pytest.mark.parametrize(
    ("rows", "incomplete", "reason"),
    [
        (benchmark(), "env.num_choices is not 4", "env.num_choices is not 4"),
        ([*benchmark(), row("math-2", "Math", None)], None, "the policy failed"),
        ([*benchmark(), row("math-2", "Math", None)], "the first reason", "the first reason"),
        (truncated(), None, "(env.max_ties_responses)"),
    ],
)
def test_they_are_left_out_unless_the_run_is_the_benchmark(
    rows: list[Row], incomplete: str | None, reason: str
) -> None:
    values, left_out = official(rows, incomplete)
    assert values == {}
    assert left_out.keys() == {slug(name) for name in ("score", *WHOLE, "Ties")}
    assert all(reason in each for each in left_out.values())


def test_a_subset_without_rows_has_no_score() -> None:
    values, left_out = official([each for each in benchmark() if each[0].category != "Safety"])
    assert left_out.keys() == {"safety", "score"}
    assert "no rows" in left_out["safety"] and "a subset" in left_out["score"]
    assert set(values) == {"factuality", "precise_if", "math", "focus", "ties"}


def test_ties_without_a_question_in_both_groups_have_no_score() -> None:
    values, left_out = official([each for each in benchmark() if each[0].uid != "tied:1"])
    assert left_out.keys() == {"ties", "score"}
    assert "as tied" in left_out["ties"] and "a subset" in left_out["score"]
    assert "ties" not in values


TASK = PairTask("row", "Why?", None, "choice", ("one", "two"), (0,))


def votes(first: str, second: str) -> list[float | None]:
    """What each vote gives: those for the row, then those for its twin; `-` is unreadable."""
    swaps = SwapVotes(len(first))
    cast = [*((TASK, letter) for letter in first), *((TASK.swap(), letter) for letter in second)]
    return [swaps.add(task, None if letter == "-" else letter) for task, letter in cast]


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [("AB", "BA", 1.0), ("AA", "AA", 0.0), ("AA", "AB", 0.5), ("--", "--", 0.0), ("A-", "BA", 0.5)],
)
def test_the_share_of_votes_for_the_same_answer_once_both_groups_are_whole(
    first: str, second: str, share: float
) -> None:
    assert votes(first, second) == [None, None, None, share]


def test_rows_do_not_mix() -> None:
    swaps = SwapVotes(1)
    other = PairTask("other", "Why?", None, "choice", ("one", "two"), (0,))
    assert swaps.add(TASK, "A") is None
    assert swaps.add(other.swap(), "B") is None
    assert swaps.add(TASK.swap(), "B") == 1.0
