"""A policy that thinks first: the supervised training before GRPO, and what is measured of its completions."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[examples]'")

from examples.tiny_grpo.policy.model import ModelSize, TinyTransformer  # noqa: E402  # they need torch
from examples.tiny_grpo.policy.sampling import SampledCompletion  # noqa: E402
from examples.tiny_grpo.policy.served import ServedPolicy  # noqa: E402
from examples.tiny_grpo.policy.warm_up import warm_up  # noqa: E402
from examples.tiny_grpo.tasks import THINKING_LETTERS  # noqa: E402
from examples.tiny_grpo.training.batches import BatchNumbers, compute_numbers  # noqa: E402

PROMPT = (257, 97, 258)


class Remembering(ServedPolicy):
    """Has sampled everything, with its first weights."""

    def version_of(self, completion: SampledCompletion) -> int:
        return 0


def measured(*texts: str, thinks: bool) -> BatchNumbers:
    size = ModelSize(width=16, heads=2, layers=1, context=64)
    ids = [[*text.encode(), 258] for text in texts]
    group = {
        "tokens": [[*PROMPT, *each] for each in ids],
        "masks": [[-100] * len(PROMPT) + each for each in ids],
        "inference_logprobs": [[1.0] * len(PROMPT) + [-0.5] * len(each) for each in ids],
        "scores": [float(number) for number in range(len(ids))],
        "overrides": None,
    }
    return compute_numbers([group], Remembering(size, seed=0), "e", thinks=thinks)


def test_the_letter_is_counted_in_answers_and_not_in_thinking() -> None:
    numbers = measured(
        "<think>eeee</think>tree", "<think>a</think>eeee", "eeee", "<think>e</think>", thinks=True
    )
    assert numbers.well_formed == 0.5
    assert numbers.letter_share == pytest.approx((0.5 + 1.0) / 4)


def test_a_warm_up_teaches_the_form() -> None:
    torch.set_num_threads(1)
    size = ModelSize(width=32, heads=2, layers=1, context=64, alphabet=THINKING_LETTERS)
    losses = [
        warm_up(TinyTransformer(size, seed=0), [PROMPT], steps=steps, seed=0) for steps in (1, 25)
    ]
    assert losses[1] < 0.85 * losses[0]
