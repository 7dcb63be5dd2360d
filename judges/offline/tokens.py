"""Tokens as the stand-in samples them: bytes, with ChatML's three specials behind them, and made-up logprobs.

The same ids as those of the tokenizer that is bundled with the environments, so that an offline run needs no other.
"""

from collections.abc import Sequence

from judges.offline.dice import unit
from judges.offline.request import Message

IM_START, IM_END = 257, 258
_LOGPROBS_DRAWN = 64  # then they repeat: hashing each of thousands of tokens would be the slowest part of an answer


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
