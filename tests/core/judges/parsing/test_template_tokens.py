"""Tokens of chat templates at the end of a text are cut off; within it they are its own."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import feedback_score, feedback_text, is_strict_feedback, prometheus_result
from judgegym.judges.parsing.scores import ScoreObject, rating, score_object
from judgegym.llm.template_tokens import without_trailing_tokens
from tests import prompt_files

TOKENS = [
    *("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end|>", "</s>", "<eos>", "<pad>", "<end_of_turn>", "[/INST]"),
    "<｜end▁of▁sentence｜>",
]

PARSERS = [
    pytest.param(feedback_score, "[FEEDBACK] Good. [SCORE] 4", 4, id="feedback_score"),
    pytest.param(prometheus_result, "Feedback: Good. [RESULT] 4", 4, id="prometheus_result"),
    pytest.param(rating, "It is good: 7/10.", 7, id="rating"),
    pytest.param(arena_label, "My final verdict is [[A>B]]", "A>B", id="arena_label"),
    pytest.param(lambda text: choice_letter(text, "AB"), "The best is [[B]]", "B", id="choice_letter"),
    pytest.param(binary_verdict, '{"reason": "r", "verdict": 1}', True, id="binary_verdict"),
    pytest.param(score_object, '{"reasoning": "r", "score": 85}', ScoreObject(85, "r"), id="score_object"),
    pytest.param(prompt_files.PARSERS["prompt_score"], "Good.\nSCORE: 4", "4", id="prompt_score"),
    pytest.param(prompt_files.PARSERS["prompt_level"], "**Final level:** very good.", "very good", id="prompt_level"),
    pytest.param(prompt_files.PARSERS["prompt_grade"], "It is [[fair]]", "fair", id="prompt_grade"),
    pytest.param(prompt_files.PARSERS["prompt_yes_no"], '{"why": "r", "answers": "no"}', "no", id="prompt_yes_no"),
]


@pytest.mark.parametrize(("parse", "text", "verdict"), PARSERS)
def test_a_verdict_before_leaked_tokens_is_read(parse: Callable[[str], Any], text: str, verdict: Any) -> None:
    for token in TOKENS:
        for end in (token, f" {token}", f"\n{token}\n", f"{token}{token}", f"{token}\n<|im_end|>"):
            assert parse(text + end) == verdict, end


@pytest.mark.parametrize(("parse", "text", "verdict"), PARSERS)
def test_a_verdict_whose_thinking_was_closed_behind_tokens_is_read(
    parse: Callable[[str], Any], text: str, verdict: Any
) -> None:
    assert parse(f"<think>Hm.<|im_end|></think>{text}<|im_end|>") == verdict


def test_words_before_leaked_tokens_are_without_them() -> None:
    assert feedback_text("[FEEDBACK] Good.<|im_end|>[SCORE] 4<|im_end|>") == "Good.<|im_end|>"
    assert is_strict_feedback("[FEEDBACK] Good. [SCORE] 4<|im_end|>", "feedback_score")
    assert not is_strict_feedback("[FEEDBACK] Good. [SCORE]<|im_end|> 4", "feedback_score")


@pytest.mark.parametrize(
    "text", ["", " ", "4", " 4 \n", "<|im_end|>4", "a <b>", "a < b|>", "x <|Not a token|>", "[INST"]
)
def test_a_text_that_ends_with_no_token_stays_as_it_is(text: str) -> None:
    assert without_trailing_tokens(text) == text


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("<|im_end|>", ""),
        (" <|im_end|> ", ""),
        ("a <|im_end|> b </s>", "a <|im_end|> b"),
        (" a\n\n</s> <pad>\n", " a"),
        ("<s>4</s>", "<s>4"),
    ],
)
def test_only_tokens_at_the_very_end_are_cut(text: str, cut: str) -> None:
    assert without_trailing_tokens(text) == cut


@given(st.lists(st.sampled_from([*TOKENS, " ", "\n", "<", "|>", "4"]) | st.text(max_size=2), max_size=10).map("".join))
def test_what_is_left_begins_the_text_and_ends_with_no_token(text: str) -> None:
    left = without_trailing_tokens(text)
    assert text.startswith(left)
    assert without_trailing_tokens(left) == left


def test_megabytes_of_tokens_and_white_space_return() -> None:
    assert without_trailing_tokens("4" + "<pad> \n" * 200_000) == "4"
    assert len(without_trailing_tokens(" " * 5_000_000 + "x")) == 5_000_001
