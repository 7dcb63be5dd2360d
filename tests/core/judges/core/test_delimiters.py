import re

import pytest

from judgegym.judges.core import delimiters
from judgegym.judges.core.delimiters import Delimiters, Lookalikes, break_tokens, delimit

LOOKALIKES = Lookalikes("<|", "end of answer")


def markers(texts: list[str]) -> Delimiters:
    return delimit(texts, LOOKALIKES).markers


def test_harmless_texts_need_no_tag_and_stay_as_they_are() -> None:
    texts = ("what is 1 < 2?", "a | b", "")
    found = delimit(texts, LOOKALIKES)
    assert (found.texts, found.suspects) == (texts, 0)
    assert (found.markers.tag, found.markers.notice, found.markers.suffix) == ("", "", "")


@pytest.mark.parametrize(
    "hostile", ["<|", "say <|im_end|>", "the END of Answer", "end of answer", "[INST]", "</s>"]
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_suspect_in_any_text_and_case_makes_a_tag_and_is_counted(
    hostile: str, place: int
) -> None:
    texts = ["harmless", "harmless"]
    texts[place] = hostile
    found = delimit(texts, LOOKALIKES)
    tag = found.markers.tag
    assert found.suspects == 1
    assert re.fullmatch("[0-9a-f]{12}", tag)
    assert found.markers.suffix == f" {tag}"
    assert (
        tag in found.markers.notice
        and found.markers.notice.endswith("\n\n")
        and "<|" not in found.markers.notice
    )


def test_tokens_are_broken_up_and_the_judge_is_told() -> None:
    found = delimit(["<|im_end|> twice <|im_end|>", "</s> The end of answer"], LOOKALIKES)
    assert found.texts == ("<¦|im_end|> twice <¦|im_end|>", "<¦/s> The end of answer")
    assert found.suspects == 4
    assert "broken up by the sign ¦" in found.markers.notice
    assert "¦" not in markers(["end of answer"]).notice, "there is no token to speak of"


def test_a_token_that_was_broken_before_is_no_suspect_and_the_judge_is_told() -> None:
    found = delimit(["<¦/s>"], LOOKALIKES)
    assert (found.texts, found.suspects) == (("<¦¦/s>",), 0)
    assert "broken up by the sign ¦" in found.markers.notice


def test_a_quoted_prompt_is_searched_for_markers_and_stays_as_it_is() -> None:
    quiet, loud = (
        delimit(["its verdict"], LOOKALIKES, delimited=[text])
        for text in ("<¦|im_end|> a", "end of answer")
    )
    assert (quiet.markers.tag, quiet.suspects) == ("", 0)
    assert loud.markers.tag and loud.suspects == 0
    assert delimit(["</s>"], LOOKALIKES, delimited=["a"]).markers.tag != markers(["</s>"]).tag


def test_a_text_outside_of_a_fence_has_broken_tokens_too() -> None:
    assert break_tokens("My verdict: </s>") == "My verdict: <¦/s>"


def test_the_tag_is_a_function_of_the_texts_alone() -> None:
    assert markers(["<|", "a"]) == delimit(["<|", "a"], Lookalikes("<|")).markers
    different = [["<|", "a"], ["<|a", ""], ["a", "<|"], ["<|", "b"], ["<|a"], ["<|", "a", ""]]
    assert len({markers(texts).tag for texts in different}) == len(different)


def test_the_tag_is_made_of_the_shared_texts() -> None:
    one, other, loud = (
        delimit(["a <|", text], LOOKALIKES, shared=1).markers.tag
        for text in ("b", "c", "the end of answer")
    )
    assert one == other == loud != ""
    assert delimit(["b <|", "b"], LOOKALIKES, shared=1).markers.tag != one
    assert one not in delimit(["a <|", f"so {one}"], LOOKALIKES, shared=1).markers.tag, (
        "but for a text that holds it"
    )


def test_lone_surrogates_are_text() -> None:
    tags = {markers([f"<|{surrogate}"]).tag for surrogate in ("\ud800", "\udfff", "�")}
    assert len(tags) == 3


def test_a_text_that_holds_the_tag_gets_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        delimiters, "_TAG_LENGTH", 1
    )  # a text cannot hold its own digest; of one digit it can
    assert markers(["<| 0123456789ABCDE"]).tag == "f"
    assert markers(["<| 123456789", "abcdef"]).tag == "0"


@pytest.mark.parametrize("text", ["0 < |x| < 1", "a <\n| b |", "x = if y < || z"])
def test_mathematics_needs_no_tag(text: str) -> None:
    """A prompt that is not the published one costs comparability, and nobody reads a marker in it."""
    assert markers([text]).tag == ""
