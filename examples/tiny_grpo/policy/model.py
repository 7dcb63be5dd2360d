"""A character-level transformer from scratch, small enough to train on a CPU in a minute.

Its token ids are those of the bundled byte tokenizer (`judgegym/environments/rollouts/tokenizers`):
the values of bytes, and then ChatML's three special tokens. It reads every id, and writes only its
alphabet: the logits of all other ids are `NEVER`, so that an untrained policy writes letters and
not broken UTF-8. Before the first step all letters are equally likely.

`forward` is what `example_trainer.training.compute_grpo_loss` calls; `step` is the same network
with a cache of keys and values, for sampling. Both give the same logits up to rounding
(`tests/examples/tiny_grpo/test_model.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.tiny_grpo.tasks import LETTERS
from judgegym.offline.request import IM_END

VOCABULARY = 259
"""256 bytes, `<|endoftext|>`, `<|im_start|>` and `<|im_end|>`."""
NEVER = -1e4
"""The logit of ids that the model never writes: finite, with probability 0 in single precision."""


@dataclass(frozen=True)
class ModelSize:
    """The shape of a model; the default has 140,000 parameters."""

    width: int = 64
    heads: int = 4
    layers: int = 2
    context: int = 128
    alphabet: str = LETTERS


@dataclass(frozen=True)
class Output:
    """The output for the trainer's loss: logits of (sequence, position, id)."""

    logits: Tensor


@dataclass
class Cache:
    """The keys and values of each layer, and which positions of each sequence are padding."""

    keys: list[Tensor]
    values: list[Tensor]
    padding: Tensor  # (sequence, position), true where there is no token

    def repeat(self, counts: Sequence[int]) -> Cache:
        """Return a cache in which each sequence is repeated by its count."""
        times = torch.tensor(counts)
        keys = [layer.repeat_interleave(times, dim=0) for layer in self.keys]
        values = [layer.repeat_interleave(times, dim=0) for layer in self.values]
        return Cache(keys, values, self.padding.repeat_interleave(times, dim=0))


class Block(nn.Module):
    """Causal attention, then a network for each position, both on normalised inputs."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.before_attention = nn.LayerNorm(size.width)
        self.attention = nn.Linear(size.width, 3 * size.width)
        self.joined = nn.Linear(size.width, size.width)
        self.before_network = nn.LayerNorm(size.width)
        self.network = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(), nn.Linear(4 * size.width, size.width)
        )

    def forward(
        self, hidden: Tensor, past: tuple[Tensor, Tensor] | None, mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Return the new hidden states, keys and values; without a mask attention is causal."""
        sequences, positions, width = hidden.shape
        split = self.attention(self.before_attention(hidden))
        query, key, value = split.view(sequences, positions, 3, self.heads, -1).permute(
            2, 0, 3, 1, 4
        )
        if past is not None:
            key = torch.cat([past[0], key], dim=2)
            value = torch.cat([past[1], value], dim=2)
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )
        hidden = hidden + self.joined(seen.transpose(1, 2).reshape(sequences, positions, width))
        return hidden + self.network(self.before_network(hidden)), key, value


class TinyTransformer(nn.Module):
    """Maps token ids to the logits of the next token."""

    def __init__(self, size: ModelSize, *, seed: int) -> None:
        """Draw the weights from the seed."""
        super().__init__()
        self.size = size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(VOCABULARY, size.width)
            self.positions = nn.Embedding(size.context, size.width)
            self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
            self.last = nn.LayerNorm(size.width)
            self.head = nn.Linear(size.width, VOCABULARY)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        never = torch.full((VOCABULARY,), NEVER)
        never[[*size.alphabet.encode(), IM_END]] = 0.0
        self.register_buffer("never", never, persistent=False)

    def forward(self, tokens: Tensor) -> Output:
        """Return the logits after each token of sequences that begin at position 0."""
        hidden = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            hidden, _, _ = block(hidden, None, None)
        return Output(self._logits(hidden))

    def begin(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Cache]:
        """Return the logits after each prompt, and the cache for the tokens that follow."""
        longest = max(len(prompt) for prompt in prompts)
        tokens = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        padding = torch.tensor(
            [[place < longest - len(prompt) for place in range(longest)] for prompt in prompts]
        )
        earlier = torch.ones(longest, longest, dtype=torch.bool).tril()
        # A padding position attends to itself, since a softmax over nothing is not a number.
        mask = (earlier & ~padding[:, None, :]) | torch.eye(longest, dtype=torch.bool)
        return self._continue(tokens, Cache([], [], padding), mask[:, None])

    def step(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return the logits after one more token of each sequence, and the cache with it."""
        padding = functional.pad(cache.padding, (0, 1), value=False)
        return self._continue(
            tokens[:, None], Cache(cache.keys, cache.values, padding), ~padding[:, None, None, :]
        )

    def _continue(self, tokens: Tensor, cache: Cache, mask: Tensor) -> tuple[Tensor, Cache]:
        places = ((~cache.padding).cumsum(dim=1) - 1).clamp_min(0)[:, -tokens.shape[1] :]
        hidden = self.tokens(tokens) + self.positions(places)
        keys, values = [], []
        for number, block in enumerate(self.blocks):
            past = (cache.keys[number], cache.values[number]) if cache.keys else None
            hidden, key, value = block(hidden, past, mask)
            keys.append(key)
            values.append(value)
        return self._logits(hidden[:, -1]), Cache(keys, values, cache.padding)

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(self.last(hidden)) + self.never
        return logits
