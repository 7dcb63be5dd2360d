"""Supervised training before GRPO: the policy learns to think first.

An instruction-tuned model has learned that before. The policy is trained on random letters between
the tags and after them, so it learns the form of an answer
and nothing about the judge. At the end nearly all of its completions are well-formed; GRPO sees the
malformed rest.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch.nn import functional

from examples.tiny_grpo.policy.model import TinyTransformer
from examples.tiny_grpo.tasks import LETTERS
from judgegym.judges.parsing.thinking import CLOSE, OPEN
from judgegym.offline.request import IM_END

_BATCH = 32
_LEARNING_RATE = 3e-3
_LARGEST_GRADIENT = 1.0
_THINKING, _ANSWER = (1, 4), (4, 12)  # from how many letters to how many
_NO_LABEL = -100


def warm_up(
    model: TinyTransformer, prompts: Sequence[Sequence[int]], *, steps: int, seed: int
) -> float:
    """Train `model` to answer these prompts in the form; return the last loss."""
    drawn = random.Random(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    loss = torch.zeros(())
    for _ in range(steps):
        tokens, labels = _batch(
            [(drawn.choice(prompts), _completion(drawn)) for _ in range(_BATCH)]
        )
        logits = model(tokens[:, :-1]).logits
        loss = functional.cross_entropy(
            logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_NO_LABEL
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), _LARGEST_GRADIENT)
        optimizer.step()
    return float(loss.item())


def _completion(drawn: random.Random) -> list[int]:
    thinking, answer = (
        "".join(drawn.choices(LETTERS, k=drawn.randint(*length))) for length in (_THINKING, _ANSWER)
    )
    return [*f"{OPEN}{thinking}{CLOSE}{answer}".encode(), IM_END]


def _batch(
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids, and the same ids as labels where they belong to a completion."""
    longest = max(len(prompt) + len(completion) for prompt, completion in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full_like(tokens, _NO_LABEL)
    for number, (prompt, completion) in enumerate(rows):
        end = len(prompt) + len(completion)
        tokens[number, :end] = torch.tensor([*prompt, *completion])
        labels[number, len(prompt) : end] = torch.tensor(completion)
    return tokens, labels
