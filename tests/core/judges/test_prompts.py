import hashlib

import pytest

from judgegym.judges import prompts


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        # Published wording: numbers are comparable only while these stay as they are.
        (
            "arena_hard_three_way",
            "5e9e5b3e423da3e59da9b52f6577c8eee2fb4994cef489ed3e5596095f765e71",
        ),
        ("thinking_assistant", "521d8a2d3a6dbacfb160c3d575d279c0e0e4c49bbd78670321f6213f33ab35c7"),
    ],
)
def test_published_prompts_are_verbatim(name: str, digest: str) -> None:
    assert hashlib.sha256(prompts.load(name).encode()).hexdigest() == digest


def test_the_three_way_prompt_names_its_three_labels() -> None:
    assert prompts.load("arena_hard_three_way").endswith(
        'output your final verdict by strictly following this format: "[[A>B]]" if assistant A is '
        "better, "
        '"[[B>A]]" if assistant B is better, and "[[A=B]]" for a tie.'
    )


def test_the_five_way_prompt_names_its_five_labels_after_what_counts() -> None:
    text = prompts.load("arena_hard_v0_1")
    in_order = [
        *(
            "write your own answer",
            "correct",
            "helpful, relevant and concise",
            "creativity",
            "important information",
        ),
        *("[[A>>B]]", "[[A>B]]", "[[A=B]]", "[[B>A]]", "[[B>>A]]"),
    ]
    places = [text.index(words) for words in in_order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "name", ["arena_hard_three_way", "arena_hard_v0_1", "arena_hard_reask", "thinking_assistant"]
)
def test_a_prompt_is_loaded_without_the_newline_at_its_end(name: str) -> None:
    text = prompts.load(name)
    assert text and text == text.strip()


def test_an_unknown_prompt_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        prompts.load("no_such_prompt")
