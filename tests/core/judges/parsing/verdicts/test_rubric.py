"""What a rubric's judge said: a score of the scale, or none."""

import pytest

from judgegym.judges.parsing.rubric_scores import feedback_score, prometheus_result


def test_a_format_does_not_read_the_other_ones_tag() -> None:
    assert feedback_score("Feedback: It is. [RESULT] 4") is None
    assert prometheus_result("[FEEDBACK] It is. [SCORE] 4") is None
    assert feedback_score("[RESULT] 4\n[SCORE] 3") == 3
    assert feedback_score("[SCORE] 3\n[RESULT] 4") is None
    assert prometheus_result("[RESULT] 4\n[SCORE] 3") is None


@pytest.mark.parametrize(
    ("scale", "rest", "score"),
    [
        ((0, 10), "0", 0),
        ((0, 10), "10", 10),
        ((0, 10), "7/10", 7),
        ((0, 10), "11", None),
        ((0, 10), "-1", None),
        ((0, 10), "7/100", None),
        ((1, 100), "(85/100)", 85),
        ((1, 100), "101", None),
        ((1, 100), "85/10", None),
        ((1, 100), "80-85", None),
        ((-2, 2), "-2", -2),
        ((-2, 2), "**-1**", -1),
        ((-2, 2), "-2/2.", -2),
        ((-2, 2), "-3", None),
        ((-2, 2), "3", None),
        ((-2, 2), "1-2", None),
        ((-2, 2), "--1", None),
        ((5, 7), "4", None),
    ],
)
def test_score_is_read_on_other_scales(
    scale: tuple[int, int], rest: str, score: int | None
) -> None:
    assert feedback_score(f"[SCORE] {rest}", scale) == score
    assert prometheus_result(f"[RESULT] {rest}", scale) == score


def test_a_line_that_is_another_number_in_words_makes_it_none() -> None:
    assert feedback_score("[SCORE] 4\nONE") is None
    assert feedback_score("[SCORE] 4\nThe ONE to keep") == 4
