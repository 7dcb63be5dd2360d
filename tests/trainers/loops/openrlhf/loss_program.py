"""What OpenRLHF's loss is given of samples: its own executor, experience maker and policy loss, on a CPU.

Arguments: forms as JSON (`agent=FILE`, or a file with a `reward_func`), estimators, and samples of
one prompt. Prints for each form and estimator the advantage and the size of the gradient of each
sample. What needs a GPU or a cluster and is not called here (Ray, vLLM, DeepSpeed, the models) is
absent.
"""

import asyncio
import json
import sys
from types import ModuleType, SimpleNamespace

import program
import torch


def absent(name, **names):
    module = ModuleType(name)
    vars(module).update(names)
    module.__path__ = []
    sys.modules[name] = module


for package in ("deepspeed", "ray", "openrlhf.trainer.ray"):
    absent(package)
absent("vllm", SamplingParams=object)
absent("openrlhf.models.actor", Actor=object)
absent("openrlhf.models.model", get_llm_for_sequence_regression=None)
absent("openrlhf.trainer.ray.launcher", RayActorGroup=object)
absent("openrlhf.trainer.ray.vllm_engine", batch_vllm_engine_call=None)

from openrlhf.models.loss import PolicyLoss  # noqa: E402  # needs the absent
from openrlhf.trainer.ppo_utils.experience import Experience  # noqa: E402
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker  # noqa: E402
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator  # noqa: E402


def number(value):
    return value[0] if isinstance(value, list) else value


def experience_of(responses):
    """As the generator of samples makes it, with numbers in the place of what a function's lists of one are."""
    flat = [
        {**each, "reward": number(each["reward"]), "scores": number(each["scores"])}
        for each in responses
    ]
    make = SamplesGenerator._process_response_into_experience
    samples = [make(None, {**each, "extra_logs": {}}, max_len=4096) for each in flat]
    whole = Experience.concat_experiences(samples, 0)
    whole.index = list(range(len(samples)))
    whole.kl = torch.zeros_like(whole.action_mask, dtype=torch.float32)
    whole.values = torch.zeros_like(whole.kl)
    return whole


def trained(responses, estimator):
    experience = experience_of(responses)
    maker = RemoteExperienceMaker.__new__(RemoteExperienceMaker)
    advantage = SimpleNamespace(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=False)
    maker.advantage_estimator, maker.kl_ctl = estimator, SimpleNamespace(value=0.0)
    maker.strategy = SimpleNamespace(
        args=SimpleNamespace(
            algo=SimpleNamespace(advantage=advantage),
            rollout=SimpleNamespace(n_samples_per_prompt=len(responses), max_new_tokens=64),
            reward=SimpleNamespace(
                clip_range=None,
                overlong_buffer_len=None,
                overlong_penalty_factor=None,
                stop_properly_penalty_coef=None,
            ),
        )
    )
    (experience,) = maker.compute_advantages_and_returns([experience])
    log_probs = torch.full_like(experience.values, -1.0, requires_grad=True)
    mask = experience.action_mask
    loss, *_ = PolicyLoss()(log_probs, log_probs.detach(), experience.advantages, action_mask=mask)
    loss.backward()
    return {
        "advantages": ((experience.advantages * mask).sum(-1) / mask.sum(-1).clamp(min=1)).tolist(),
        "gradients": log_probs.grad.abs().sum(-1).tolist(),
    }


async def sampled(form, samples):
    executor = program.executor_of(form)

    async def one(sample):
        params = SimpleNamespace(max_tokens=64, logprobs=None)
        engine = program.Engine(program.TOKENIZER, sample["response"])
        return await executor.execute(
            sample["prompt"], sample["label"], params, 4096, program.TOKENIZER, engine
        )

    return list(await asyncio.gather(*(one(sample) for sample in samples)))


def main():
    forms, estimators, samples = (json.loads(argument) for argument in sys.argv[1:4])
    results = {}
    for name, form in forms.items():
        responses = asyncio.run(sampled(form, samples))
        results[name] = {estimator: trained(responses, estimator) for estimator in estimators}
    print(json.dumps(results))


main()
