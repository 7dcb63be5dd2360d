"""What a judge is shown, for a choice and for a rating, byte for byte."""

import re

import pytest

from judgegym.judges.pairwise import LETTERS, choice_instructions, choice_prompt, rating_prompt
from judgegym.llm.wire import Message

OPENING = (
    "Please act as an impartial judge and evaluate the quality of the responses provided by {} AI "
    "assistants"
)
COMPARING = "Begin your evaluation by comparing the {} responses and provide a short explanation."
ENDING = "output your final verdict by strictly following this format: {}."


def contents(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


@pytest.mark.parametrize(
    ("count", "word", "verdicts"),
    [
        (2, "two", '"[[A]]" if assistant A is best and "[[B]]" if assistant B is best'),
        (
            4,
            "four",
            '"[[A]]" if assistant A is best, "[[B]]" if assistant B is best, "[[C]]" if assistant '
            "C is best, "
            'and "[[D]]" if assistant D is best',
        ),
        (
            26,
            "twenty-six",
            ", ".join(f'"[[{letter}]]" if assistant {letter} is best' for letter in LETTERS[:25])
            + ', and "[[Z]]" if assistant Z is best',
        ),
    ],
)
def test_the_prompt_names_the_number_and_each_verdict(count: int, word: str, verdicts: str) -> None:
    prompt = choice_instructions(count)
    assert prompt.startswith(OPENING.format(word))
    assert COMPARING.format(word) in prompt
    assert prompt.endswith(ENDING.format(verdicts))
    assert re.findall(r"\[\[(.)\]\]", prompt) == list(LETTERS[:count])
    assert "{" not in prompt


def test_the_question_and_each_answer_stand_between_their_markers() -> None:
    messages = choice_prompt("Why?\n", ["first ", "", "third\n\nparagraph"]).messages
    assert contents(messages) == [
        ("system", choice_instructions(3)),
        (
            "user",
            "[User Question]\nWhy?\n\n\n"
            "[The Start of Assistant A's Answer]\nfirst \n[The End of Assistant A's Answer]\n\n"
            "[The Start of Assistant B's Answer]\n\n[The End of Assistant B's Answer]\n\n"
            "[The Start of Assistant C's Answer]\nthird\n\nparagraph\n[The End of Assistant C's "
            "Answer]",
        ),
    ]


@pytest.mark.parametrize("count", [0, 1, 27])
def test_too_few_or_too_many_answers(count: int) -> None:
    with pytest.raises(ValueError, match=f"between 2 and 26 answers, not {count}"):
        choice_prompt("Why?", ["answer"] * count)


def test_a_rating_is_one_user_message() -> None:
    ((role, text),) = contents(rating_prompt("Name one.", "This one. ").messages)
    task, _, sections = text.partition("\n\n[Query]\n")
    assert role == "user"
    assert sections == "Name one.\n\n[Response]\nThis one. \n\n[Your judgement]"
    assert "from 1 to 10" in task
    assert "impartial judge" in task
    assert "write nothing after it" in task


def test_thinking_is_asked_for_before_everything_else() -> None:
    choice = contents(choice_prompt("Why?", ["one", "two"], system="Think first.").messages)
    assert choice[0] == ("system", f"Think first.\n\n{choice_instructions(2)}")
    assert choice[1:] == contents(choice_prompt("Why?", ["one", "two"]).messages)[1:]
    rated = contents(rating_prompt("Name one.", "This.", system="Think first.").messages)
    assert rated == [
        ("system", "Think first."),
        *contents(rating_prompt("Name one.", "This.").messages),
    ]


def test_custom_prompts_replace_the_built_in_ones_as_they_are() -> None:
    custom = "Choose {number} of [[A]]\r\n  and {verdicts} – é "
    choice = contents(
        choice_prompt("Why?", ["one", "two"], system="Think first.", system_prompt=custom).messages
    )
    assert choice[0] == ("system", f"Think first.\n\n{custom}")
    assert contents(choice_prompt("Why?", ["one", "two"], system_prompt=custom).messages)[0] == (
        "system",
        custom,
    )
    ((_, rated),) = contents(rating_prompt("Name one.", "This.", instructions=custom).messages)
    assert rated == f"{custom}\n\n[Query]\nName one.\n\n[Response]\nThis.\n\n[Your judgement]"
