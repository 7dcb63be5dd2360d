"""Tokens of chat templates at the end of a text are cut off; within it they are its own."""

from collections.abc import Callable
from typing import Any

import pytest

from judgegym.judges.parsing.labels import binary_verdict
from judgegym.judges.parsing.rubric_scores import feedback_score, feedback_text, is_strict_feedback
from judgegym.judges.parsing.scores import rating
from judgegym.llm.template_tokens import strip_trailing_tokens
from tests import prompt_files

TOKENS = [
    *(
        "<|im_end|>",
        "<|eot_id|>",
        "<|endoftext|>",
        "<|end|>",
        "</s>",
        "<eos>",
        "<pad>",
        "<end_of_turn>",
        "[/INST]",
    ),
    "<｜end▁of▁sentence｜>",
]

PARSERS = [
    pytest.param(feedback_score, "[FEEDBACK] Good. [SCORE] 4", 4, id="feedback_score"),
    pytest.param(rating, "It is good: 7/10.", 7, id="rating"),
    pytest.param(binary_verdict, '{"reason": "r", "verdict": 1}', True, id="binary_verdict"),
    pytest.param(prompt_files.PARSERS["prompt_score"], "Good.\nSCORE: 4", "4", id="prompt_score"),
]


@pytest.mark.parametrize(("parse", "text", "verdict"), PARSERS)
def test_a_verdict_before_leaked_tokens_is_read(
    parse: Callable[[str], Any], text: str, verdict: Any
) -> None:
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
    assert strip_trailing_tokens(text) == text


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
    assert strip_trailing_tokens(text) == cut


def test_megabytes_of_tokens_and_white_space_return() -> None:
    assert strip_trailing_tokens("4" + "<pad> \n" * 200_000) == "4"
    assert len(strip_trailing_tokens(" " * 5_000_000 + "x")) == 5_000_001
