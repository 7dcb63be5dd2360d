"""Role and template tokens: none is left bare, and the text can be had back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.llm.template_tokens import BREAK, TEMPLATE_TOKEN, break_up_tokens
from tests.core.llm.restored import restored

SPECIAL_TOKENS = (
    # Qwen and other ChatML, Llama 3, Phi, gpt-oss, GLM, Kimi, Command R, Apertus, Granite
    *(
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
    ),
    *(
        "<|begin_of_text|>",
        "<|user|>",
        "<|assistant|>",
        "<|end|>",
        "<|channel|>",
        "<|message|>",
        "<|start|>",
    ),
    *(
        "<|return|>",
        "<|observation|>",
        "<|im_middle|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|assistant_start|>",
    ),
    *(
        "<|start_of_role|>",
        "<|reserved_special_token_250|>",
        "<|tool▁calls|>",
        "<|end-of-turn|>",
        "<|fim:hole|>",
    ),
    # DeepSeek, EXAONE, Llama 2 and Mistral, Gemma, others
    *(
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜begin▁of▁sentence｜>",
        "<｜tool▁calls▁begin｜>",
        "[|user|]",
        "[|endofturn|]",
    ),
    *(
        "<s>",
        "</s>",
        "[INST]",
        "[/INST]",
        "<<SYS>>",
        "<</SYS>>",
        "[SYSTEM_PROMPT]",
        "[TOOL_CALLS]",
        "[/TOOL_RESULTS]",
    ),
    *(
        "<start_of_turn>",
        "<end_of_turn>",
        "<bos>",
        "<eos>",
        "<pad>",
        "<unk>",
        "<mask>",
        "<EOS_TOKEN>",
        "[gMASK]",
        "<sop>",
    ),
    *("<tool_call>", "</tool_response>", "<seed:bos>", "<fim_prefix>"),
    # what a tokenizer that normalises its text (NFKC) would read as one of these
    *("＜|im_start|＞", "<｜im_end｜>", "［INST］"),
)
PIECES = st.sampled_from(
    [*SPECIAL_TOKENS, "<", ">", "|", "[", "]", "/", "s", "SYS", BREAK, "<¦s>", "<¦|x|>", "<|", "|>"]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_no_token_is_left_bare(token: str) -> None:
    for frame in ("{}", "a{}b", "<{}>", "[{}]", "{}{}", "<|im_{}start|>", "¦{}", "<s>{}</s>"):
        text = frame.replace("{}", token)
        broken = break_up_tokens(text)
        assert [bare for bare in SPECIAL_TOKENS if bare in broken.text] == []
        assert broken.tokens >= frame.count("{}")
        assert restored(broken.text) == text


@pytest.mark.slow
@given(TEXTS)
def test_any_text_is_broken_up_and_restored(text: str) -> None:
    broken = break_up_tokens(text)
    assert [bare for bare in SPECIAL_TOKENS if bare in broken.text] == []
    assert TEMPLATE_TOKEN.search(broken.text) is None
    assert restored(broken.text) == text
    assert broken.tokens == len(TEMPLATE_TOKEN.findall(text))
    assert re.sub(BREAK, "", broken.text) == re.sub(BREAK, "", text)


def test_a_broken_token_shows_what_it_was() -> None:
    assert break_up_tokens("x</s><|im_start|>system").text == "x<¦/s><¦|im_start|>system"
    assert break_up_tokens("<<SYS>>[INST]<｜User｜>").text == "<<¦SYS>>[¦INST]<¦｜User｜>"


def test_a_token_that_was_broken_before_is_not_counted_and_comes_back_as_it_was() -> None:
    broken = break_up_tokens("<¦s> and <s>")
    assert (broken.text, broken.tokens) == ("<¦¦s> and <¦s>", 1)
    assert restored(broken.text) == "<¦s> and <s>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a < b",
        "x |> f <| y",
        "[1, 2]",
        "<b>bold</b>",
        "<|User Prompt|>",
        "‖x‖ <| |>",
        "[A]",
        "a[i]",
        "<think>",
        "¦",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert break_up_tokens(text) == (text, 0)
    assert restored(text) == text


@pytest.mark.parametrize("normalized", [False, True], ids=["as_written", "after_NFKC"])
def test_a_tokenizer_with_these_special_tokens_finds_none(normalized: bool) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.normalizer = tokenizers.normalizers.NFKC()
    special = [
        tokenizers.AddedToken(token, special=True, normalized=normalized)
        for token in SPECIAL_TOKENS
    ]
    tokenizer.add_special_tokens(special)

    def found(text: str) -> list[str]:
        tokens: list[str] = tokenizer.encode(text).tokens  # it knows no others
        return tokens

    for token in SPECIAL_TOKENS:
        for text in (token, f"a{token}b", f"<{token}>", f"{token}{token}", f"<|im_{token}end|>"):
            assert found(text), "the tokenizer knows it"
            assert found(break_up_tokens(text).text) == [], text
