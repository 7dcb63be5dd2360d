"""Tokenize a conversation and its answer: chat template for the prompt, tokenizer for the completion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from environments.data.hub import why_out_of_reach
from environments.rollouts.sequences import TokenSequence
from judges.llm.errors import SettingsError
from judges.llm.wire import Message

# A text that occurs in no template, and that no template changes.
_SENTINEL = "judgegymsentinel"


class Retokenizer:
    """A policy's tokenizer, loaded at its first use."""

    def __init__(self, name: str) -> None:
        """Take a tokenizer from the hub or from a folder, by name."""
        self.name = name

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

    def sequence(self, conversation: Sequence[Message], text: str, *, stopped: bool) -> TokenSequence:
        """Tokenize a conversation and the answer to it; there are no logprobs.

        Args:
            conversation: the policy's prompt.
            text: its answer.
            stopped: whether it ended its turn by itself; only then the token that ends the turn is appended.
        """
        # return_dict=False: with transformers 5 the default is a mapping, whose length is not that of the prompt.
        prompt = self._render(conversation, add_generation_prompt=True, tokenize=True, return_dict=False)
        completion = self.tokenizer.encode(text, add_special_tokens=False)
        end = (self.end_of_turn,) if stopped else ()
        return TokenSequence(tuple(prompt), (*completion, *end), None)

    def _render(self, messages: Sequence[Message], **options: bool) -> Any:
        """Apply the tokenizer's chat template."""
        try:
            return self.tokenizer.apply_chat_template(list(messages), **options)
        except ValueError as error:
            raise SettingsError(f"--env.tokenizer_name: {self.name!r} has no chat template") from error

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

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
