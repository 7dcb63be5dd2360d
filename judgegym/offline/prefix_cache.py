"""The prefix cache of the stand-in: the beginnings of prompts that it has seen, in blocks, as vLLM keeps them."""

from collections import OrderedDict
from collections.abc import Sequence

from judgegym.offline.protocol.request import RequestMessage

BLOCK_TOKENS = 16
_CHARACTERS = 4 * BLOCK_TOKENS  # the stand-in counts four characters as a token
_BLOCKS_KEPT = 200_000


class PrefixCache:
    """Knows the blocks of the prompts that it was shown last; a block counts with all text before it."""

    def __init__(self) -> None:
        """Know no prompt."""
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, messages: Sequence[RequestMessage]) -> int:
        """How many tokens this prompt and earlier ones have in common at their beginning; it is known from now on."""
        text = "".join(f"<{role}>{content}" for role, content in messages)
        before, known, is_known = 0, 0, True
        for start in range(0, len(text) - _CHARACTERS + 1, _CHARACTERS):
            before = hash((before, text[start : start + _CHARACTERS]))
            is_known = is_known and before in self._blocks
            known += is_known
            self._blocks[before] = None
            self._blocks.move_to_end(before)
        while len(self._blocks) > _BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return known * BLOCK_TOKENS
