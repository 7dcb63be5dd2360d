"""What `serve` sends, in the trainer that Atropos ships. Needs torch, which nothing else here does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.arena import Arena, model_is_a
from tests.scripted import Json, Reply, completion
from tests.serving import answer, first_wins, judging, serve, which
from tests.trainer import Batch, training

torch = pytest.importorskip("torch")
data = pytest.importorskip(
    "example_trainer.data", reason="the trainer's own requirements are not installed"
)
grpo = pytest.importorskip(
    "example_trainer.training", reason="the trainer's own requirements are not installed"
)

TEMPERATURE = 0.5
PROMPT = [1, 2, 3]


class Bigram(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A tiny model with random weights: the next byte, from the last one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(256, 256)

    def forward(self, tokens: Any) -> Any:
        return SimpleNamespace(logits=self.table(tokens))

    def logprobs(self, prompt: list[int], ids: list[int]) -> list[float]:
        """What a policy with these weights says of tokens that it sampled."""
        logits = self.table(torch.tensor([prompt[-1], *ids[:-1]])) / TEMPERATURE
        found: list[float] = torch.log_softmax(logits, -1)[range(len(ids)), ids].tolist()
        return found


@pytest.fixture
def model() -> Bigram:
    return Bigram()


async def batch_of(arena: Arena, model: Bigram) -> Batch:
    """Four groups of four; in each, the judge has no verdict for the third completion."""

    def policy(request: Json, number: int) -> Reply:
        body = completion(
            *(answer(request, number, index) + "!" * (30 * index) for index in range(4))
        )
        for choice in body["choices"]:
            ids = list(choice["message"]["content"].encode())
            choice["token_ids"] = ids
            choice["logprobs"] = {
                "content": [{"logprob": each} for each in model.logprobs(PROMPT, ids)]
            }
        return Reply(body={**body, "prompt_token_ids": PROMPT})

    def silent_about_the_third(request: Json, number: int) -> Reply | str:
        index, _ = which(request["messages"][1]["content"])
        return "Hm." if index == 2 and model_is_a(request) else judging(first_wins)(request, number)

    flags = f"--env.rollout_temperature={TEMPERATURE}", "--env.judge_reask=0"
    async with (
        training(16) as trainer,
        serve(arena, trainer.url, *flags, policy=policy, judge=silent_about_the_third),
    ):
        (batch,) = await trainer.take()
    return batch


# Losses: Atropos' example trainer | GRPO | `judgegym serve` | safe
async def test_a_batch_in_the_trainer(arena: Arena, model: Bigram) -> None:
    batch = await batch_of(arena, model)
    sent = [
        ([each for each in mask if each != -100], [each for each in logprobs if each != 1.0])
        for group in batch
        for mask, logprobs in zip(group["masks"], group["inference_logprobs"], strict=True)
    ]
    padded = data.pad_data_to_good_offset({"batch": batch}, batch_size=4)
    tokens, labels, advantages, temperatures, logprobs = (torch.cat(each) for each in padded)
    assert temperatures.unique().tolist() == [TEMPERATURE]
    for row, (ids, its_logprobs) in enumerate(sent):
        generated = labels[row] != -100
        assert labels[row][generated].tolist() == ids, "nothing that was generated is masked"
        assert logprobs[row][generated].tolist() == pytest.approx(its_logprobs)
        assert logprobs[row][~generated].unique().tolist() == [1.0]
        assert tokens[row][: len(PROMPT) + len(ids) - 1].tolist() == [*PROMPT, *ids][:-1]
    for group in advantages.view(4, 4):
        first, second, failed, fourth = group.tolist()
        assert failed == 0, "the judge's failure moves nothing"
        assert first > 0 > second == fourth
        assert first + second + fourth == pytest.approx(0)

    loss, metrics = grpo.compute_grpo_loss(
        model, tokens, labels, advantages, temperatures, 1, logprobs
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert model.table.weight.grad.abs().sum() > 0
    assert metrics["mean_ratio"] == pytest.approx(1, abs=1e-4), (
        "token by token, the policy's logprobs are the model's"
    )
    assert metrics["logprob_diff_max"] < 1e-4
    assert metrics["clipped_fraction"] == 0
