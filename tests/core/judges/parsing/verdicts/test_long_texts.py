"""Megabytes of what begins a verdict are read at once."""

import pytest

from judgegym.judges.parsing.labels import arena_label
from judgegym.judges.parsing.rubric_scores import feedback_score, feedback_text, is_strict_feedback


def test_megabytes_of_brackets_return() -> None:
    assert arena_label("[[A>" * 1_000_000) is None
    assert arena_label("[" * 5_000_000 + "[A>B]]") == "A>B"


@pytest.mark.parametrize(
    "filling", ["[SCORE", "[SCORE] ", "[SCORE] 2\n", "[FEEDBACK] ", "(", "*", "4", "[", "Feedback:"]
)
def test_megabytes_return(filling: str) -> None:
    text = filling * (2_000_000 // len(filling))
    assert feedback_score(f"{text}\n[SCORE] 4") == 4
    assert not is_strict_feedback(f"{text}\n[SCORE] 4 x", "feedback_score")
    assert (feedback_text(text) or filling).strip() != ""


@pytest.mark.parametrize("space", ["\n", " "])
def test_megabytes_of_white_space_return(space: str) -> None:
    text = space * 1_000_000
    assert feedback_score(f"[SCORE]{text}4") is None
    assert feedback_text(f"It is good.{text}[SCORE] 4") == "It is good."
    assert not is_strict_feedback(f"[FEEDBACK] It is good.{text}4", "feedback_score")
