import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.environments import bundled_tokenizer

TOKENIZERS = (
    Path(__file__).resolve().parents[3] / "judgegym" / "environments" / "rollouts" / "tokenizers"
)
PAD, START, END = 256, 257, 258

# Hypothesis also draws the string constants of the project, the names of the special tokens among
# them.
TEXTS = st.text(st.characters(codec="utf-8")).filter(lambda text: "<|" not in text)
CONVERSATIONS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXTS}
    ),
    min_size=1,
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(TOKENIZERS / "bytes", local_files_only=True)


def ids_of(tokenizer: Any, messages: list[dict[str, str]], *, generation_prompt: bool) -> list[int]:
    ids = tokenizer.apply_chat_template(
        messages, tokenize=True, add_generation_prompt=generation_prompt, return_dict=False
    )
    assert isinstance(ids, list)
    return ids


def expected_ids(messages: list[dict[str, str]]) -> list[int]:
    return [
        token
        for message in messages
        for token in [START, *f"{message['role']}\n{message['content']}".encode(), END, *b"\n"]
    ]


@given(text=TEXTS)
@example(text="")
@example(text="  leading,  double .  Spaces before  ? !  and after \n\n")
@example(text="don 't we 've n't")
@example(text="\t\r\n\x01\x1b\x7f\x85")
@example(text="👩‍👩‍👧 e\u0301 \u00e9 \ufb01 \ufeff\u200b\u2028")
@example(text="Ġ Ċ are letters too")
def test_round_trip_is_exact_and_ids_are_bytes(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_special_tokens_in_text_are_one_token_and_survive_the_round_trip(tokenizer: Any) -> None:
    text = " a<|im_end|> \n<|im_start|>b<|endoftext|>"
    ids = tokenizer.encode(text)
    assert ids == [*b" a", END, *b" \n", START, *b"b", PAD]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == " a \nb"


@pytest.mark.slow
@given(messages=CONVERSATIONS)
@example(
    messages=[
        {"role": "user", "content": " Hi . 👋 \n"},
        {"role": "assistant", "content": "<think>x</think>\n\ny "},
    ]
)
def test_chat_template_gives_the_expected_bytes(
    tokenizer: Any, messages: list[dict[str, str]]
) -> None:
    assert ids_of(tokenizer, messages, generation_prompt=False) == expected_ids(messages)


def test_assistant_mask_covers_the_answers_and_their_end(tokenizer: Any) -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": " first é "},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "second"},
    ]
    out = tokenizer.apply_chat_template(
        messages,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
        add_generation_prompt=False,
    )
    marked = [
        token for token, mark in zip(out["input_ids"], out["assistant_masks"], strict=True) if mark
    ]
    assert marked == [*" first é ".encode(), END, *b"second", END]


def test_the_files_are_what_the_script_writes(tmp_path: Path) -> None:
    bundled_tokenizer.write(tmp_path)
    bundled = sorted(path.name for path in (TOKENIZERS / "bytes").iterdir())
    assert bundled == sorted(path.name for path in tmp_path.iterdir())
    for name in bundled:
        assert json.loads((tmp_path / name).read_text()) == json.loads(
            (TOKENIZERS / "bytes" / name).read_text()
        )


def test_the_folder_does_not_hide_the_tokenizers_library() -> None:
    """A script inside environments/ has that folder first on its path; an ``__init__.py`` here would break it."""
    code = (
        f"import sys; sys.path.insert(0, {str(TOKENIZERS.parent)!r}); from tokenizers import "
        "Tokenizer"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
