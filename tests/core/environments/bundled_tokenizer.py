"""Write the bundled byte-level tokenizer, `judgegym/environments/rollouts/tokenizers/bytes`.

Token id ``i`` below 256 is byte ``i`` of the UTF-8 text, so any text survives a round trip exactly
and any token count can be worked out by hand. Three special tokens follow, and a ChatML chat
template that invents no system prompt. The template marks the assistant's turns, so that
``return_assistant_tokens_mask=True`` works.

Usage: ``python -m tests.core.environments.bundled_tokenizer``
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['role'] == 'assistant' -%}"
    "{%- generation -%}{{- message['content'] + '<|im_end|>' -}}{%- endgeneration -%}"
    "{%- else -%}"
    "{{- message['content'] + '<|im_end|>' -}}"
    "{%- endif -%}"
    "{{- '\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def byte_symbols() -> list[str]:
    """Give the printable character that stands for each byte in a byte-level vocabulary, in byte order."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return [
        chr(byte) if byte in printable else chr(256 + hidden.index(byte)) for byte in range(256)
    ]


def build() -> Tokenizer:
    """Build the tokenizer: the 256 byte symbols, no merges, and the special tokens."""
    vocabulary = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in (PAD, START, END)]
    )
    return tokenizer


def write(folder: Path) -> None:
    """Write the files that ``AutoTokenizer.from_pretrained(folder)`` reads."""
    config = {
        "add_prefix_space": False,
        "additional_special_tokens": [START],
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "pad_token": PAD,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(build().to_str(pretty=True) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    from judgegym.engine.settings import BUNDLED_TOKENIZER

    write(BUNDLED_TOKENIZER)
