"""SkyRL's own dataset and generator with a stub in the place of its inference engine; prints its output.

Arguments: the directory, the codes that register an environment as JSON, the code of the generator,
texts by row id as JSON. There is an output for each of the environments.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_grpo_outcome_advantage
from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
from skyrl.train.dataset import PromptDataset
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator
from skyrl.train.generators.utils import prepare_generator_input
from skyrl.train.utils.trainer_utils import validate_generator_output
from skyrl_gym.envs.registration import deregister
from transformers import AutoTokenizer

directory, codes, generator, given = (
    sys.argv[1],
    json.loads(sys.argv[2]),
    sys.argv[3],
    json.loads(sys.argv[4]),
)
tokenizer = AutoTokenizer.from_pretrained(
    Path("judgegym/environments/rollouts/tokenizers/bytes").resolve()
)
os.chdir(directory)
space = {}
exec(generator, space)


class Stub(InferenceEngineInterface):
    """Answers each session with the text of its row and repetition."""

    model_name = "stub"

    def __init__(self, uids):
        self.uids = uids

    async def generate(self, input_batch, model=None):
        (session,) = input_batch["session_ids"]
        instance, repetition = session.split("_")
        text = given[self.uids[int(instance)]][int(repetition)]
        ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        return {"responses": [text], "response_ids": [ids], "stop_reasons": ["stop"]}

    async def finish_session(self, session_id):
        pass


for name in InferenceEngineInterface.__abstractmethods__ - set(vars(Stub)):
    setattr(Stub, name, None)
Stub.__abstractmethods__ = frozenset()


def settings():
    config = GeneratorConfig(max_input_length=100_000)
    config.sampling_params.logprobs = None
    return config


async def generated(kind, dataset, uids, samples):
    batch = dataset.collate_fn([dataset[place] for place in range(len(dataset))])
    inputs, groups = prepare_generator_input(batch, samples, None, "none", "train", 1)
    made = kind(settings(), SkyRLGymConfig(), Stub(uids), tokenizer)
    output = await made.generate(inputs, disable_tqdm=True)
    validate_generator_output(len(inputs["prompts"]), output)
    width = max(map(len, output["rewards"]))
    rewards = torch.tensor(
        [[*reward, *[0.0] * (width - len(reward))] for reward in output["rewards"]]
    )
    mask = torch.tensor([[*mask, *[0] * (width - len(mask))] for mask in output["loss_masks"]])
    advantages, _ = compute_grpo_outcome_advantage(rewards, mask, np.array(groups))
    return {
        "rewards": [sum(reward) for reward in output["rewards"]],
        "trained": [sum(mask) for mask in output["loss_masks"]],
        "advantages": [row[0].item() for row in advantages],
        "env_metrics": output["env_metrics"],
        "metrics": {
            name: value
            for name, value in output["rollout_metrics"].items()
            if "environment" in name
        },
    }


async def output_of(code):
    exec(code, space)
    dataset = PromptDataset("train.jsonl", tokenizer, max_prompt_length=100_000, num_workers=1)
    uids = [dataset[place][2]["reward_spec"]["uid"] for place in range(len(dataset))]
    kept = [place for place, uid in enumerate(uids) if uid in given]
    dataset.dataframe = dataset.dataframe.select(kept)
    uids = [uids[place] for place in kept]
    samples = len(given[uids[0]])
    found = {
        "uids": uids,
        "plain": await generated(SkyRLGymGenerator, dataset, uids, samples),
        "left_out": await generated(space["JudgedGenerator"], dataset, uids, samples),
    }
    deregister(space["env_class"])
    return found


async def main():
    return [await output_of(code) for code in codes]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
