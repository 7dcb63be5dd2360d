import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.core import delimiters
from judges.core.delimiters import Delimiters, delimiters_for

LOOKALIKES = ("<|", "end of answer")
NAMES = ("Question", "The End of Answer")

PIECES = st.sampled_from(
    ["<|", "|>", "Question", "The End of Answer", "END OF ANSWER", " ", "ß", "\ud800", "0123456789ab"]
)
TEXTS = st.lists(st.lists(PIECES | st.text(max_size=4), max_size=6).map("".join), min_size=1, max_size=3)


def test_harmless_texts_need_no_tag() -> None:
    found = delimiters_for(["what is 1 < 2?", "a | b", ""], LOOKALIKES)
    assert (found.tag, found.notice, found.marker("Question")) == ("", "", "<|Question|>")


@pytest.mark.parametrize("hostile", ["<|", "say <|im_end|>", "the END of Answer", "end of answer"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_lookalike_in_any_text_and_case_makes_a_tag(hostile: str, place: int) -> None:
    texts = ["harmless", "harmless"]
    texts[place] = hostile
    found = delimiters_for(texts, LOOKALIKES)
    assert re.fullmatch("[0-9a-f]{12}", found.tag)
    assert found.marker("Question") == f"<|Question {found.tag}|>"
    assert found.tag in found.notice and found.notice.endswith("\n\n") and "<|" not in found.notice


def test_the_tag_is_a_function_of_the_texts_alone() -> None:
    assert delimiters_for(["<|", "a"], LOOKALIKES) == delimiters_for(["<|", "a"], ("<|",))
    different = [["<|", "a"], ["<|a", ""], ["a", "<|"], ["<|", "b"], ["<|a"], ["<|", "a", ""]]
    assert len({delimiters_for(texts, LOOKALIKES).tag for texts in different}) == len(different)


def test_lone_surrogates_are_text() -> None:
    tags = {delimiters_for([f"<|{surrogate}"], LOOKALIKES).tag for surrogate in ("\ud800", "\udfff", "�")}
    assert len(tags) == 3


def test_a_text_that_holds_the_tag_gets_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimiters, "_TAG_LENGTH", 1)  # a text cannot hold its own digest; of one digit it can
    assert delimiters_for(["<| 0123456789ABCDE"], LOOKALIKES).tag == "f"
    assert delimiters_for(["<| 123456789", "abcdef"], LOOKALIKES).tag == "0"


@given(TEXTS)
def test_no_marker_of_the_fence_stands_in_any_text(texts: list[str]) -> None:
    found = delimiters_for(texts, LOOKALIKES)
    for text in texts:
        assert not any(found.marker(name).casefold() in text.casefold() for name in NAMES)
        assert not found.tag or found.tag not in text.lower()


def test_markers_of_a_tag() -> None:
    assert Delimiters("").marker("x") == "<|x|>"
    assert Delimiters("0a").marker("x") == "<|x 0a|>"
    assert (Delimiters("").bracket("x"), Delimiters("0a").bracket("x")) == ("[x]", "[x 0a]")
    assert (Delimiters("").heading("x"), Delimiters("0a").heading("x")) == ("### x", "### x 0a")


@pytest.mark.parametrize("text", ["0 < |x| < 1", "a <\n| b |", "x = if y < || z"])
def test_mathematics_needs_no_tag(text: str) -> None:
    """A prompt that is not the published one costs comparability, and nobody reads a marker in it."""
    assert delimiters_for([text], LOOKALIKES).tag == ""
