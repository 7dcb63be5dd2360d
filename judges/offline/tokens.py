"""Tokens as the stand-in samples them: bytes, with ChatML's three specials behind them, and made-up logprobs.

The same ids as those of the tokenizer that is bundled with the environments, so that an offline run needs no other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from judges.offline.request import Message
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


@dataclass(frozen=True, slots=True)
class Sampled:
    """A token of a completion: its text, its logprob, and the likeliest tokens at its place with theirs."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


def prompt_ids(messages: Sequence[Message]) -> list[int]:
    """The conversation in ChatML, with the beginning of the answer."""
    ids: list[int] = []
    for message in messages:
        ids += [IM_START, *_bytes(f"{message.role}\n{message.content}"), IM_END, *b"\n"]
    return [*ids, IM_START, *b"assistant\n"]


def completion_ids(text: str, *, stopped: bool) -> list[int]:
    """The answer, and the token that ends it where the model stopped by itself."""
    return [*_bytes(text), *([IM_END] if stopped else [])]


def logprobs(digest: str, index: int, ids: Sequence[int]) -> list[float]:
    """A number below 0 for each token, a function of the request and the choice."""
    drawn = [-0.01 - 3.0 * unit(f"logprob\0{digest}\0{index}\0{number}") for number in range(_LOGPROBS_DRAWN)]
    return [drawn[position % _LOGPROBS_DRAWN] for position in range(len(ids))]


def sampled(digest: str, index: int, ids: Sequence[int], count: int) -> list[Sampled]:
    """The tokens with their logprobs; a digit's with the `count` likeliest at its place, itself being the first.

    Other tokens have no alternatives: scores are what a judge's probabilities are wanted for. The logprob of a digit is
    the one that it has among its alternatives, not that of `logprobs`.
    """
    values = logprobs(digest, index, ids)
    found: list[Sampled] = []
    for token, value, following in zip(ids, values, [*values[1:], *values[:1]], strict=True):
        if _ZERO <= token <= _NINE:
            top = _digits(token, value, following)
            found.append(Sampled(_TEXTS[token], top[0][1], top[:count]))
        else:
            found.append(Sampled(_TEXTS[token], value))
    return found


def _digits(token: int, value: float, other: float) -> tuple[tuple[str, float], ...]:
    """The digits at the place of a digit, likeliest first: itself with 0.6 to 0.9 of the mass, and its neighbours.

    The logprobs drawn for this place and the next decide on the shares, so that nothing more has to be hashed.
    """
    mass = 0.9 + 0.1 * value
    rest = (1 - mass) * (1 - _NO_DIGIT)
    upper = 0.9 + 0.8 / 3 * other
    shares = {token - 1: rest * (1 - upper), token + 1: rest * upper}
    if token in (_ZERO, _NINE):
        shares = {token + 1 if token == _ZERO else token - 1: rest}
    likeliest = sorted({token: mass, **shares}.items(), key=lambda pair: -pair[1])
    return tuple((_TEXTS[each], math.log(share)) for each, share in likeliest)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
