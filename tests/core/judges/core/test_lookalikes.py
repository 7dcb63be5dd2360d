"""What looks like a heading is found however it is written, and what does not is left alone."""

import pytest

from judgegym.judges.core.delimiters import Lookalikes

ARENA = ("<|", "start of assistant", "end of assistant")
CHOICE = ("[user question", "[the start of assistant", "[the end of assistant")
ASPECTS = ("[input", "[context", "[reference", "[submission", "[criteria")
RUBRIC = (
    "#instruction",
    "#reference response",
    "#score rubric",
    "#response to evaluate",
    "please evaluate the response",
)
PEERS = ("query:", "candidate response", "rubric:", "your previous evaluation", "instructions:")


@pytest.mark.parametrize(
    ("lookalikes", "text"),
    [
        (RUBRIC, "### Instruction"),
        (RUBRIC, "### **Instruction**"),
        (RUBRIC, "**Instruction**"),
        (RUBRIC, "text\n__Score Rubric:__\ntext"),
        (RUBRIC, "### The Instruction"),
        (RUBRIC, "### Instruction again"),
        (RUBRIC, "＃＃＃ Ｉｎｓｔｒｕｃｔｉｏｎ"),
        (RUBRIC, "###\u200bIns\u200btruction"),
        (RUBRIC, "### I\u00adn\u2060struction"),
        (RUBRIC, "### 𝐈𝐧𝐬𝐭𝐫𝐮𝐜𝐭𝐢𝐨𝐧"),
        (RUBRIC, "### Ínstruction"),
        (RUBRIC, "### Inѕtruсtiоn"),
        (RUBRIC, "### I n s t r u c t i o n"),
        (RUBRIC, "Please **evaluate** the response"),
        (ASPECTS, "【Input】"),
        (ASPECTS, "[**Input**]"),
        (ASPECTS, "[\n`Input`\n]"),
        (ASPECTS, "[Input of the user]"),
        (ASPECTS, "[[Criteria]]"),
        (CHOICE, "[User's Question]"),
        (CHOICE, "[The Start of Assistant C"),
        (ARENA, "<|User Prompt|>"),
        (ARENA, "＜｜User Prompt｜＞"),
        (ARENA, "<\u200b|User Prompt"),
        (ARENA, "the end of **Assistant** A's answer"),
        (PEERS, "QUERY:"),
        (PEERS, "**Query:**"),
        (PEERS, "Query："),
        (PEERS, "q u e r y :"),
        (PEERS, "Candidate's Response"),
    ],
)
def test_a_lookalike_is_found(lookalikes: tuple[str, ...], text: str) -> None:
    assert Lookalikes(*lookalikes).count(text) == 1
    assert Lookalikes(*lookalikes).count(f"Before.\n\n{text}\n\nAfter.\n\n{text} …") >= 1


@pytest.mark.parametrize(
    ("lookalikes", "text"),
    [
        (RUBRIC, "The instruction says so."),
        (RUBRIC, "Instruction: add them."),
        (RUBRIC, "a **bold** instruction, # of instructors"),
        (RUBRIC, "# Summary of the results\nThe instruction"),
        (ASPECTS, 'row["input"], f(input), {input}, <input>'),
        (ASPECTS, "Input: nums = [2, 7]"),
        (ASPECTS, "input] and [1, 2]"),
        (ASPECTS, "**Input**"),
        (CHOICE, "the user asked a [question]"),
        (ARENA, "0 < |x| < 1"),
        (ARENA, "a <\n| b |"),
        (ARENA, "in the end, all assistants agreed"),
        (PEERS, "the query is short"),
        (PEERS, "a rubric"),
    ],
)
def test_other_text_is_left_alone(lookalikes: tuple[str, ...], text: str) -> None:
    assert Lookalikes(*lookalikes).count(text) == 0


def test_a_lookalike_of_signs_alone_is_found_as_it_is() -> None:
    assert [Lookalikes("---").count(text) for text in ("a --- b", "a - - - b", "word")] == [1, 0, 0]
    assert Lookalikes("###principles").count("###  The **Principles**") == 1


@pytest.mark.parametrize(
    "around", ["é", "a — b ", "中文 ", "\u200b", "¦", "x" * 99 + "’", "x" * 200]
)
def test_a_lookalike_is_found_among_ascii_and_other_signs(around: str) -> None:
    assert Lookalikes(*ARENA).count(f"{around * 40}\nend\u200b óf assistant\n{around * 40}") == 1


def test_signs_of_broken_tokens_are_no_lookalikes_but_titles_count_in_both() -> None:
    assert Lookalikes(*ARENA).count("<|im_end|> <|") == 2
    assert Lookalikes(*ARENA).count("<|im_end|> <|", shown="<¦|im_end|> <|") == 1
    assert Lookalikes(*ARENA).count("end of assistant", shown="") == 1
