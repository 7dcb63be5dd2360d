"""Sections for what the answers to a question share, in the prompts that compare two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from judgegym.judges import prompts
from judgegym.judges.arena import game_prompt
from judgegym.judges.core.delimiters import TITLES, Prompt, section_texts
from judgegym.judges.pairwise import choice_prompt

Compare = Callable[[Mapping[str, "str | None"]], Prompt]

ALL = section_texts("The shortest wins.", "Because it is.", "It is so.")
COMPARE: dict[str, Compare] = {
    "arena": lambda shared: game_prompt(
        "Why?", "One.", "Two.", protocol="three_way", shared=shared
    ),
    "arena_shared_first": lambda shared: game_prompt(
        "Why?",
        "One.",
        "Two.",
        protocol="three_way",
        judged="B",
        layout="shared_first",
        shared=shared,
    ),
    "choice": lambda shared: choice_prompt("Why?", ["One.", "Two."], shared=shared),
}


def user(prompt: Prompt) -> str:
    return prompt.messages[1]["content"]  # type: ignore[return-value]


def test_game_shows_each_shared_text_in_a_section_before_the_answers_and_says_what_it_is() -> None:
    meanings = [line.partition(": ")[2] for line in prompts.load("shared_texts").splitlines()]
    assert user(COMPARE["arena"](ALL)) == (
        f"{' '.join(meanings)}\n\n"
        "<|User Prompt|>\nWhy?\n\n"
        "<|Given Context|>\nIt is so.\n\n<|Reference Answer|>\nBecause it is.\n\n"
        "<|Given Criteria|>\nThe shortest wins.\n\n"
        "<|The Start of Assistant A's Answer|>\nOne.\n<|The End of Assistant A's Answer|>\n\n"
        "<|The Start of Assistant B's Answer|>\nTwo.\n<|The End of Assistant B's Answer|>"
    )


def test_choice_shows_them_as_parts_of_the_question() -> None:
    content = user(COMPARE["choice"](ALL))
    assert "[User Question]\nWhy?\n\n[User Question: Given Context]\nIt is so.\n\n" in content
    assert "[User Question: Reference Answer]\nBecause it is.\n\n" in content


@pytest.mark.parametrize("compare", COMPARE.values(), ids=COMPARE)
def test_prompt_has_sections_of_given_texts_alone(compare: Compare) -> None:
    assert [line.partition(": ")[0] for line in prompts.load("shared_texts").splitlines()] == [
        *TITLES.values()
    ]
    for shared in (
        section_texts("C"),
        section_texts(reference=""),
        section_texts(context="X"),
        ALL,
    ):
        content = user(compare(shared))
        for name, title in TITLES.items():
            is_there = shared[name] is not None
            assert (f"{title}|>\n" in content or f": {title}]\n" in content) is is_there
            assert (f'The section "{title}"' in content) is is_there
    assert "section" not in user(compare(section_texts()))
