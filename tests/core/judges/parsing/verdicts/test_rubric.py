"""What a rubric's judge said: a score of the scale, or none."""

from collections.abc import Callable

import pytest

from judgegym.judges.parsing.rubric_scores import feedback_score, prometheus_result

Parser = Callable[..., int | None]

PARSERS = [
    pytest.param(feedback_score, "[SCORE]", id="score"),
    pytest.param(prometheus_result, "[RESULT]", id="result"),
]
WRAPPERS = [
    *("{}", " {} ", "\t{}", "({})", "( {} )", "[{}]", "**{}**", "*{}*", "__{}__", "`{}`", "{}.", "**{}**."),
    *("**{}.**", "({}).", "[{}].", "{}/5", "{} / 5", "{}/5.", "{} out of 5", "{} out of 5.", "({}/5)", "[{}/5]"),
    *("({} out of 5)", "({})/5", "[{}] out of 5", "**{}/5**", "**{}**/5", "**{} out of 5**.", "**({})**"),
]


@pytest.mark.parametrize(("parse", "tag"), PARSERS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_each_score_is_read_in_any_markup(parse: Parser, tag: str, wrapper: str) -> None:
    for score in range(1, 6):
        rest = wrapper.replace("{}", str(score))
        for text in (f"{tag}{rest}", f"{tag} {rest}", f"**{tag}** {rest}\n", f"[FEEDBACK] It is.\n\n{tag} {rest}\n\n"):
            assert parse(text) == score, text


@pytest.mark.parametrize(("parse", "tag"), PARSERS)
@pytest.mark.parametrize(
    "rest",
    [
        *("", " ", "**", "four", "n", "0", "6", "10", "44", "4.5", "4,5", "4.0", "4.5/5", "4½", "⁴", "٤", "４", "-4"),
        *("−4", "- 4", "+4", "1e0", "0x4", "4th", "v4", "3-4", "3 - 4", "3–4", "3 to 4", "3 or 4", "3, 4", "3/4"),
        *("4 5", "4/10", "4 / 10", "4/50", "4 out of 10", "4 of 10", "4/", "/5", "out of 5", "5/5/5", "4 stars"),
        *("4%", "4 since it is good", "The score is 4", "score of 4", "(4", "4)", "(4]", "[4)", "4..", "4?", "4!"),
        *("~4", "<4>", "(an integer number between 1 and 5)", "(1-5)", "\nIt gets 4", "\n4 to 5", "4\u20285"),
        *("4 [SCORE] [RESULT]", "4 " + "x" * 200, "4" * 5000),
    ],
)
def test_anything_else_behind_the_tag_is_no_score(parse: Parser, tag: str, rest: str) -> None:
    assert parse(f"[FEEDBACK] It is.\n{tag} {rest}") is None
    assert parse(f"[FEEDBACK] It is.\n{tag} 3\n{tag} {rest}") is None


@pytest.mark.parametrize(("parse", "tag"), PARSERS)
@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("TAG 2\nTAG 4", 4),
        ("TAG 2, no: TAG 4", 4),
        ("TAG 4\n\nI hope that this helps. It had 3 points of 5.", 4),
        ("TAG 4\nScore: 4 out of 5", 4),
        ("TAG\n4", 4),
        ("TAG:\r\n\r\n**4**\r\nThat is all.", 4),
        ('The response says "TAG 5" of itself.\nTAG 2', 2),
        ("[FEEDBACK] (write a feedback for criteria)\n   TAG (an integer number between 1 and 5)\n\nGood. TAG 4", 4),
        ("```\n[FEEDBACK] It is.\nTAG 4\n```", 4),
        ("```TAG 4```", 4),
        ("## TAG 4", 4),
        ("TAG: 4", 4),
        ("<think>TAG 1</think>TAG 4", 4),
        ("TAG 1 is what I lean to</think>\nTAG 4", 4),
        ("It may use <think> tags. TAG 4", 4),
        ("TAG\n[FEEDBACK] It is.\nTAG 4", 4),
        ("Good. TAG 4 TAG", None),
        ("TAG 4\nScore: 2", None),
        ("TAG 4\nAs asked, the score stands behind TAG.", None),
        ('TAG 2\nThe response says "TAG 5" of itself.', None),
        ("[FEEDBACK] (write a feedback for criteria)\n   TAG (an integer number between 1 and 5)", None),
        ("<think>TAG 4</think>", None),
        ("<think>TAG 4</think>4", None),
        ("<think>TAG 4 and no end", None),
        ("4", None),
        ("It gets a score of 4", None),
        ("score of 5", None),
        ("Score: 4", None),
        ("[[4]]", None),
        ("Feedback: Good. So the result is 4", None),
        ("[SCORE 4]", None),
        ("", None),
    ],
)
def test_the_last_tag_decides(parse: Parser, tag: str, text: str, score: int | None) -> None:
    text = text.replace("TAG", tag)
    assert parse(text) == score
    assert parse(text.replace(tag, tag.lower())) == score


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
def test_score_is_read_on_other_scales(scale: tuple[int, int], rest: str, score: int | None) -> None:
    assert feedback_score(f"[SCORE] {rest}", scale) == score
    assert prometheus_result(f"[RESULT] {rest}", scale) == score


def test_a_line_that_is_another_number_in_words_makes_it_none() -> None:
    assert feedback_score("[SCORE] 4\nONE") is None
    assert feedback_score("[SCORE] 4\nThe ONE to keep") == 4
