"""Tokens from text, by tokenizers whose templates end a turn in the ways that templates do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.rollouts.groups import TokenSequence
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Message

OPEN = "{% for m in messages %}<|im_start|>{{ m.role }}\n"
GENERATE = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHATML = OPEN + "{{ m.content }}<|im_end|>\n{% endfor %}" + GENERATE
TRIMMED = OPEN + "{{ m.content | trim }}<|im_end|>\n{% endfor %}" + GENERATE
STRIPPED = (
    OPEN + "{{ m.content.split('</think>')[-1].lstrip() }}<|im_end|>\n{% endfor %}" + GENERATE
)
THINKING_OPENED = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
SPACED = OPEN + "{{ m.content }} <|endoftext|>{% endfor %}" + GENERATE
BARE = OPEN + "{{ m.content }}\n{% endfor %}" + GENERATE
OWN_TOKEN = OPEN + "{{ m.content }}<end_of_turn>\n{% endfor %}" + GENERATE

CONVERSATION = [
    Message(role="system", content="Be brief."),
    Message(role="user", content="Why? Ünïcode 字"),
]
THOUGHT = "<think>\nHm, first…\n</think>\n\n  The answer. "
Make = Callable[..., Retokenizer]


def one(retokenizer: Retokenizer, text: str, *, stopped: bool) -> TokenSequence:
    (sequence,) = asyncio.run(retokenizer.sequences(CONVERSATION, [text], stopped=[stopped]))
    return sequence


def decoded(retokenizer: Retokenizer, ids: Sequence[int]) -> str:
    (text,) = asyncio.run(retokenizer.decode([ids]))
    return text


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A tokenizer in a folder: the bundled one's bytes, with a template and an `eos_token` of its own."""

    from transformers import AutoTokenizer

    def make_one(
        template: str | None, eos_token: str | None = "<|im_end|>", added: tuple[str, ...] = ()
    ) -> Retokenizer:
        tokenizer: Any = AutoTokenizer.from_pretrained(BUNDLED_TOKENIZER)
        tokenizer.add_tokens(list(added))
        tokenizer.chat_template = template
        tokenizer.eos_token = eos_token
        tokenizer.save_pretrained(tmp_path / "tokenizer")
        return Retokenizer(str(tmp_path / "tokenizer"))

    return make_one


@pytest.mark.parametrize(
    ("template", "eos_token", "added", "end"),
    [
        pytest.param(CHATML, "<|im_end|>", (), "<|im_end|>", id="it is the eos token"),
        pytest.param(CHATML, "<|endoftext|>", (), "<|im_end|>", id="it is not the eos token"),
        pytest.param(CHATML, None, (), "<|im_end|>", id="there is no eos token"),
        pytest.param(TRIMMED, "<|endoftext|>", (), "<|im_end|>", id="contents are trimmed"),
        pytest.param(STRIPPED, "<|endoftext|>", (), "<|im_end|>", id="thinking is stripped"),
        pytest.param(THINKING_OPENED, "<|endoftext|>", (), "<|im_end|>", id="thinking is opened"),
        pytest.param(SPACED, "<|im_end|>", (), "<|endoftext|>", id="after a space"),
        pytest.param(BARE, "<|endoftext|>", (), "<|endoftext|>", id="the template has none"),
        pytest.param(
            OWN_TOKEN, "<|endoftext|>", ("<end_of_turn>",), "<end_of_turn>", id="an added token"
        ),
        pytest.param(
            OWN_TOKEN, "<|endoftext|>", (), "<|endoftext|>", id="mere text is not a token"
        ),
    ],
)
def test_prompt_text_and_the_token_that_ends_the_turn(
    make: Make, template: str, eos_token: str | None, added: tuple[str, ...], end: str
) -> None:
    retokenizer = make(template, eos_token, added)
    tokenizer = retokenizer.tokenizer
    prompt = tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    stopped, cut_off = asyncio.run(
        retokenizer.sequences(CONVERSATION, [THOUGHT, THOUGHT], stopped=[True, False])
    )
    assert list(stopped.prompt) == tokenizer.encode(prompt, add_special_tokens=False)
    assert decoded(retokenizer, stopped.prompt) == prompt
    assert decoded(retokenizer, cut_off.completion) == THOUGHT, (
        "what the template strips is trained on all the same"
    )
    assert stopped.completion == (*cut_off.completion, tokenizer.convert_tokens_to_ids(end))
    assert stopped.prompt == cut_off.prompt
    assert stopped.logprobs is None


def test_answers_of_a_group_have_the_tokens_that_each_has_alone() -> None:
    texts = ["", "a", "longer, und mit Ümlaut", "字" * 50, THOUGHT]
    together = asyncio.run(
        BUNDLED.sequences(CONVERSATION, texts, stopped=[True, False, True, False, True])
    )
    assert together == [
        one(BUNDLED, text, stopped=number % 2 == 0) for number, text in enumerate(texts)
    ]
    alone = [BUNDLED.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert [
        list(sequence.completion[: len(ids)]) for sequence, ids in zip(together, alone, strict=True)
    ] == alone


@pytest.mark.slow
@given(text=st.text(st.characters(codec="utf-8")), stopped=st.booleans())
def test_any_text_comes_back_from_its_tokens(text: str, stopped: bool) -> None:
    retokenizer = BUNDLED
    sequence = one(retokenizer, text, stopped=stopped)
    assert decoded(retokenizer, sequence.completion) == text + ("<|im_end|>" if stopped else "")


BUNDLED = Retokenizer(str(BUNDLED_TOKENIZER))


@pytest.mark.parametrize("folder", [".", "nothing/here"])
def test_an_unknown_tokenizer(folder: str, tmp_path: Path) -> None:
    named = str(tmp_path / folder)
    with pytest.raises(SettingsError, match=r"--env\.tokenizer_name") as caught:
        one(Retokenizer(named), "text", stopped=True)
    assert named in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_tokenizer_without_anything_that_ends_a_turn(make: Make) -> None:
    retokenizer = make(BARE, None)
    with pytest.raises(SettingsError, match="ends a turn"):
        one(retokenizer, "text", stopped=True)
    assert decoded(retokenizer, one(retokenizer, "text", stopped=False).completion) == "text"


def test_a_tokenizer_without_a_chat_template(make: Make) -> None:
    with pytest.raises(SettingsError, match="no chat template"):
        one(make(None), "text", stopped=True)
