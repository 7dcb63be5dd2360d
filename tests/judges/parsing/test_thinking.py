import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from judges.parsing.thinking import CLOSE, OPEN, after_thinking, split

# Text in which tags, their look-alikes and characters that change their length in lower case are frequent.
PIECES = st.sampled_from([OPEN, CLOSE, "<Think>", "</THINK>", "<think", "think>", " ", "\n", "x", "İ", "\ud800"])
HOSTILE = st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join)
SPACE = st.text(alphabet=" \t\r\n", max_size=4)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("<think>a</think>b", "a", "b"),
        ("<think> a \n c</think>\n\n b  d \n", "a \n c", "b  d"),
        (" \t\n<think>a</think>b", "a", "b"),
        ("<think></think>b", "", "b"),
        ("<think>a <Think> c</think>b </Think>", "a <Think> c", "b </Think>"),
        ("<think>a</think>[[A>B]] `code` {x}", "a", "[[A>B]] `code` {x}"),
    ],
)
@pytest.mark.parametrize("opened_by_template", [False, True])
def test_valid(text: str, thinking: str, answer: str, opened_by_template: bool) -> None:
    found = split(text, opened_by_template=opened_by_template)
    assert (found.valid, found.thinking, found.answer, found.reason) == (True, thinking, answer, None)


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
        ("first <think>a</think>b", "text_before_open_tag"),
        ("<think>a</think>", "empty_answer"),
        ("<think>a</think> \n\t ", "empty_answer"),
    ],
)
def test_faults(text: str, reason: str) -> None:
    found = split(f"{text}\n")
    assert (found.valid, found.thinking, found.answer, found.reason) == (False, "", text.strip(), reason)


def test_a_lone_closing_tag_is_valid_where_the_template_opened() -> None:
    found = split("a\n</think>\nb", opened_by_template=True)
    assert (found.valid, found.thinking, found.answer) == (True, "a", "b")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a</think>b</think>c", "several_close_tags"),
        ("a</think>", "empty_answer"),
        ("a<think>b</think>c", "text_before_open_tag"),
        ("<think>a", "no_close_tag"),
    ],
)
def test_faults_where_the_template_opened(text: str, reason: str) -> None:
    assert split(text, opened_by_template=True).reason == reason


def test_neither_tag_is_invalid_where_the_template_opened() -> None:
    assert not split("a and no end", opened_by_template=True).valid


_VALID = re.compile(r"\s*<think>(?:(?!</?think>).)*</think>(?P<answer>(?:(?!</?think>).)*)", re.DOTALL)


@given(HOSTILE, st.booleans())
def test_any_text_is_split_and_the_answer_stands_in_it(text: str, opened_by_template: bool) -> None:
    found = split(text, opened_by_template=opened_by_template)
    assert found.answer in text and found.answer == found.answer.strip()
    assert found.valid == (found.reason is None)
    if not opened_by_template:
        match = _VALID.fullmatch(text)
        assert found.valid == (match is not None and match["answer"].strip() != "")


@given(SPACE, st.text(), st.text(), st.booleans())
def test_a_valid_composition_gives_its_parts_back(before: str, thinking: str, answer: str, opened: bool) -> None:
    assume(answer.strip() and not any(tag in part for tag in (OPEN, CLOSE) for part in (thinking, answer)))
    text = f"{'' if opened else before + OPEN}{thinking}{CLOSE}{answer}"
    found = split(text, opened_by_template=opened)
    assert (found.valid, found.thinking, found.answer) == (True, thinking.strip(), answer.strip())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OPEN * 700_000, "several_open_tags"),
        (OPEN + CLOSE[:-1] * 700_000, "no_close_tag"),
        (OPEN[:-1] * 800_000, "no_open_tag"),
        (" " * 5_000_000 + "x" + OPEN + CLOSE, "text_before_open_tag"),
        (OPEN + CLOSE + "\n" * 5_000_000, "empty_answer"),
    ],
)
def test_megabytes_of_hostile_text_return(text: str, reason: str) -> None:
    assert split(text).reason == reason
    assert len(after_thinking(text)) <= len(text)


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
def test_after_thinking(text: str, own: str) -> None:
    assert after_thinking(text) == own


@given(HOSTILE)
def test_what_follows_the_thinking_is_the_end_of_the_text_without_a_closing_tag(text: str) -> None:
    own = after_thinking(text)
    assert text.endswith(own)
    assert re.search("</think>", own, re.IGNORECASE | re.ASCII) is None
