"""Tokenize a conversation and its answers: chat template for the prompt, tokenizer for the completions.

The tokenizer works in one thread of its own: seconds of work for a large group stop no event loop, and no two threads
use it at once, which it does not allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from judgegym.data.hub import why_out_of_reach
from judgegym.environments.rollouts.scored_group import TokenSequence
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Message

ResultT = TypeVar("ResultT")

# A text that occurs in no template, and that no template changes.
_SENTINEL = "judgegymsentinel"


class Retokenizer:
    """A policy's tokenizer, loaded at its first use."""

    def __init__(self, name: str) -> None:
        """Take a tokenizer from the hub or from a folder, by name."""
        self.name = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    @cached_property
    def tokenizer(self) -> Any:
        """Return the Hugging Face tokenizer.

        Raises:
            SettingsError: it cannot be loaded.
        """
        is_local = Path(self.name).exists()
        unreachable = None if is_local else why_out_of_reach()
        from transformers import AutoTokenizer  # late: evaluation needs none

        try:
            return AutoTokenizer.from_pretrained(self.name)
        except (OSError, ValueError) as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if unreachable is not None:
                why = f"the hub cannot be reached ({unreachable}), and the tokenizer is not in the cache"
            place = "in the folder" if is_local else "of the name on the Hugging Face hub"
            raise SettingsError(
                f"--env.tokenizer_name: no tokenizer {place} {self.name!r}: {why}. Name the tokenizer of the policy (a "
                "hub name or a folder); an endpoint that returns token ids needs none"
            ) from error

    async def sequences(
        self, conversation: Sequence[Message], texts: Sequence[str], *, stopped: Sequence[bool]
    ) -> list[TokenSequence]:
        """Tokenize a conversation and the answers to it; there are no logprobs.

        Args:
            conversation: the policy's prompt.
            texts: its answers.
            stopped: whether each ended its turn by itself; only then the token that ends the turn is appended.
        """

        def tokenize() -> list[TokenSequence]:
            # return_dict=False: with transformers 5 the default is a mapping, whose length is not that of the prompt.
            prompt = tuple(self._render(conversation, add_generation_prompt=True, tokenize=True, return_dict=False))
            found = self.tokenizer(  # all at once: for a batch it lets the other threads run
                list(texts), add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
            )["input_ids"]
            return [
                TokenSequence(prompt, (*ids, self.end_of_turn) if ended else tuple(ids), None)
                for ids, ended in zip(found, stopped, strict=True)
            ]

        return await self._in_thread(tokenize)

    def _render(self, messages: Sequence[Message], **options: bool) -> Any:
        """Apply the tokenizer's chat template."""
        try:
            return self.tokenizer.apply_chat_template(list(messages), **options)
        except ValueError as error:
            raise SettingsError(f"--env.tokenizer_name: {self.name!r} has no chat template") from error

    async def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of sequences of token ids, special tokens included."""

        def decode() -> list[str]:
            return [str(self.tokenizer.decode(list(ids), skip_special_tokens=False)) for ids in sequences]

        return await self._in_thread(decode)

    async def _in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @cached_property
    def end_of_turn(self) -> int:
        """Return the token with which the template ends an assistant's turn; it may differ from `eos_token`.

        Raises:
            SettingsError: the tokenizer has no chat template, or neither the template nor the tokenizer ends a turn.
        """
        messages = [Message(role="user", content="hi"), Message(role="assistant", content=_SENTINEL)]
        rendered = str(self._render(messages, tokenize=False))
        after = rendered.rpartition(_SENTINEL)[2]
        ids = self.tokenizer.encode(after.lstrip(), add_special_tokens=False) if after.strip() else []
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.get_added_vocab().values())
        if ids and ids[0] in special:
            return int(ids[0])
        if self.tokenizer.eos_token_id is None:
            raise SettingsError(f"--env.tokenizer_name: {self.name!r} has no token that ends a turn")
        return int(self.tokenizer.eos_token_id)
