"""Tokens as the stand-in samples them: bytes, with ChatML's three specials behind them, and made-up logprobs.

The same ids as those of the tokenizer that is bundled with the environments, so that an offline run needs no other.
"""

import math
from collections.abc import Sequence
from typing import Any

from judgegym.judges.core.seeding import generator
from judgegym.offline.protocol.request import RequestMessage

IM_START, IM_END = 257, 258
# A byte that is only part of a character has no text of its own.
_TEXTS = {
    IM_END: "<|im_end|>",
    **{byte: chr(byte) if byte < 128 else "\N{REPLACEMENT CHARACTER}" for byte in range(256)},
}
_DIGITS = range(ord("0"), ord("9") + 1)
_NO_DIGIT = 0.02  # the share of tokens that are no digit in what the sampled digit leaves over


def prompt_ids(messages: Sequence[RequestMessage]) -> list[int]:
    """The conversation in ChatML, with the beginning of the answer."""
    ids: list[int] = []
    for message in messages:
        ids += [IM_START, *completion_ids(f"{message.role}\n{message.content}", stopped=True), *b"\n"]
    return [*ids, IM_START, *b"assistant\n"]


def completion_ids(text: str, *, stopped: bool) -> list[int]:
    """The answer, and the token that ends it where the model stopped by itself."""
    return [*text.encode("utf-8", "replace"), *([IM_END] if stopped else [])]


def logprob_entries(digest: str, index: int, ids: Sequence[int], alternatives: int) -> list[dict[str, Any]]:
    """The protocol's entry for each token: its logprob, a function of the request and the choice.

    With alternatives, also its text, and for a digit the likeliest tokens at its place, itself being the first: scores
    are what a judge's probabilities are wanted for.
    """
    rng = generator(index, digest, "logprobs")
    entries: list[dict[str, Any]] = []
    for token in ids:
        value = -0.01 - 3.0 * rng.random()
        if not alternatives:
            entries.append({"logprob": value})
        elif token in _DIGITS:
            top = _digits(token, 0.9 + 0.1 * value)
            entries.append({**top[0], "top_logprobs": top[:alternatives]})
        else:
            entries.append({"token": _TEXTS[token], "logprob": value, "top_logprobs": []})
    return entries


def _digits(token: int, mass: float) -> list[dict[str, Any]]:
    """The digits at the place of a digit, likeliest first: itself with this mass, and its neighbours with the rest."""
    neighbours = [(digit, share) for digit, share in ((token + 1, 0.7), (token - 1, 0.3)) if digit in _DIGITS]
    rest = (1 - mass) * (1 - _NO_DIGIT) / sum(share for _, share in neighbours)
    shares = [(token, mass), *((digit, rest * share) for digit, share in neighbours)]
    return [{"token": _TEXTS[digit], "logprob": math.log(share)} for digit, share in shares]
