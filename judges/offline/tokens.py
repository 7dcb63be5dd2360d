"""Tokens as the stand-in samples them: bytes, with ChatML's three specials behind them, and made-up logprobs.

The same ids as those of the tokenizer that is bundled with the environments, so that an offline run needs no other.
"""

import math
from collections.abc import Sequence
from typing import Any

from judges.offline.request import RequestMessage
from judges.offline.rng import unit

IM_START, IM_END = 257, 258
_LOGPROBS_DRAWN = 64  # then they repeat: hashing each of thousands of tokens would be the slowest part of an answer
# A byte that is only part of a character has no text of its own.
_TEXTS = {
    IM_END: "<|im_end|>",
    **{byte: chr(byte) if byte < 128 else "\N{REPLACEMENT CHARACTER}" for byte in range(256)},
}
_ZERO, _NINE = b"09"
_NO_DIGIT = 0.02  # the share of tokens that are no digit in what the sampled digit leaves over


def prompt_ids(messages: Sequence[RequestMessage]) -> list[int]:
    """The conversation in ChatML, with the beginning of the answer."""
    ids: list[int] = []
    for message in messages:
        ids += [IM_START, *_bytes(f"{message.role}\n{message.content}"), IM_END, *b"\n"]
    return [*ids, IM_START, *b"assistant\n"]


def completion_ids(text: str, *, stopped: bool) -> list[int]:
    """The answer, and the token that ends it where the model stopped by itself."""
    return [*_bytes(text), *([IM_END] if stopped else [])]


def logprob_entries(digest: str, index: int, ids: Sequence[int], alternatives: int) -> list[dict[str, Any]]:
    """The protocol's entry for each token: its logprob, a function of the request and the choice.

    With alternatives, also its text, and for a digit the likeliest tokens at its place, itself being the first: scores
    are what a judge's probabilities are wanted for.
    """
    drawn = [-0.01 - 3.0 * unit(f"logprob\0{digest}\0{index}\0{number}") for number in range(_LOGPROBS_DRAWN)]
    entries: list[dict[str, Any]] = []
    for position, token in enumerate(ids):
        value = drawn[position % _LOGPROBS_DRAWN]
        if not alternatives:
            entries.append({"logprob": value})
        elif _ZERO <= token <= _NINE:
            top = _digits(token, value, drawn[(position + 1) % _LOGPROBS_DRAWN])
            entries.append({**top[0], "top_logprobs": top[:alternatives]})
        else:
            entries.append({"token": _TEXTS[token], "logprob": value, "top_logprobs": []})
    return entries


def _digits(token: int, value: float, other: float) -> list[dict[str, Any]]:
    """The digits at the place of a digit, likeliest first: itself with 0.6 to 0.9 of the mass, and its neighbours.

    The logprobs drawn for this place and the next decide on the shares, so that nothing more has to be hashed.
    """
    mass = 0.9 + 0.1 * value
    rest = (1 - mass) * (1 - _NO_DIGIT)
    upper = 0.9 + 0.8 / 3 * other
    shares = {token: mass, token - 1: rest * (1 - upper), token + 1: rest * upper}
    if token in (_ZERO, _NINE):
        shares = {token: mass, token + 1 if token == _ZERO else token - 1: rest}
    likeliest = sorted(shares.items(), key=lambda pair: -pair[1])
    return [{"token": _TEXTS[digit], "logprob": math.log(share)} for digit, share in likeliest]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
