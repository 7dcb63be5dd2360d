import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.parsing.thinking import CLOSE, OPEN, cut_thinking, split
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser

# Text in which tags, their look-alikes and characters that change their length in lower case are
# frequent.
PIECES = st.sampled_from(
    [OPEN, CLOSE, "<Think>", "</THINK>", "<think", "think>", " ", "\n", "x", "İ", "\ud800"]
)
HOSTILE = st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("<think>a</think>b", "a", "b"),
        ("<think> a \n c</think>\n\n b  d \n", "a \n c", "b  d"),
        (" \t\n<think>a</think>b", "a", "b"),
        ("<think></think>b", "", "b"),
        ("<think>a <Think> c</think>b </Think>", "a <Think> c", "b </Think>"),
        ("<think>a</think>[[A>B]] `code` {x}", "a", "[[A>B]] `code` {x}"),
        ("first <think>a</think>b", "a", "b"),
        ("Sure. <Think>\n<think>a</think>b", "a", "b"),
    ],
)
@pytest.mark.parametrize("opened_by_template", [False, True])
def test_split_of_a_valid_completion_gives_thinking_and_answer(
    text: str, thinking: str, answer: str, opened_by_template: bool
) -> None:
    found = split(text, opened_by_template=opened_by_template)
    assert (found.valid, found.thinking, found.answer, found.reason) == (
        True,
        thinking,
        answer,
        None,
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_open_tag"),
        ("an answer", "no_open_tag"),
        ("a</think>b", "no_open_tag"),
        ("<Think>a</Think>b", "no_open_tag"),
        ("<think >a</think>b", "no_open_tag"),
        ("<think>a", "no_close_tag"),
        ("<think>a</THINK>b", "no_close_tag"),
        ("<think><think>a</think>b", "several_open_tags"),
        ("<think>a</think>b<think>c</think>d", "several_open_tags"),
        ("<think>a</think>b</think>c", "several_close_tags"),
        ("</think>a<think>b", "close_before_open"),
        ("first <think>a</think> ", "empty_answer"),
        ("<think>a</think>", "empty_answer"),
        ("<think>a</think> \n\t ", "empty_answer"),
    ],
)
def test_split_of_an_invalid_completion_gives_the_reason(text: str, reason: str) -> None:
    found = split(f"{text}\n")
    assert (found.valid, found.thinking, found.answer, found.reason) == (
        False,
        "",
        text.strip(),
        reason,
    )


def test_a_lone_closing_tag_is_valid_where_the_template_opened() -> None:
    found = split("a\n</think>\nb", opened_by_template=True)
    assert (found.valid, found.thinking, found.answer) == (True, "a", "b")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a</think>b</think>c", "several_close_tags"),
        ("a</think>", "empty_answer"),
        ("a</think>b<think>c", "close_before_open"),
        ("<think>a", "no_close_tag"),
    ],
)
def test_split_with_opened_by_template_gives_the_reason(text: str, reason: str) -> None:
    assert split(text, opened_by_template=True).reason == reason


def test_neither_tag_is_invalid_where_the_template_opened() -> None:
    assert not split("a and no end", opened_by_template=True).valid


_VALID = re.compile(
    r"(?:(?!</?think>).)*<think>(?:(?!</?think>).)*</think>(?P<answer>(?:(?!</?think>).)*)",
    re.DOTALL,
)


@given(HOSTILE, st.booleans())
def test_any_text_is_split_and_the_answer_stands_in_it(text: str, opened_by_template: bool) -> None:
    found = split(text, opened_by_template=opened_by_template)
    assert found.answer in text and found.answer == found.answer.strip()
    assert found.valid == (found.reason is None)
    if not opened_by_template:
        match = _VALID.fullmatch(text)
        assert found.valid == (match is not None and match["answer"].strip() != "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OPEN * 70_000, "several_open_tags"),
        (OPEN + CLOSE[:-1] * 700_000, "no_close_tag"),
        (OPEN[:-1] * 800_000, "no_open_tag"),
        (" " * 5_000_000 + "x" + OPEN + CLOSE, "empty_answer"),
        (OPEN + CLOSE + "\n" * 1_000_000, "empty_answer"),
    ],
)
def test_megabytes_of_hostile_text_return(text: str, reason: str) -> None:
    assert split(text).reason == reason
    assert len(cut_thinking(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("", ""),
        ("plain", "plain"),
        ("<think>a</think>b", "b"),
        ("<Think>a</THINK> b", " b"),
        ("a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>b</think>c", "c"),
        ("<think>never ended [[A>B]]", ""),
        (" \n<THINK>never ended", ""),
        ("A stray <think> in prose. [[A>B]]", "A stray <think> in prose. [[A>B]]"),
        ("İİ</THINK>é", "é"),
        ("\ud800</think>\udfff", "\udfff"),
    ],
)
def test_after_thinking_is_the_text_after_the_last_closing_tag(text: str, own: str) -> None:
    assert cut_thinking(text) == own


@verdict_parser
def words(own: str) -> ParsedVerdict[str] | None:
    """The last word in capitals."""
    found = list(re.finditer("[A-Z]+", own))
    return ParsedVerdict(found[-1][0], found[-1].span()) if found else None


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("YES", "YES"),
        ("<think>NO</think>YES", "YES"),
        ("it has <think> tags: YES", "YES"),
        ("YES <think> never ended", "YES"),
        ("YES <think> still YES", "YES"),
        ("YES <think> or rather NO", None),
        ("YES<THINK>NO", None),
        ("İ YES <think> NO", None),
        ("<think>a</think> YES <think> NO", None),
        ("YES <think> NO </think> NO", "NO"),
        ("<think> YES", None),
        ("no <think> neither", None),
    ],
)
def test_a_verdict_counts_where_no_unclosed_thinking_gives_another(
    text: str, verdict: str | None
) -> None:
    assert words(text) == verdict
    found = words.find(text)
    assert found is None or (found.at is not None and text[slice(*found.at)] == verdict)
