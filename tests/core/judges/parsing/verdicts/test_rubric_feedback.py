"""What a rubric's judge said: its words, those before them, and whether it kept to its format."""

import pytest

from judgegym.judges.parsing.rubric_scores import (
    RubricFormat,
    cut_feedback,
    feedback_text,
    is_strict_feedback,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[FEEDBACK] It is good.\n\n[SCORE] 4", "It is good."),
        ("[FEEDBACK]\nIt is\n\ngood.\n[SCORE] 4\n", "It is\n\ngood."),
        ("**[FEEDBACK]** It is good.\n\n**[SCORE]** 4", "It is good."),
        ("Feedback: It is good. [RESULT] 4", "It is good."),
        ("Sure!\n  Feedback: It is good. [RESULT] 4", "It is good."),
        ("It is good.\n[SCORE] 4", "It is good."),
        ("[FEEDBACK] It is good.", "It is good."),
        ("Feedback: It is good.", "It is good."),
        (
            "[FEEDBACK] (write a feedback for criteria) [SCORE] (1-5)\n[FEEDBACK] It is good. "
            "[SCORE] 4",
            "It is good.",
        ),
        (
            "[FEEDBACK] It is.\n[SCORE] 2\nNo, rather:\n[FEEDBACK] It is good.\n[SCORE] 4",
            "It is good.",
        ),
        ("[FEEDBACK] It says [SCORE] 5 of itself.\n[SCORE] 2", "It says [SCORE] 5 of itself."),
        ("<think>[FEEDBACK] Hm. [SCORE] 1</think>[FEEDBACK] It is good. [SCORE] 4", "It is good."),
        ("[FEEDBACK] **Right**, and **short**. [SCORE] 4", "**Right**, and **short**."),
        ("[FEEDBACK]\n* Right.\n* Short.\n\n[SCORE] 4", "* Right.\n* Short."),
        (
            "[FEEDBACK] It is right, and it is **short**\n[SCORE] 4",
            "It is right, and it is **short**",
        ),
        ("[FEEDBACK]\n\n[SCORE] 4", None),
        ("[SCORE] 4", None),
        ("[FEEDBACK]", None),
        ("It is good.", None),
        ("<think>[FEEDBACK] Hm. [SCORE] 1</think>", None),
        ("", None),
    ],
)
def test_feedback_is_the_text_between_the_tags(text: str, words: str | None) -> None:
    assert feedback_text(text) == words


STRICT: list[tuple[str, RubricFormat, bool]] = [
    ("[FEEDBACK] It is good.\n\n[SCORE] 4", "feedback_score", True),
    ("[FEEDBACK] It is good. [SCORE] 4", "feedback_score", True),
    ("[FEEDBACK]\nIt is\n\ngood.\n[SCORE] 4\n", "feedback_score", True),
    ("<think>Hm.</think>\n[FEEDBACK] It is good.\n[SCORE] 4", "feedback_score", True),
    ("Feedback: It is good. [RESULT] 4", "result", True),
    ("Feedback: It is good. [RESULT] 4", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] 4", "result", False),
    ("[FEEDBACK] It is good. [RESULT] 4", "feedback_score", False),
    ("Feedback: It is good. [SCORE] 4", "result", False),
    ("[feedback] It is good. [score] 4", "feedback_score", False),
    ("**[FEEDBACK]** It is good. **[SCORE]** 4", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] 4/5", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] 4.", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] **4**", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE]\n4", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] 6", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE]", "feedback_score", False),
    ("Sure! [FEEDBACK] It is good. [SCORE] 4", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] 4\nI hope that this helps.", "feedback_score", False),
    ("```\n[FEEDBACK] It is good. [SCORE] 4\n```", "feedback_score", False),
    ("[FEEDBACK] It is. [FEEDBACK] It is good. [SCORE] 4", "feedback_score", False),
    ("[FEEDBACK] It is good. [SCORE] 4 [FEEDBACK] So.", "feedback_score", False),
    ("[SCORE] 4 [FEEDBACK] It is good.", "feedback_score", False),
    ("[FEEDBACK] [SCORE] 4", "feedback_score", False),
    ("It is good. [SCORE] 4", "feedback_score", False),
    ("[FEEDBACK] It is good.", "feedback_score", False),
    ("<think>[FEEDBACK] It is good. [SCORE] 4</think>", "feedback_score", False),
    ("", "feedback_score", False),
]


@pytest.mark.parametrize(("text", "output_format", "strict"), STRICT)
def test_strict_feedback_is_the_exact_format(
    text: str, output_format: RubricFormat, strict: bool
) -> None:
    assert is_strict_feedback(text, output_format) is strict


def test_the_format_to_the_letter_on_other_scales() -> None:
    text = "[FEEDBACK] It is good. [SCORE] {}"
    for score, scale, strict in [
        (10, (0, 10), True),
        (11, (0, 10), False),
        (-2, (-2, 2), True),
        (-3, (-2, 2), False),
    ]:
        assert is_strict_feedback(text.format(score), "feedback_score", scale) is strict


@pytest.mark.parametrize(
    ("text", "before", "feedback"),
    [
        ("[FEEDBACK] Good. [SCORE] 4", "", "Good."),
        ("Too kind.\n\n[FEEDBACK] Fair. [SCORE] 3", "Too kind.", "Fair."),
        (
            "[FEEDBACK] Good. [SCORE] 4\nToo kind.\n**[FEEDBACK]** Fair. [SCORE] 3",
            "[FEEDBACK] Good. [SCORE] 4\nToo kind.",
            "Fair.",
        ),
        ("<think>Hm.</think> Too kind.\nFeedback: Fair. [RESULT] 3", "Too kind.", "Fair."),
        ("Fair. [SCORE] 3", "", "Fair."),
        ("No tag at all.", "", None),
    ],
)
def test_text_before_the_last_feedback_is_not_in_it(
    text: str, before: str, feedback: str | None
) -> None:
    assert (cut_feedback(text), feedback_text(text)) == (before, feedback)
