import pytest

from judgegym.judges.core.prompt_format import find_marker_lines, read_sections


@pytest.mark.parametrize(
    "content", ["[Two]\nb", "[One]\na\n[Two]\nb", "[One 7]\na\n[Two]\nb", "[One x]\na\n[Two ab]\nb"]
)
def test_text_without_a_section_with_an_id_has_none(content: str) -> None:
    assert (
        read_sections(content, list(find_marker_lines(content)), ("Two",), with_id=("One",)) is None
    )


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
    assert read_sections(content, list(find_marker_lines(content)), ("One", "Two")) is None


def test_marker_lines_with_titles_are_those_with_one_of_them_and_perhaps_a_tag() -> None:
    content = "Text.\n<|One|>\n[Two ab]\n\n### Three\nFour:\nTwo cd:\n### Two xyz"
    assert [line.text for line in find_marker_lines(content, ("Two", "Four"))] == [
        "Two ab",
        "Four",
        "Two cd",
    ]
