import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.core.delimiters import Delimiters, Lookalikes, delimit
from judgegym.judges.core.prompt_format import marker_lines, read_sections

STYLES = {
    "<|": "<|{title}{tag}|>",
    "[": "[{title}{tag}]",
    "###": "### {title}{tag}",
    ":": "{title}{tag}:",
}
"""A marker by its signs."""
LINES = ["<|One|>", "[Two]", "### Three", "One:", "### Two 0a1b", "[One ff]", "Two", "text", ""]
TEXTS = st.lists(st.sampled_from(LINES) | st.text(max_size=5), max_size=6).map("\n".join)


def marker(style: str, title: str, delimiters: Delimiters) -> str:
    return STYLES[style].format(title=title, tag=delimiters.suffix)


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(texts=st.tuples(TEXTS, TEXTS, TEXTS), has_second=st.booleans())
def test_sections_are_read_as_they_were_written(style: str, texts: tuple[str, ...], has_second: bool) -> None:
    shown = {
        title: text for title, text in zip(("One", "Two", "Three"), texts, strict=True) if title != "Two" or has_second
    }
    delimiters = delimit(list(shown.values()), Lookalikes(style)).markers
    parts = [f"{marker(style, title, delimiters)}\n{text}" for title, text in shown.items()]
    content = "\n\n".join([f"{delimiters.notice}Judge this.", *parts])
    found = read_sections(content, list(marker_lines(content)), ("One", "Three"), ("Two",))
    assert found is not None
    assert dict(found.texts) == {title: text.strip("\n") for title, text in shown.items()}
    assert found.start == len(f"{delimiters.notice}Judge this.\n\n")


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_sections_with_ids_are_read_as_they_were_written(style: str, texts: list[str]) -> None:
    delimiters = delimit(texts, Lookalikes(style)).markers
    shown = {f"One {'ab'[:number] + 'x' * number}y": text for number, text in enumerate(texts)}
    sections = {"Two": "It is.", **shown}
    content = "\n\n".join(f"{marker(style, title, delimiters)}\n{text}" for title, text in sections.items())
    lines = list(marker_lines(content, ("Two",), ("One",)))
    found = read_sections(content, lines, ("Two",), with_id=("One",))
    assert found is not None
    assert dict(found.texts) == {"Two": "It is.", **{title: text.strip("\n") for title, text in shown.items()}}


@pytest.mark.parametrize(
    "content", ["[Two]\nb", "[One]\na\n[Two]\nb", "[One 7]\na\n[Two]\nb", "[One x]\na\n[Two ab]\nb"]
)
def test_text_without_a_section_with_an_id_has_none(content: str) -> None:
    assert read_sections(content, list(marker_lines(content)), ("Two",), with_id=("One",)) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "One:\na",
        "One:\na\n\n[Two]\nb",
        "One ab:\na\n\nTwo:\nb",
        "One XYZ:\na\n\nTwo XYZ:\nb",
        "See One:\na\n\nTwo:\nb",
        "One: a\n\nTwo: b",
    ],
)
def test_a_text_that_lacks_a_section_has_none(content: str) -> None:
    assert read_sections(content, list(marker_lines(content)), ("One", "Two")) is None


def test_marker_lines_with_titles_are_those_with_one_of_them_and_perhaps_a_tag() -> None:
    content = "Text.\n<|One|>\n[Two ab]\n\n### Three\nFour:\nTwo cd:\n### Two xyz"
    assert [line.text for line in marker_lines(content, ("Two", "Four"))] == ["Two ab", "Four", "Two cd"]


def test_marker_lines_are_all_lines_that_look_like_one() -> None:
    content = "Text.\n<|One|>\n[Two ab]\n\n### Three\nFour:\n:\n[]"
    lines = list(marker_lines(content))
    assert [line.text for line in lines] == ["One", "Two ab", "Three", "Four"]
    assert [content[line.start : line.end] for line in lines] == ["<|One|>", "[Two ab]", "### Three", "Four:"]
