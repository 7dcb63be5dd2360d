"""The policy: a model from scratch, and its endpoint, through this project's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from judgegym.engine.completions import Conversation
from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig, PolicySettings
from judgegym.environments.rollouts.groups import Rollout
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import ChatSource
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Message

torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[examples]'")

from examples.tiny_grpo.policy.endpoint import serve_policy  # noqa: E402  # they need torch
from examples.tiny_grpo.policy.model import ModelSize, TinyTransformer  # noqa: E402
from examples.tiny_grpo.policy.sampling import Prompt, SampledCompletion, sample  # noqa: E402
from examples.tiny_grpo.policy.served import ServedPolicy  # noqa: E402

SAME = 1e-3
END = 258
CONVERSATION: Conversation = [
    Message(role="system", content="Be brief."),
    Message(role="user", content="Why?"),
]
SIZE = ModelSize(width=16, heads=2, layers=2, context=96)


def trained(seed: int) -> TinyTransformer:
    """A model with a head that is not zero, so that no token is as likely as another."""
    model = TinyTransformer(SIZE, seed=0)
    torch.manual_seed(seed)
    torch.nn.init.normal_(model.head.weight, std=0.5)
    return model


def recomputed(
    model: TinyTransformer,
    prompt: tuple[int, ...],
    completion: SampledCompletion,
    temperature: float,
) -> list[float]:
    """The logprobs of a completion by one pass over the whole sequence, as the trainer computes them."""
    tokens = torch.tensor([[*prompt, *completion.ids]])
    logprobs = torch.log_softmax(model(tokens[:, :-1]).logits[0] / temperature, dim=-1)
    found: list[float] = logprobs[
        range(len(prompt) - 1, tokens.shape[1] - 1), completion.ids
    ].tolist()
    return found


@pytest.fixture
async def policy() -> ServedPolicy:
    served = ServedPolicy(SIZE, seed=0)
    served.publish(trained(1))
    return served


@pytest.fixture
async def source(policy: ServedPolicy) -> AsyncIterator[ChatSource]:
    env = EnvConfig(
        tokenizer_name=str(BUNDLED_TOKENIZER), rollout_temperature=0.7, train_max_tokens=20
    )
    with serve_policy(policy) as url:
        settings = PolicySettings(base_url=url).chat_settings(env, max_concurrency=64)
        async with ChatClient(settings) as client:
            yield ChatSource(client, env, Retokenizer(env.tokenizer_name), settled="chat")


def test_before_its_first_step_a_model_writes_all_of_its_alphabet_alike_and_nothing_else() -> None:
    model = TinyTransformer(ModelSize(alphabet="ab "), seed=3)
    probabilities = model(torch.tensor([[257, 1, 2]])).logits.softmax(-1)[0, -1]
    assert probabilities[[*b"ab ", END]].tolist() == pytest.approx([0.25] * 4)
    assert probabilities.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_samples_of_one_batch_have_the_logprobs_of_the_whole_sequence(temperature: float) -> None:
    model = trained(2)
    prompts = [
        Prompt(tuple(range(5, 5 + length)), 4, 20 - length, temperature) for length in (3, 9, 6)
    ]
    for prompt, completions in zip(prompts, sample(model, prompts), strict=True):
        assert len(completions) == 4
        for each in completions:
            assert 1 <= len(each.ids) <= prompt.max_tokens
            assert each.stopped or len(each.ids) == prompt.max_tokens
            assert END not in each.ids[:-1]
            assert recomputed(model, prompt.ids, each, temperature) == pytest.approx(
                each.logprobs, abs=1e-4
            )


async def test_rollouts_of_the_endpoint_have_ids_and_logprobs_that_the_model_recomputes(
    policy: ServedPolicy, source: ChatSource
) -> None:
    sampled = await asyncio.gather(*(source.sample(CONVERSATION, 5) for _ in range(3)))
    rollouts: list[Rollout] = [rollout for rollouts, _ in sampled for rollout in rollouts]
    assert len(rollouts) == 15
    assert len({rollout.sequence.completion for rollout in rollouts}) > 10, (
        "samples, and not one answer again"
    )
    chat = [{"role": message["role"], "content": message["content"]} for message in CONVERSATION]
    template = Retokenizer(str(BUNDLED_TOKENIZER)).tokenizer
    prompt = template.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    for rollout in rollouts:
        sequence = rollout.sequence
        assert list(sequence.prompt) == prompt
        assert sequence.logprobs is not None
        completion = SampledCompletion(sequence.completion, sequence.logprobs)
        assert completion.text == rollout.text
        assert (rollout.completion.finish_reason == "stop") is completion.stopped
        assert recomputed(trained(1), sequence.prompt, completion, 0.7) == pytest.approx(
            sequence.logprobs, abs=SAME
        )
        assert policy.find_version(completion) == 1
    assert {run.usage.prompt_tokens for _, run in sampled} == {len(prompt)}


async def test_new_weights_are_those_of_the_next_batch(
    policy: ServedPolicy, source: ChatSource
) -> None:
    policy.publish(trained(7))
    rollouts, _ = await source.sample(CONVERSATION, 3)
    for rollout in rollouts:
        assert rollout.sequence.logprobs is not None
        completion = SampledCompletion(rollout.sequence.completion, rollout.sequence.logprobs)
        found = recomputed(trained(7), rollout.sequence.prompt, completion, 0.7)
        assert found == pytest.approx(completion.logprobs, abs=SAME)
        assert policy.find_version(completion) == 2
        with pytest.raises(ValueError, match="has not sampled"):
            policy.find_version(
                SampledCompletion(completion.ids, (*completion.logprobs[:-1], -0.5))
            )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stream": True}, "'stream' must be"),
        ({"logprobs": True, "top_logprobs": 3}, "'top_logprobs' must be 0"),
        ({"messages": [{"role": "user", "content": "x" * 96}]}, "the context 96"),
        ({"n": 0}, "'n': Input should be greater"),
    ],
)
async def test_what_it_cannot_do_is_refused(
    policy: ServedPolicy, change: dict[str, object], said: str
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Why?"}], **change}
    with serve_policy(policy) as url:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/chat/completions", json=body) as response,
        ):
            assert response.status == 400
            assert said in (await response.json())["error"]["message"]
