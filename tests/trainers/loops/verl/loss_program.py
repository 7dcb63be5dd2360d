"""What verl's loss is given of samples: its own agent loop's class, advantage estimators and aggregation of the loss.

Arguments: forms as JSON (`loop` or `manager`, with overrides of verl's configuration), estimators,
prompt and responses of one group. Prints for each form and estimator the advantage of each sample,
and the size of its gradient.
"""

import asyncio
import inspect
import json
import sys

import hydra
import numpy as np
import torch
import transformers
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.trainer.ppo import core_algos
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from judgegym.llm.errors import SettingsError
from judgegym_trainers.verl.loop import JudgeAgentLoop
from judgegym_trainers.verl.manager import JudgeRewardManager

PATH = "judgegym/environments/rollouts/tokenizers/bytes"
TOKENIZER = transformers.AutoTokenizer.from_pretrained(PATH)


def ids_of(text):
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


class Server:
    """Answers with a text."""

    def __init__(self, text):
        self.text = text

    async def generate(self, **_):
        return TokenOutput(token_ids=ids_of(self.text), stop_reason="completed")


def config_of(overrides):
    given = [
        f"actor_rollout_ref.model.path={PATH}",
        "actor_rollout_ref.rollout.name=vllm",
        *overrides,
    ]
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        return hydra.compose("ppo_trainer", given)


def row_of(prompt):
    messages = [{"role": "user", "content": prompt}]
    return {
        "raw_prompt": messages,
        "uid": "one",
        "reward_model": {"ground_truth": None},
        "extra_info": {},
    }


async def by_loop(config, prompt, text):
    """The tokens' mask and the reward, as the loop gives them."""
    (named,) = OmegaConf.load("judgegym_trainers/verl/config/agent_loop.yaml")
    loop = hydra.utils.instantiate(
        named,
        trainer_config=DictConfigWrap(config=config),
        server_manager=Server(text),
        tokenizer=TOKENIZER,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
    )
    assert isinstance(loop, JudgeAgentLoop)
    output = await loop.run({}, **row_of(prompt))
    return (
        output.response_mask,
        output.reward_score,
        output.extra_fields["reward_extra_info"]["judge_failed"],
    )


async def by_manager(manager, prompt, text):
    """The same, where all tokens of a response are trained."""
    prompts, responses = ids_of(prompt), ids_of(text)
    tensors = {
        "prompts": torch.tensor([prompts]),
        "responses": torch.tensor([responses]),
        "attention_mask": torch.ones(1, len(prompts) + len(responses), dtype=torch.long),
    }
    columns = {name: np.array([None], dtype=object) for name in row_of(prompt)}
    for name, value in row_of(prompt).items():
        columns[name][0] = value
    result = await manager.run_single(DataProto.from_dict(tensors=tensors, non_tensors=columns))
    return [1] * len(responses), result["reward_score"], result["reward_extra_info"]["judge_failed"]


async def sampled(form, config, prompt, texts):
    if form == "loop":
        return await asyncio.gather(*(by_loop(config, prompt, text) for text in texts))
    manager = JudgeRewardManager(config, TOKENIZER, None)
    return await asyncio.gather(*(by_manager(manager, prompt, text) for text in texts))


def trained(samples, estimator, config):
    width = max(len(mask) for mask, *_ in samples)
    mask = torch.tensor([[*mask, *[0] * (width - len(mask))] for mask, *_ in samples])
    rewards = torch.zeros(mask.shape)
    for place, (of_one, reward, _) in enumerate(samples):
        rewards[place, len(of_one) - 1] = reward
    known = {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "index": np.array(["one"] * len(samples)),
        "config": config.algorithm,
        "values": torch.zeros(mask.shape),
        "gamma": torch.tensor(1.0),
        "lam": torch.tensor(1.0),
        "reward_baselines": torch.full((len(samples),), 0.25),
    }
    function = core_algos.get_adv_estimator_fn(estimator)
    wanted = [name for name in inspect.signature(function).parameters if name in known]
    advantages, _ = function(
        **{
            name: known[name].clone() if name == "token_level_rewards" else known[name]
            for name in wanted
        }
    )
    gradients = torch.zeros(len(samples))
    for mode in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"):
        log_probs = torch.zeros(mask.shape, requires_grad=True)
        core_algos.agg_loss(-log_probs.exp() * advantages, mask, mode).backward()
        gradients += log_probs.grad.abs().sum(-1)
    means = (advantages * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    return {"advantages": means.tolist(), "gradients": gradients.tolist()}


def main():
    forms, estimators, prompt, texts = (json.loads(argument) for argument in sys.argv[1:5])
    results = {}
    for name, (form, overrides) in forms.items():
        config = config_of([f"actor_rollout_ref.rollout.n={len(texts)}", *overrides])
        try:
            samples = asyncio.run(sampled(form, config, prompt, texts))
        except SettingsError as refusal:
            results[name] = f"SettingsError: {refusal}"
            continue
        results[name] = {estimator: trained(samples, estimator, config) for estimator in estimators}
        results[name]["failed"] = [failed for *_, failed in samples]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
