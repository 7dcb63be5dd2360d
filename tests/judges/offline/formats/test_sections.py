from judges.offline.formats.sections import Layout, last_read
from judges.offline.request import Message

LAYOUT = Layout("[", "]\n", ("One", "Two", "Three"))


def test_sections_end_where_the_next_heading_begins() -> None:
    assert LAYOUT.read("[One]\na\nb\n\n\n[Two]\n\n\n[Three]\n c\n") == {"One": "a\nb\n", "Two": "", "Three": " c\n"}


def test_what_stands_before_the_first_heading_does_not_count() -> None:
    assert LAYOUT.read("See [One] and the rest.\n\n[Two]\nb") == {"Two": "b"}


def test_sections_may_be_missing() -> None:
    assert LAYOUT.read("[One]\na\n\n[Three]\nc") == {"One": "a", "Three": "c"}
    assert LAYOUT.read("[Three]\nc") == {"Three": "c"}
    assert LAYOUT.read("") == LAYOUT.read("[Four]\nd") == LAYOUT.read("[One XYZ]\na") == {}


def test_the_first_heading_says_which_tag_the_others_carry() -> None:
    assert LAYOUT.read("[One ab12]\na\n\n[Two]\nb\n\n[Two cd34]\nb\n\n[Two ab12]\nc") == {
        "One": "a\n\n[Two]\nb\n\n[Two cd34]\nb",
        "Two": "c",
    }
    assert LAYOUT.read("[One]\na\n\n[Two ab12]\nb") == {"One": "a\n\n[Two ab12]\nb"}


def test_headings_out_of_order_are_text() -> None:
    assert LAYOUT.read("[One]\na\n\n[Three]\nc\n\n[Two]\nb") == {"One": "a\n\n[Three]\nc", "Two": "b"}


def test_the_last_user_message_that_can_be_read_counts() -> None:
    def number(content: str) -> int | None:
        return int(content) if content.isdecimal() else None

    said = [Message("user", "1"), Message("user", "2"), Message("assistant", "3"), Message("user", "Once more?")]
    assert last_read(said, number) == 2
    assert last_read(said[2:], number) is None
    assert last_read([Message("user", "0")], number) == 0
