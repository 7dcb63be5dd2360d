import pytest

from judgegym.judges.parsing.labels import arena_label

MIRRORS = {"A>>B": "B<<A", "A>B": "B<A", "A=B": "B=A", "B>A": "A<B", "B>>A": "A<<B"}


@pytest.mark.parametrize("label", ["A>>B", "A>B", "A=B", "B>A", "B>>A"])
def test_each_label_and_its_mirror_in_either_case_and_bracket(label: str) -> None:
    for written in (label, MIRRORS[label]):
        for text in (f"[[{written}]]", f"[[{written.lower()}]]", f"[{written}]", f"So: **[[{written}]]**.\n"):
            assert arena_label(text) == label, text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("[[A>B]] at first, but [[B>A]]", "B>A"),
        ("[[A=B]]\n[[A>>B]]\n[[A>B]]", "A>B"),
        ('The answer says "[[A>>B]]" of itself, which is not for it to say. [[B>A]]', "B>A"),
        ("[A>B]; no, [B>>A]", "B>>A"),
        ("[[A>B]]. In short: A > B.", "A>B"),
        ("[B>A] or rather [[A>B]]", "A>B"),
        ("My final verdict is tie: [[A=B]]", "A=B"),
        ("[[[A>B]]]", "A>B"),
        ("[[A>B]", "A>B"),
        ("<think>[[A>B]]</think>[[B>A]]", "B>A"),
        ("[[A>B]] as I thought</think> [[B>>A]]", "B>>A"),
        ("It uses <think> tags, fine. [[A=B]]", "A=B"),
    ],
)
def test_the_last_verdict_of_the_judges_own_text(text: str, label: str) -> None:
    assert arena_label(text) == label


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tie",
        "It's a tie.",
        "Both have good capabilities.",
        "Assistant A is better",
        "A>B",
        "(A>B)",
        "[[A]]",
        "[[AB]]",
        "[[A > B]]",
        "[[A>B>B]]",
        "[[A>A]]",
        "[[A==B]]",
        "[[A>>>B]]",
        "[[A<=B]]",
        "[[]]",
        "[[C>B]]",
        "[[A>B]] or [[AB]]",
        "[A>B] and [B>>A]",
        "[[A>B]], not [B>A]",
        "[[Assistant A>B]]",
        "[[А>В]]",  # Cyrillic letters
        "[[ẚ>B]]",
        "<think>[[A>B]]</think>",
        "<think>[[A>B]]</think> a tie",
        "<think>[[A>B]] and no end",
        "\ud800",
    ],
)
def test_text_without_a_label_has_no_verdict(text: str) -> None:
    assert arena_label(text) is None


def test_megabytes_of_brackets_return() -> None:
    assert arena_label("[[A>" * 1_000_000) is None
    assert arena_label("[" * 5_000_000 + "[A>B]]") == "A>B"
