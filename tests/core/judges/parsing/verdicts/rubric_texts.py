"""Texts of a rubric's judge, and scales, for tests that hold for all of them."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = st.sampled_from(
    [
        *("[FEEDBACK]", "[SCORE]", "[RESULT]", "[score]", "Feedback:", "\nFeedback: ", "[SCORE] 4", "[RESULT] 2\n"),
        *("4", "10", "-", ".", "/5", " out of 5", "(", ")", "[", "]", "**", "`", "<think>", "</think>", "\n", "\r"),
        *("\u2028", " ", "\ud800"),
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)
# Without a character that a tag of the format or of thinking needs.
TAGLESS = st.text(alphabet=st.characters(exclude_characters="[<", exclude_categories=["Cs"]))

SCALES = st.tuples(st.integers(-10, 10), st.integers(1, 100)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))
